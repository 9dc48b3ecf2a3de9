import json
import re
from pathlib import Path

import numpy as np
import pytest

from geonode.config import SpectraParameters
from geonode.parameters_file import parse_yaml
from geonode.reading.inspection import BARS, one_line_spectra
from tests.reading.tables import assert_refused, inspect_file, text, wide

AXIS = np.arange(300.0, 420.0, 2.0)


def written(folder, levels, name="series.csv"):
    """Wide text of smooth spectra with noise, the second level measured twice."""
    names = [f"{level:g} ppb" for level in levels]
    names.insert(2, f"{names[1]}__r2")
    noise = 0.01 * np.random.default_rng(0).normal(size=(len(names), len(AXIS)))
    rows = wide(names, axis=AXIS, spectra=np.sin(AXIS / 30) + noise)
    (folder / name).write_text(text(rows, ";", ","), encoding="utf-8")
    return folder / name


def test_what_a_file_holds_is_said(tmp_path):
    path = written(tmp_path, [0, 5, 20, 60])
    path.write_text(re.sub("^310;[^;]+", "310;", path.read_text(), flags=re.M), encoding="utf-8")
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
    assert_refused(r"series\.csv: row 7, column '.*': found", inspect_file, path, missing="refuse")


@pytest.mark.parametrize(
    ("levels", "chart", "window"),
    [
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
