import json
from pathlib import Path

import numpy as np
import pytest

from geonode.config import SpectraParameters
from geonode.errors import SpectraError
from geonode.parameters_file import parse_yaml
from geonode.reading.files import read_spectra
from geonode.reading.inspection import BARS, one_line_spectra
from tests.bounds import dataset
from tests.reading.tables import inspect_file, read_table

AXIS = np.arange(300.0, 420.0, 2.0)


def written(folder, levels, noise=0.01, name="series.csv"):
    """Wide text of smooth spectra with noise, the second level measured twice."""
    random = np.random.default_rng(0)
    names = [f"{level:g} ppb" for level in levels]
    names.insert(2, f"{names[1]}__r2")
    rows = [";".join(["wavelength_nm", *names])]
    for axis in AXIS:
        signal = np.sin(axis / 30) + noise * random.normal(size=len(names))
        values = (f"{value:.6f}".replace(".", ",") for value in signal)
        rows.append(";".join([f"{axis:g}", *values]))
    path = folder / name
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


def test_what_a_file_holds_is_said(tmp_path):
    path = written(tmp_path, [0, 5, 20, 60])
    lines = path.read_text().splitlines()
    at, _, *rest = lines[6].split(";")
    lines[6] = ";".join([at, "", *rest])
    path.write_text("\n".join(lines), encoding="utf-8")
    inspection = inspect_file(path)
    found = inspection.to_json()
    assert found["format"] == "text, delimiter semicolon, decimal comma, one column a spectrum"
    assert (found["levels"], found["scans"]) == ([0, 5, 20, 60], [1, 2, 1, 1])
    about = (found["axis_name"], found["axis_unit"], found["concentration_unit"])
    assert about == ("wavelength", "nm", "ppb")
    assert (found["axis_range"], found["axis_step"], found["wavelengths"]) == ([300, 418], 2, 59)
    assert found["masked"] == [310]
    assert 0.008 < found["noise"] < 0.012  # 0.01; 290 residuals, of which the median is taken
    assert 0.008 < found["replicate_noise"] < 0.012
    assert json.loads(json.dumps(found)) == found
    said = inspection.text()
    for part in ("semicolon", "300 to 418, step 2", "masked         310", "missing: mask"):
        assert part in said
    with pytest.raises(SpectraError, match=r"series\.csv: row 7, column '.*': found an empty"):
        inspect_file(path, missing="refuse")


@pytest.mark.parametrize(
    ("levels", "chart", "window"),
    [
        ([0, 1, 10, 10000], "linear", None),
        ([1, 2, 3, 100], "linear", (310.0, 400.5)),
        ([1, 2, 3, 101], "log", None),
    ],
)
def test_the_proposed_parameters_are_parameters(tmp_path, levels, chart, window):
    path = written(tmp_path, levels, name="a: 'b' #\"c.csv")
    block = parse_yaml(inspect_file(path, window=window).proposal())
    assert list(block) == ["spectra"]
    parameters = SpectraParameters.model_validate(block["spectra"])
    assert (parameters.source, parameters.chart) == (str(path), chart)
    assert (parameters.window, parameters.missing) == (window, "refuse")
    assert parameters.concentration_unit == "ppb"


def test_a_name_that_looks_like_an_option_is_printed_as_a_file(tmp_path, monkeypatch):
    written(tmp_path, [0, 5, 20, 60], name="-dash.csv")
    monkeypatch.chdir(tmp_path)
    assert inspect_file(Path("-dash.csv")).to_json()["options"] == "./-dash.csv"
    assert inspect_file(Path("./-dash.csv")).to_json()["options"] == "./-dash.csv"


def test_quantity_and_unit_come_from_the_file_where_it_says_them(tmp_path):
    rows = [f"{level}\t{axis}\t{axis * level}" for level in range(1, 5) for axis in range(4)]
    path = tmp_path / "long.tsv"
    path.write_text("\n".join(["conc\tnm\tFluorescence (counts)", *rows]), encoding="utf-8")
    block = parse_yaml(inspect_file(path).proposal())["spectra"]
    assert (block["quantity"], block["unit"]) == ("fluorescence", "counts")
    data = dataset()
    label = "a\x7f\x80\u2028😀 'b' \"c\": #d"
    data["absorbance"].attrs["long_name"] = label
    data.to_zarr(tmp_path / "a.zarr", consolidated=False)
    inspection = inspect_file(tmp_path / "a.zarr")
    assert parse_yaml(inspection.proposal())["spectra"]["quantity"] == label.lower()


