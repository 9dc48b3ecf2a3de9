import csv
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from geonode.estimation.curve import Curve
from geonode.estimation.model import SpectralModel
from geonode.estimation.posterior import estimate
from geonode.parameter_types import PreprocessStep
from geonode.spectra.preprocessing import Preprocessing
from tests.commands.calling import call
from tests.estimation.known import holds
from tests.estimation.trained import AXIS, spectra_at
from tests.stages.conftest import assert_refused


def write(path, spectra, axis=AXIS, header="wavelength_nm", names=None):
    """A file of one column a spectrum."""
    names = names or [f"sample {number}" for number in range(1, len(spectra) + 1)]
    lines = [",".join([header, *names])]
    lines += [",".join(map(repr, map(float, row))) for row in zip(axis, *spectra, strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def samples(tmp_path):
    """Spectra of 12 and of 50, which those of 48 and of 10 resemble, and of the highest peak."""
    return write(tmp_path / "samples.csv", spectra_at([12, 50, 30]))


@pytest.fixture(scope="module")
def curves():
    return {}


@pytest.fixture(autouse=True)
def one_curve(monkeypatch, curves):
    """The curve of the trained model for every set of options is made once."""
    make = Curve.of

    def of(series, fold, **allowed):
        key = (*allowed.items(),)
        return curves.get(key) or curves.setdefault(key, make(series, fold, **allowed))

    monkeypatch.setattr(Curve, "of", of)


def test_table_and_json_have_what_the_model_says(trained, samples, tmp_path):
    out = tmp_path / "out.csv"
    result = call("estimate", samples, "--root", trained, "--out", out, "--json")
    assert (result.exit_code, result.stderr) == (0, f"3 estimates -> {out}\n")
    found = json.loads(result.stdout)
    assert found["concentration_unit"] == "ppb"
    allowed = {"offset": False, "scale": False, "one_scan": True}
    model = SpectralModel.read(trained / "data")
    curve = Curve.of(model.series, model.fold, **allowed)
    expected = estimate(curve, spectra_at([12, 50, 30]))
    for place, (row, truth) in enumerate(zip(found["spectra"], (12, 50, 30), strict=True)):
        numbers = (expected.mean, expected.deviation, expected.p_value)
        said = [row[name] for name in ("mean", "std", "p_value")]
        np.testing.assert_allclose(said, [number[place] for number in numbers], rtol=1e-9)
        np.testing.assert_allclose(row["set90"], expected.sets[place], rtol=1e-9)
        modes = [(mode["concentration"], mode["weight"]) for mode in row["modes"]]
        np.testing.assert_allclose(modes, expected.modes[place], rtol=1e-9)
        for possible in (truth, 60 - truth):
            assert holds(row["set90"], possible)
        assert (row["intervals"], row["ambiguous"]) == ((2, True) if truth != 30 else (1, False))
        assert row["fits"]
        # Of two concentrations that are as likely, neither is the mode.
        assert row["mode"] == (None if truth != 30 else pytest.approx(expected.mode[place]))
    with out.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["name"] for row in rows] == ["sample 1", "sample 2", "sample 3"]
    for row, exact in zip(rows, found["spectra"], strict=True):
        modes = sorted(mode["concentration"] for mode in exact["modes"])
        assert row["mode"].split(" or ") == [f"{mode:.6g}" for mode in modes]
        for name in ("mean", "std", "low90", "high90", "p_value"):
            assert float(row[name]) == pytest.approx(exact[name], rel=5.1e-6)


def test_the_screen_has_a_table_and_plain_sentences(trained, samples):
    shown = call("estimate", samples, "--root", trained).stdout
    header, one, two, three, blank, *told = shown.splitlines()
    assert re.split(r" {2,}", header)[:5] == ["name", "mode (ppb)", "mean", "std", "90% set"]
    assert [line.endswith("ambiguous") for line in (one, two, three)] == [True, True, False]
    assert blank == ""
    assert [line.split(":")[0] for line in told] == [
        "sample 1 is ambiguous",
        "sample 2 is ambiguous",
    ]
    assert re.search(r"ambiguous: \S+-\S+ or \S+-\S+ ppb: both fit", told[0])


def test_what_fits_nowhere_is_told_and_status_1(trained, tmp_path):
    strange = 0.3 + 0.2 * np.sin(AXIS / 20)
    file = write(tmp_path / "in.csv", [*spectra_at([20]), strange], names=["good", "bad"])
    out = tmp_path / "out.csv"
    result = call("--quiet", "estimate", file, "--root", trained, "--out", out)
    assert result.exit_code == 1
    assert result.stderr == "error: 1 of 2 spectra fit nowhere: bad\n"
    assert re.search(r"^bad fits nowhere \(p = \S+\): no conc", result.stdout, re.MULTILINE)
    with out.open(encoding="utf-8", newline="") as stream:
        assert [row["fits"] for row in csv.DictReader(stream)] == ["true", "false"]


def test_an_offset_and_a_factor_are_allowed_if_asked_for(trained, tmp_path):
    file = write(tmp_path / "in.csv", 1.2 * spectra_at([12]) + 0.3, names=["moved"])
    assert call("estimate", file, "--root", trained).exit_code == 1
    result = call("estimate", file, "--root", trained, "--allow-offset", "--allow-scale", "--json")
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)["spectra"]
    for possible in (12, 48):
        assert holds(row["set90"], possible)


REFUSED = {
    "gap": (
        lambda s: np.where(s == s.max(), np.nan, s),
        "wavelength_nm",
        (),
        "an empty or NaN cell",
    ),
    "uncovered": (lambda s: s[:, 5:], "nm", (), "400 to 450 nm is missing"),
    "units": (None, "shift_cm1", (), "in.csv: axis: found a "),
    "extension": (None, "nm", ("--out", "out.txt"), "a name that ends in .csv"),
    "itself": (None, "nm", ("--out", "in.csv"), "another place than in.csv"),
    "workers": (None, "nm", ("--workers", "2"), "--workers: found 2, expected an image"),
    "format": (None, "nm", ("--cache-dtype", "float16"), "--cache-dtype: found 'float16'"),
    "device": (None, "nm", ("--device", "cpu"), "--device: found 'cpu', expected an image"),
}


@pytest.mark.parametrize(("change", "header", "words", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_one_line_and_nothing_is_written(
    trained, tmp_path, monkeypatch, change, header, words, message
):
    monkeypatch.chdir(tmp_path)
    spectra = (change or np.asarray)(spectra_at([30]))
    file = write(tmp_path / "in.csv", spectra, AXIS[-spectra.shape[1] :], header)
    before = file.read_bytes()
    words = words or ("--out", "out.csv", "--figure", "out.png")
    result = call("estimate", "in.csv", *words, "--root", trained)
    assert_refused(result, "error: ", message)
    assert result.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]
    assert file.read_bytes() == before


def test_offsets_of_preprocessed_spectra_are_refused(trained, samples, monkeypatch):
    model = SpectralModel.read(trained / "data")
    for step, refused in (({"savgol": {"window": 5, "degree": 2}}, False), ("snv", True)):
        done = Preprocessing((PreprocessStep.model_validate(step),))
        series = replace(model.series, preprocessing=done)
        monkeypatch.setattr(SpectralModel, "read", lambda _, of=series: replace(model, series=of))
        result = call("estimate", samples, "--root", trained, "--allow-offset")
        assert ("--allow-offset: found True, expected neither" in result.stderr) is refused
