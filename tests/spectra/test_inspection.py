import json

import numpy as np
import pytest

from geonode.config import SpectraParameters
from geonode.errors import SpectraError
from geonode.parameters_file import parse_yaml
from geonode.spectra.inspection import BARS, inspect_file, noise_along_the_axis, one_line_spectra

AXIS = np.arange(300.0, 420.0, 2.0)


def written(folder, levels, noise=0.01, name="series.csv"):
    """Wide text of smooth spectra with noise, the second level measured twice."""
    random = np.random.default_rng(0)
    names = [f"{level:g} ppb" for level in levels]
    names.insert(2, f"{names[1]}__r2")
    rows = [";".join(["wavelength_nm", *names])]
    for axis in AXIS:
        signal = np.sin(axis / 30) + noise * random.normal(size=len(names))
        rows.append(
            ";".join([f"{axis:g}", *(f"{value:.6f}".replace(".", ",") for value in signal)])
        )
    path = folder / name
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


def test_what_a_file_holds_is_said(tmp_path):
    path = written(tmp_path, [0, 5, 20, 60])
    path.write_text(path.read_text().replace("\n310;", "\n310;;", 1).replace(";;0", ";;0", 1))
    lines = path.read_text().splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("310;"))
    lines[place] = ";".join(lines[place].split(";")[:6])
    path.write_text("\n".join(lines), encoding="utf-8")
    found = inspect_file(path)
    assert found.format == "text, delimiter semicolon, decimal comma, one column a spectrum"
    assert (found.levels, found.scans) == ([0, 5, 20, 60], [1, 2, 1, 1])
    assert (found.axis_name, found.axis_unit, found.concentration_unit) == (
        "wavelength",
        "nm",
        "ppb",
    )
    assert (found.axis_range, found.axis_step, found.wavelengths) == ((300, 418), 2, 59)
    assert found.masked == [310]
    assert 0.008 < found.noise < 0.012  # 0.01; 290 residuals, of which the median is taken
    assert 0.008 < found.replicate_noise < 0.012
    text = found.text()
    for part in (
        "semicolon",
        "300 to 418, step 2",
        "masked         310",
        "2 scans",
        "missing: mask",
    ):
        assert part in text
    assert json.loads(json.dumps(found.to_json()))["axis_range"] == [300, 418]
    with pytest.raises(SpectraError, match=r"series\.csv: row 7, column '.*': found an empty"):
        inspect_file(path, missing="refuse")


@pytest.mark.parametrize(
    ("levels", "chart"),
    [
        ([0, 1, 10, 10000], "linear"),
        ([1, 2, 3, 100], "linear"),
        ([1, 2, 3, 101], "log"),
    ],
)
@pytest.mark.parametrize("window", [None, (310.0, 400.5)])
def test_the_proposed_parameters_are_parameters(tmp_path, levels, chart, window):
    path = written(tmp_path, levels, name="a: 'b' #\"c.csv")
    block = parse_yaml(inspect_file(path, window=window).proposal)
    assert list(block) == ["spectra"]
    parameters = SpectraParameters.model_validate(block["spectra"])
    assert (parameters.source, parameters.chart) == (str(path), chart)
    assert (parameters.window, parameters.missing) == (window, "refuse")
    assert parameters.concentration_unit == "ppb"


def test_quantity_and_unit_come_from_the_file_where_it_says_them(tmp_path):
    path = tmp_path / "long.tsv"
    rows = [f"{level}\t{axis}\t{axis * level}" for level in range(1, 5) for axis in range(4)]
    path.write_text("\n".join(["conc\tnm\tFluorescence (counts)", *rows]), encoding="utf-8")
    block = parse_yaml(inspect_file(path).proposal)["spectra"]
    assert (block["quantity"], block["unit"]) == ("fluorescence", "counts")


@pytest.mark.parametrize("even", [True, False])
def test_noise_is_found_under_smooth_spectra_and_spikes(even):
    random = np.random.default_rng(1)
    axis = np.linspace(0, 1, 4001) if even else np.sort(random.uniform(size=4001))
    scans = np.exp(-((axis - 0.5) ** 2) / 0.02) + random.normal(scale=0.03, size=(3, 4001))
    scans[:, ::97] += 5
    # Standard error of a median absolute deviation of 12,000 correlated residuals: some 2%.
    assert noise_along_the_axis(axis, scans) == pytest.approx(0.03, rel=0.08)


def test_a_straight_line_has_no_noise():
    axis = np.array([1.0, 2.0, 4.0, 7.0, 7.5])
    assert noise_along_the_axis(axis, np.stack([3 * axis + 1, 2 - axis])) == pytest.approx(
        0, abs=1e-15
    )


def test_lines_share_one_scale():
    spectra = np.array([np.repeat(np.arange(8.0), 3), np.full(24, 7.0), np.zeros(24)])
    rising, high, low = one_line_spectra(spectra)
    assert (rising[::3], high, low) == (BARS, BARS[-1] * 24, BARS[0] * 24)
    assert one_line_spectra(np.ones((2, 100))) == [BARS[0] * 48] * 2


def test_measured_noise_agrees_with_what_is_published(measured_data):
    found = inspect_file(measured_data / "aunp_as_030mb__reps.csv")
    assert found.non_monotonic_share == 1.0
    # Neighbours are smoothed by the instrument: less than half of what repeats show.
    assert 0 < found.noise < found.replicate_noise / 2