def test_lines_share_one_scale():
    spectra = np.array([np.repeat(np.arange(8.0), 3), np.full(24, 7.0), np.zeros(24)])
    rising, high, low = one_line_spectra(spectra)
    assert (rising[::3], high, low) == (BARS, BARS[-1] * 24, BARS[0] * 24)
    assert one_line_spectra(np.ones((2, 100))) == [BARS[0] * 48] * 2


def test_measured_noise_agrees_with_what_is_published(measured_data):
    found = inspect_file(measured_data / "aunp_as_030mb__reps.csv")
    assert found.to_json()["non_monotonic_share"] == 1.0
    # Neighbours are smoothed by the instrument: less than half of what repeats show.
    assert 0 < found.noise < found.table.replicate_noise() / 2


# doubts: what is possible and hardly meant is said, with its cells

LEVELS = np.arange(0, 70, 10.0)
SPECTRA = 0.2 + LEVELS[:, None] / 100 * np.exp(-(((AXIS - 360) / 20) ** 2))
SPECTRA += np.random.default_rng(0).normal(0, 1e-3, SPECTRA.shape)


def changed(*cells, spectra=SPECTRA):
    """The spectra with other values at (level, wavelength)."""
    other = spectra.copy()
    for level, at, value in cells:
        other[level, at] = value
    return other


def written_series(file, levels, spectra, name="series.csv"):
    rows = [["wavelength_nm", *levels], *np.column_stack([AXIS, spectra.T]).tolist()]
    return file("\n".join(",".join(map(str, row)) for row in rows), name)


def doubts_of(file, levels, spectra, name="series.csv"):
    return inspect_file(written_series(file, levels, spectra, name)).doubts


EXCHANGED = SPECTRA.copy()
EXCHANGED[3] = SPECTRA[0]
FAR = changed((2, 5, 5432.1))


@pytest.mark.parametrize(
    ("spectra", "doubt"),
    [
        (FAR, "values of more than 1000 times the largest of the others, 0.8"),
        (FAR, ": row 7, column '20.0'"),
        (EXCHANGED, "level 30 is "),
    ],
)
def test_what_is_possible_and_hardly_meant_is_said(file, spectra, doubt):
    assert doubts_of(file, LEVELS, SPECTRA) == []
    inspection = inspect_file(written_series(file, LEVELS, spectra))
    assert any(doubt in line for line in inspection.doubts)
    assert all(f"doubt: {line}" in inspection.text() for line in inspection.doubts)


@pytest.mark.parametrize("code", [9999.0, -9999.0, 999.0, -99.0, 999.99, 1e30, -32768.0])
def test_a_code_of_a_missing_value_is_said_with_its_cell(file, code):
    (line,) = doubts_of(file, LEVELS, changed((2, 5, code)))
    assert line.startswith(f"values of {code:.10g}, which often mean that one is missing")
    assert line.endswith(": row 7, column '20.0'")
    cells = [(level, at, code) for level in range(7) for at in range(40)]  # more than half of all
    (line,) = doubts_of(file, LEVELS, changed(*cells))
    assert "row 2, column '0.0'; row 3, column '0.0'" in line
    assert line.endswith("and 277 more")


def test_codes_are_said_whoever_reads_the_file_and_however_it_is_laid_out(file, tmp_path, caplog):
    (line,) = doubts_of(file, LEVELS, changed((2, 5, -9999.0), (4, 9, 1e30), (0, 0, 9999.0)))
    assert line.startswith("values of -9999, 9999, 1e+30, which")
    assert line.endswith(": row 2, column '0.0'; row 7, column '20.0'; row 11, column '40.0'")
    read_table(tmp_path / "series.csv")  # as `calibrate` does
    assert line in caplog.text
    read_spectra(written_series(file, ["x"], changed((6, 5, 9999.0))[6:]))
    assert "values of 9999, which" in caplog.text
    assert "row 7, column 'x'" in caplog.text
    rows = [["concentration", *AXIS], *np.column_stack([LEVELS, changed((2, 5, 9999.0))]).tolist()]
    (line,) = inspect_file(file("\n".join(",".join(map(str, row)) for row in rows))).doubts
    assert line.endswith(": row 4, column 7, spectrum '20.0'")
    # Among counts only a code of another sign is one.
    counts = np.round(1e4 * SPECTRA)
    (line,) = doubts_of(file, LEVELS, changed((2, 5, -9999.0), spectra=counts))
    assert line.startswith("values of -9999, which")
    said = doubts_of(file, LEVELS, changed((2, 5, 9999.0), spectra=counts))
    assert not any("often mean" in line for line in said)


