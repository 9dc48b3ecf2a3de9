"""Mixtures in routine: estimated by a calibration file, with controls and validation."""

import re

import numpy as np
import pandas as pd
import pytest

from tests.commands.calling import call
from tests.mixtures import beer
from tests.mixtures.beer import NM, UNKNOWN, frame, table


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A calibration with preprocessing, made with unknowns, a control and a validation file."""
    folder = tmp_path_factory.mktemp("routine")
    table().to_csv(folder / "known.csv", index=False)
    signal = np.vstack([beer.spectra(UNKNOWN), 1 + beer.PURE[2:] ** 4])
    frame(signal, ["QC", "b", "c", "d", "odd"]).to_csv(folder / "day.csv", index=False)
    turned = table(UNKNOWN)[[*table().columns[1::-1], *map(str, NM)]]  # zinc before lead
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
