import re

import numpy as np
import pandas as pd
import pytest
from openpyxl import load_workbook

from geonode.commands.spectra_file import spectra_parameters
from geonode.reading.series_file import read_measured
from tests.commands.calling import call
from tests.mixtures import beer
from tests.mixtures.beer import HEADERS, KNOWN, NM, UNKNOWN, frame, table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A mixture of two substances, and four unknowns of which one fits nowhere and one is far."""
    found = tmp_path_factory.mktemp("mixture")
    table().to_csv(found / "known.csv", index=False)
    far = np.vstack([UNKNOWN, [[5.0, 11.0]]])
    signal = beer.spectra(far)
    signal[0] += 3 * np.exp(-(((beer.AXIS - 0.95) / 0.02) ** 2))
    unknown = frame(signal, [f"u{at}" for at in range(len(signal))])
    unknown.to_csv(found / "unknown.csv", index=False)
    result = call(
        *("calibrate", found / "known.csv", "--unknown", found / "unknown.csv"),
        *("--out", found / "out"),
    )
    assert result.exit_code == 0, result.output
    (found / "said.txt").write_text(result.stdout)
    return found


def test_unknowns_are_estimated_together_with_their_intervals(folder):
    found = pd.read_csv(folder / "out" / "unknowns.csv", keep_default_na=False)
    estimated = found[["lead (ppm)", "zinc (ppm)"]].to_numpy(float)
    np.testing.assert_allclose(estimated[1:4], UNKNOWN[1:], atol=0.1)
    assert found["fits"].tolist()[:4] == [False, True, True, True]
    assert "fits nowhere" in found["remark"][0]
    assert found["remark"].tolist()[2:] == ["", "", "outside the design in zinc: extrapolated"]
    low, high = found["lead low90 (ppm)"], found["lead high90 (ppm)"]
    assert (low < found["lead (ppm)"]).all() and (high > found["lead (ppm)"]).all()


def test_the_screen_has_errors_and_unknowns(folder):
    said = (folder / "said.txt").read_text()
    assert "lead and zinc are calibrated together" in said
    assert re.search(r"lead \(ppm\) +0\.0\d+ +0\.0\d+ +0\.0\d+ ", said)
    assert re.search(r"unknown.csv +u0 +- +- +fits nowhere", said)
    assert re.search(r"u4 .*outside the design in zinc", said)


def test_left_out_samples_and_errors_agree(folder):
    found = pd.read_csv(folder / "out" / "left_out.csv")
    np.testing.assert_allclose(found["zinc measured (ppm)"], KNOWN[:, 1], rtol=1e-5)
    away = found["zinc estimated (ppm)"] - KNOWN[:, 1]
    errors = pd.read_csv(folder / "out" / "errors.csv")
    rmsep = np.sqrt((away**2).mean())  # of rounded numbers
    assert errors["RMSEP, combined"][1] == pytest.approx(rmsep, rel=1e-2)
    held = (found["zinc low90 (ppm)"] <= KNOWN[:, 1]) & (KNOWN[:, 1] <= found["zinc high90 (ppm)"])
    assert errors["inside the intervals"][1] == f"{held.sum()} of 14"


def test_spectra_of_the_substances_are_those_of_beers_law(folder):
    found = pd.read_csv(folder / "out" / "pure.csv").to_numpy()
    np.testing.assert_array_equal(found[:, 0], NM)
    np.testing.assert_allclose(found[:, 1::2].T, beer.PURE[:2], atol=0.02)


def test_page_and_workbook_have_everything(folder):
    page = (folder / "out" / "index.html").read_text()
    assert len(page) < 1_500_000
    assert not re.search(r"(src|href)=.https?:", page)
    for name in ("true_0", "pure_0", "true_1", "pure_1", "design_0_1"):
        assert f'data-figure="{name}"' in page
    book = load_workbook(folder / "out" / "calibration.xlsx")
    assert book.sheetnames == [
        "summary",
        "errors",
        "left_out",
        "unknowns",
        "record",
        "pure",
        "next",
    ]
    again = call("calibrate", folder / "known.csv", "--out", folder / "out")
    assert again.exit_code == 2
    assert "--overwrite" in again.output


def substances(folder, **options):
    return read_measured(spectra_parameters(folder / "known.csv", **options)).substances


def test_one_of_several_amounts_is_one_substance(folder, tmp_path):
    assert substances(folder) == ("lead", "zinc")
    assert len(substances(folder, target="zinc")) == 1
    table(KNOWN[:, :1], HEADERS[:1]).to_csv(tmp_path / "known.csv", index=False)
    assert len(substances(tmp_path)) == 1
