"""Mixtures in routine: estimated by a calibration file, with controls and validation."""

import re

import numpy as np
import pandas as pd
import pytest

from geonode.calibration.mixture_file import MixtureFile
from geonode.calibration.saved import load_calibration, save_calibration
from geonode.errors import SpectraError
from tests.commands.calling import call
from tests.commands.test_calibrate_mixtures import AXIS, UNKNOWN, frame, table
from tests.estimation.images import store
from tests.mixtures import beer
from tests.stages.conftest import assert_refused


def named(signal, names):
    found = frame(signal)
    found.insert(0, "sample", names)
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A calibration with preprocessing, made with unknowns, a control and a validation file."""
    folder = tmp_path_factory.mktemp("routine")
    table().to_csv(folder / "known.csv", index=False)
    signal = np.vstack([beer.spectra(UNKNOWN), 1 + beer.PURE[2:] ** 4])
    named(signal, ["QC", "b", "c", "d", "odd"]).to_csv(folder / "day.csv", index=False)
    turned = table(UNKNOWN)[[*table().columns[1::-1], *map(str, AXIS)]]  # zinc before lead
    turned.to_csv(folder / "judged.csv", index=False)
    result = call(
        *("calibrate", folder / "known.csv", "--unknown", folder / "day.csv", "--control"),
        *(control(UNKNOWN[0]), "--validation", folder / "judged.csv", "--out", folder / "made"),
        *("--preprocess", "[{savgol: {window: 5, degree: 2}}]"),
    )
    assert result.exit_code == 0, result.output
    (folder / "said.txt").write_text(result.stdout)
    return folder


def control(amounts):
    return "QC=" + ",".join(f"{one:.3f}" for one in amounts)


def estimate(made, *words):
    return call("estimate", *words, "--calibration", made / "made/calibration.safetensors")


@pytest.mark.usefixtures("unchecked")
def test_what_is_read_back_estimates_to_the_last_bit(made, tmp_path):
    path = made / "made/calibration.safetensors"
    found = load_calibration(path)
    save_calibration(tmp_path / "again.safetensors", found)
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()
    signal = found.series.preprocessing.transform(found.series.axis, beer.spectra(UNKNOWN))
    again = MixtureFile.of("known.csv", found.series)
    one, other = (each.calibration.estimate(signal) for each in (found, again))
    np.testing.assert_array_equal(one.amounts, other.amounts)
    np.testing.assert_array_equal(one.intervals, other.intervals)
    np.testing.assert_allclose(one.amounts, UNKNOWN, atol=0.1)
    amounts, ends = found.estimate(beer.spectra(UNKNOWN))  # as measured
    np.testing.assert_array_equal(amounts, one.amounts)
    np.testing.assert_array_equal(ends, one.intervals)
    for wrong in (signal[0], signal[:0], signal[:, 1:]):
        with pytest.raises(SpectraError, match=re.escape(f"shape {wrong.shape}, ")):
            found.estimate(wrong)


def test_digits_are_those_of_calibrate_and_a_misfit_ends_with_status_1(made, tmp_path):
    out = tmp_path / "out.csv"
    result = estimate(made, made / "day.csv", "--control", control(UNKNOWN[0]), "--out", out)
    assert result.exit_code == 1
    assert "1 of 5 spectra fit nowhere: odd" in result.output
    for name, own in (("unknowns", out), ("controls", tmp_path / "out.controls.csv")):
        assert own.read_text() == (made / f"made/{name}.csv").read_text()
    found = pd.read_csv(out)
    np.testing.assert_allclose(found[["lead (ppm)", "zinc (ppm)"]][:4], UNKNOWN, atol=0.1)
    record = dict(pd.read_csv(tmp_path / "out.record.csv").to_numpy())
    assert record["method"].startswith("all methods together, mostly ")
    assert "savgol" in record["option preprocess"]


def test_validation_takes_substances_by_name(made):
    found = pd.read_csv(made / "made/validated.csv")
    np.testing.assert_allclose(found["known (ppm)"], UNKNOWN.T.ravel(), rtol=1e-5)
    np.testing.assert_allclose(found["estimated (ppm)"], found["known (ppm)"], atol=0.1)
    said = (made / "said.txt").read_text()
    for at, name in enumerate(("lead", "zinc")):
        away = found["error (ppm)"][4 * at : 4 * at + 4]
        (number,) = re.findall(rf"judged.csv, {name}\): RMSEP ([\d.]+) ppm", said)
        assert float(number) == pytest.approx(np.sqrt((away**2).mean()), rel=1e-2)
    page = (made / "made/index.html").read_text()
    assert "geonode estimate unknown.csv --calibration" in page
    assert re.search(r"intervals\. Validation with 4 spectra \(\S*judged.csv, zinc\)", page)


def test_a_control_fails_by_the_substance_that_is_wrong(made, tmp_path):
    wrong = control(UNKNOWN[0] + [0, 1])
    result = estimate(made, made / "day.csv", "--control", wrong, "--out", tmp_path / "out.xlsx")
    assert result.exit_code == 1
    first, *_ = [line for line in result.output.splitlines() if "failed" in line]
    assert first.startswith("error: control QC, zinc (day.csv) failed: ")
    assert re.search("control QC, lead .* passed", result.output)
    assert re.search(r"day.csv +b .* a control failed\n", result.output)
    found = pd.read_excel(tmp_path / "out.xlsx", sheet_name=None)
    assert [*found] == ["unknowns", "controls", "record"]
    assert (found["unknowns"]["remark"].str.endswith("a control failed")).all()


WRONG = {
    "axis": (["short.csv"], "axis: found 402 to 518, expected all of 400 to 518"),
    "coarse": (["coarse.csv"], " of lead of the series itself is estimated as "),
    "coarse image": (["coarse.zarr"], "coarse.zarr: axis: found steps of 24, at which the "),
    "too few numbers": (["day.csv", "--control", "QC=2"], "NAME and amounts of lead and zinc"),
    "negative": (["day.csv", "--control", "QC=2,-1"], "none negative"),
    "nan": (["day.csv", "--control", "QC=2,nan"], "none negative"),
    "no number": (["day.csv", "--control", "QC=2,x"], "such as QC=20,20"),
    "standards": (["day.csv", "--standards", "judged.csv"], "a line corrects one substance"),
    "no amounts": (["day.csv", "--validation", "day.csv"], "expected amounts of lead and zinc"),
    "substances": (["day.csv", "--validation", "other.csv"], "found lead and iron, expected"),
    "unit": (["day.csv", "--validation", "unit.csv"], "found concentrations in g/L, expected ppm"),
    "range": (
        ["day.csv", "--validation", "outside.csv"],
        "row 6, zinc: found a concentration of 12",
    ),
    "damaged": (["day.csv", "--calibration", "bad.safetensors"], "found a damaged file"),
}


@pytest.mark.parametrize(("words", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_one_line(made, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    for name in ("day.csv", "judged.csv"):
        (tmp_path / name).write_bytes((made / name).read_bytes())
    named(beer.spectra(UNKNOWN), [*"abcd"]).drop(columns="400").to_csv("short.csv", index=False)
    some = [0, 12, 24, 36, 48, 59]
    coarse = named(beer.spectra(UNKNOWN), [*"abcd"])[["sample", *map(str, AXIS[some])]]
    coarse.to_csv("coarse.csv", index=False)
    values = coarse.to_numpy()[:, 1:].astype(float).reshape(2, 2, -1)
    store(tmp_path / "coarse.zarr", values, AXIS[some].astype(float))
    table(UNKNOWN, ["y_lead (ppm)", "y_iron (ppm)"]).to_csv("other.csv", index=False)
    table(UNKNOWN, ["y_lead (g/L)", "y_zinc (g/L)"]).to_csv("unit.csv", index=False)
    table(np.vstack([UNKNOWN, [[5, 12]]])).to_csv("outside.csv", index=False)
    content = (made / "made/calibration.safetensors").read_bytes()
    (tmp_path / "bad.safetensors").write_bytes(content[:-9] + b"x" + content[-8:])
    known = ["--calibration", made / "made/calibration.safetensors"]
    out = f"out{'.zarr' if words[0] == 'coarse.zarr' else '.csv'}"
    assert_refused(call("estimate", *known, *words, "--out", out), message)
    assert not (tmp_path / out).exists()
