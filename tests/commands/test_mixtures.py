"""Mixtures of lead and zinc: calibrated together, and estimated by the saved file."""

import re

import numpy as np
import pandas as pd
import pytest
from openpyxl import load_workbook

from geonode.wording import quantity
from tests.commands.calling import call, estimate
from tests.mixtures import beer
from tests.mixtures.beer import KNOWN, NM, UNKNOWN, frame, table


def control(amounts):
    return "QC=" + ",".join(f"{one:.3f}" for one in amounts)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A calibration used on unknowns, of which one fits nowhere and one is far, and on checks."""
    folder = tmp_path_factory.mktemp("mixture")
    table().to_csv(folder / "known.csv", index=False)
    signal = np.vstack([beer.spectra(UNKNOWN), beer.spectra([[5.0, 11.0]]), 1 + beer.PURE[2:] ** 4])
    frame(signal, ["QC", "b", "c", "d", "far", "odd"]).to_csv(folder / "day.csv", index=False)
    turned = table(UNKNOWN)[[*table().columns[1::-1], *map(str, NM)]]  # zinc before lead
    turned.to_csv(folder / "judged.csv", index=False)
    done = call(
        *("calibrate", folder / "known.csv", "--unknown", folder / "day.csv", "--control"),
        *(control(UNKNOWN[0]), "--validation", folder / "judged.csv", "--out", folder / "made"),
    )
    assert done.exit_code == 0, done.output
    (folder / "said.txt").write_text(done.stdout)
    return folder


def test_unknowns_are_estimated_together_with_their_intervals(made):
    found = pd.read_csv(made / "made/unknowns.csv", keep_default_na=False)
    estimated = found[["lead (ppm)", "zinc (ppm)"]][:4].to_numpy(float)
    np.testing.assert_allclose(estimated, UNKNOWN, atol=0.1)
    assert found["fits"].tolist() == [True] * 4 + [found["fits"][4], False]
    assert found["remark"].tolist()[1:4] == [""] * 3
    assert found["remark"][4] == "outside the design in zinc: extrapolated"
    assert "fits nowhere" in found["remark"][5]
    assert found["lead (ppm)"][5] == found["lead low90 (ppm)"][5] == ""  # means nothing
    low, high = (found[f"lead {end}90 (ppm)"][:5].astype(float) for end in ("low", "high"))
    raw = found["lead raw estimate (ppm)"][:5].astype(float)
    assert (low < raw).all() and (high > raw).all()
    error = found["lead standard error (ppm)"][:4].astype(float)
    assert (np.abs(estimated[:, 0] - raw[:4]) < error).all()


def test_the_screen_has_errors_and_unknowns(made):
    said = (made / "said.txt").read_text()
    assert "lead and zinc are calibrated together" in said
    assert re.search(r"lead \(ppm\) +0\.0\d+ +0\.0\d+ ", said)
    assert re.search(r"odd +- +- +fits nowhere", said)
    assert re.search(r"far .*outside the design in zinc", said)


def test_left_out_samples_and_errors_agree(made):
    found = pd.read_csv(made / "made/left_out.csv")
    np.testing.assert_allclose(found["zinc measured (ppm)"], KNOWN[:, 1], rtol=1e-5)
    away = found["zinc estimated (ppm)"] - KNOWN[:, 1]
    errors = pd.read_csv(made / "made/errors.csv")
    rmsep = np.sqrt((away**2).mean())  # of rounded numbers
    assert errors["RMSEP, combined"][1] == pytest.approx(rmsep, rel=1e-2)
    held = (found["zinc low90 (ppm)"] <= KNOWN[:, 1]) & (KNOWN[:, 1] <= found["zinc high90 (ppm)"])
    assert errors["inside the intervals"][1] == f"{held.sum()} of 14"


def test_spectra_of_the_substances_are_those_of_beers_law(made):
    table = pd.read_csv(made / "made/pure.csv")
    assert [*table][1:3] == ["d signal / d lead (1/ppm)", "d signal / d lead, ± 90% (1/ppm)"]
    found = table.to_numpy()
    np.testing.assert_array_equal(found[:, 0], NM)
    np.testing.assert_allclose(found[:, 1::2].T, beer.PURE[:2], atol=0.02)


def test_page_and_workbook_have_everything(made):
    page = (made / "made/index.html").read_text()
    assert len(page) < 1_500_000
    assert not re.search(r"(src|href)=.https?:", page)
    for name in ("true_0", "pure_0", "true_1", "pure_1", "design_0_1"):
        assert f'data-figure="{name}"' in page
    assert "geonode estimate unknown.csv --calibration" in page
    judged = r'<li class="\w+">validation with 4 spectra \(\S*judged.csv, (\w+)\)'
    assert re.findall(judged, page) == ["lead", "zinc"]
    names = ["unknowns", "controls", "validated", "record", "summary", "errors", "left_out"]
    names.append("limits")
    book = load_workbook(made / "made/calibration.xlsx")
    assert book.sheetnames == [*names, "pure", "next"]
    again = call("calibrate", made / "known.csv", "--out", made / "made")
    assert again.exit_code == 2
    assert "--overwrite" in again.output


def test_digits_are_those_of_calibrate_and_a_misfit_ends_with_status_1(made, tmp_path):
    out = tmp_path / "out.csv"
    done = estimate(made, made / "day.csv", "--control", control(UNKNOWN[0]), "--out", out)
    assert done.exit_code == 1
    assert "1 of 6 spectra fit nowhere: odd" in done.output
    for name, own in (("unknowns", out), ("controls", tmp_path / "out.controls.csv")):
        assert own.read_text() == (made / f"made/{name}.csv").read_text()
    record = dict(pd.read_csv(tmp_path / "out.record.csv").to_numpy())
    assert record["method"].startswith("all methods together, mostly ")
    assert record["chance, zinc"].startswith("more than chance, by ")


def test_unknowns_below_the_limits_are_remarked(tmp_path):
    known = np.where(np.arange(14)[:, None] // [2, 4] == 0, 0, KNOWN)  # two without lead
    table(known, noise=0.05).to_csv(tmp_path / "known.csv", index=False)
    measured = [[0.0, 5.0], [0.1, 5.0], [5.0, 0.0], [5.0, 5.0]]
    frame(beer.spectra(measured), "abcd").to_csv(tmp_path / "day.csv", index=False)
    out = tmp_path / "made"
    call("calibrate", tmp_path / "known.csv", "--unknown", tmp_path / "day.csv", "--out", out)
    found = pd.read_csv(out / "unknowns.csv", keep_default_na=False)["remark"]
    lead, zinc = pd.read_csv(out / "limits.csv")[["LOD", "LOQ"]].to_numpy()
    assert lead[0] < 0.1 < lead[1]
    for remark, said, limit in (
        (found[0], "lead not detected: below the limit of detection, ", lead[0]),
        (found[1], "lead < LOQ: below the limit of quantification, ", lead[1]),
        (found[2], "zinc not detected: below the limit of detection, ", zinc[0]),
    ):
        assert remark == f"{said}{quantity(limit, 'ppm', 2)}"
    assert found[3] == ""


def test_noise_could_be_chance_and_has_no_limits(tmp_path):
    found = table(KNOWN)
    found[list(map(str, NM))] = np.random.default_rng(0).normal(size=(len(found), len(NM)))
    found.to_csv(tmp_path / "known.csv", index=False)
    done = call("calibrate", tmp_path / "known.csv", "--out", tmp_path / "made", status=1)
    assert re.search(r"Could be chance: lead \(p = \S+\) and zinc .* mixtures would", done.stderr)
    limits = pd.read_csv(tmp_path / "made/limits.csv")
    assert limits[["LOD", "LOQ"]].isna().all(axis=None)


def test_validation_takes_substances_by_name(made):
    found = pd.read_csv(made / "made/validated.csv")
    np.testing.assert_allclose(found["known (ppm)"], UNKNOWN.T.ravel(), rtol=1e-5)
    np.testing.assert_allclose(found["estimated (ppm)"], found["known (ppm)"], atol=0.1)
    said = (made / "said.txt").read_text()
    for at, name in enumerate(("lead", "zinc")):
        away = found["error (ppm)"][4 * at : 4 * at + 4]
        (number,) = re.findall(rf"judged.csv, {name}\): RMSEP ([\d.]+) ppm", said)
        assert float(number) == pytest.approx(np.sqrt((away**2).mean()), rel=1e-2)


def test_a_control_fails_by_the_substance_that_is_wrong(made, tmp_path):
    wrong = control(UNKNOWN[0] + [0, 1])
    done = estimate(made, made / "day.csv", "--control", wrong, "--out", tmp_path / "out.xlsx")
    assert done.exit_code == 1
    first, *_ = [line for line in done.output.splitlines() if "failed" in line]
    assert first.startswith("error: control QC, zinc (day.csv) failed: ")
    assert re.search("control QC, lead .* passed", done.output)
    assert re.search(r"\bb .* a control failed\n", done.output)
    found = pd.read_excel(tmp_path / "out.xlsx", sheet_name=None)
    assert [*found] == ["unknowns", "controls", "record"]
    assert (found["unknowns"]["remark"].str.endswith("a control failed")).all()