def test_spikes_and_saturation_are_no_codes(file):
    """Counts of a Raman spectrometer: cosmic rays, and a detector of 16 bits at its ceiling."""
    random = np.random.default_rng(3)
    band = np.exp(-(((AXIS - 360) / 20) ** 2))
    counts = 300 + 20 * LEVELS[:, None] * band + random.normal(0, 15, (7, len(AXIS)))
    spiky = changed(
        *(
            (random.integers(7), random.integers(len(AXIS)), random.uniform(2e3, 6e4))
            for _ in range(20)
        ),
        spectra=counts,
    )
    saturated = np.minimum(np.round(200 * counts), 65535)
    for name, spectra in (("spiky.csv", spiky), ("saturated.csv", saturated)):
        said = doubts_of(file, LEVELS, spectra, name)
        assert not [line for line in said if line.startswith("values of")]
    assert any(line.startswith("one number at level") for line in said)


# labels


SIX = np.array([0, 5, 10, 20, 40, 60.0])
BAND = np.exp(-(((AXIS - 360) / 20) ** 2)) + 0.3 * np.exp(-(((AXIS - 320) / 9) ** 2))


def of_six(curved=0.0):
    """Six levels with noise, on a line or on a curve that flattens."""
    amounts = SIX / 60 / (1 + curved * SIX / 60)
    return 0.1 + amounts[:, None] * BAND + np.random.default_rng(1).normal(0, 1e-3, (6, len(AXIS)))


def test_a_response_that_saturates_or_bends_back_is_not_taken_for_swapped_labels(file):
    """As of fluorescence that is quenched: 0, 1, 2, 3, 2.6, 1.6."""
    amounts = np.array([0, 1, 2, 3, 2.6, 1.6])
    bent = amounts[:, None] * BAND + np.random.default_rng(2).normal(0, 1e-3, (6, len(AXIS)))
    for spectra in (bent, of_six(), of_six(2.0)):
        assert doubts_of(file, SIX, spectra) == []


@pytest.mark.parametrize("curved", [0.0, 2.0])
@pytest.mark.parametrize("pair", [(1, 2), (4, 5), (1, 4), (0, 5)])
def test_two_labels_that_were_swapped_are_said(file, curved, pair):
    spectra = of_six(curved)
    spectra[[*pair]] = spectra[[*pair[::-1]]]
    one, other = SIX[[*pair]]
    said = doubts_of(file, SIX, spectra, "swapped.csv")
    assert any(line.startswith(f"levels {one:g} and {other:g} look swapped") for line in said)


def test_a_curve_over_decades_is_no_exchanged_sample_and_one_that_flattens_saturates(file):
    levels = 10 * 2.0 ** np.arange(9)
    noise = np.random.default_rng(4).normal(0, 1e-4, (9, len(AXIS)))
    said = {}
    for name, bend in (("steep", 1.0), ("flat", 5.0)):
        # As of stray light: the band widens while it saturates.
        spectra = 1 - np.exp(-bend * levels[:, None] / levels[-1] * BAND) + noise
        said[name] = doubts_of(file, levels, spectra, f"{name}.csv")
    assert said["steep"] == []
    assert [line[:43] for line in said["flat"]] == ["the signal saturates: from level 1280 to 25"]


def test_one_spectrum_under_many_levels_is_said_once(file):
    spectra = of_six()
    spectra[1:4] = spectra[1]
    said = [line for line in doubts_of(file, SIX, spectra) if "one and the same" in line]
    one, two, three = (f"{level:g}" for level in SIX[1:4])
    assert len(said) == 1
    assert said[0].startswith(f"levels {one}, {two} and {three} have one and the same spectrum")
