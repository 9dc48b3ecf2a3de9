"""Estimates by the calibration of a pipeline: of spectra that fit two concentrations, or none."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from tests.commands.calling import call
from tests.estimation.trained import AXIS, LEVELS, spectra_at


def write(path, spectra, names):
    """A file of one column a spectrum."""
    found = pd.DataFrame(np.asarray(spectra).T, AXIS, names)
    found.to_csv(path, index_label="wavelength_nm")
    return path


@pytest.mark.usefixtures("calibrated")
def test_of_two_concentrations_that_are_as_likely_both_are_told(trained, tmp_path):
    """The spectra of 12 and of 50 resemble those of 48 and of 10; 30 has the highest peak."""
    samples = write(tmp_path / "samples.csv", spectra_at([12, 50, 30]), ["a", "b", "c"])
    out = tmp_path / "out.csv"
    done = call("estimate", samples, "--root", trained, "--out", out, "--json")
    verdict, note = done.stderr.splitlines()
    assert (done.exit_code, note) == (0, f"3 estimates -> {out}")
    assert verdict.startswith("error: the calibration with trained: None of the methods can be")
    found = json.loads(done.stdout)
    assert found["concentration_unit"] == "ppb"
    table = pd.read_csv(out)
    for row, cells, truth in zip(
        found["unknowns"], table.to_dict("records"), (12, 50, 30), strict=True
    ):
        said = str(cells["estimated (ppb)"]).split(" or ")
        expected = [truth] if truth == 30 else sorted((truth, 60 - truth))
        np.testing.assert_allclose([float(one) for one in said], expected, atol=2)
        assert cells["raw estimate (ppb)"] == row["raw estimate (ppb)"]
        assert row["ambiguous"] == cells["ambiguous"] == (truth != 30)
        parts = row["geonode set90 (ppb)"]
        for part, one in zip(parts, expected, strict=True):
            assert part[0] < one < part[1]
        told = r"is ambiguous: \S+ to \S+ or \S+ to \S+ ppb: both fit"
        assert bool(re.search(told, row["remark"])) == row["ambiguous"]
    shown = call("estimate", samples, "--root", trained).stdout.splitlines()
    assert re.split(r" {2,}", shown[0]) == ["sample", "estimate (ppb)", "remark"]
    assert ["ambiguous" in line for line in shown[1:]] == [True, True, False]


@pytest.mark.usefixtures("calibrated")
def test_what_fits_nowhere_is_told_and_status_1(trained, tmp_path):
    strange = 0.3 + 0.2 * np.sin(AXIS / 20)
    file = write(tmp_path / "in.csv", [*spectra_at([20]), strange], ["good", "bad"])
    out = tmp_path / "out.csv"
    done = call("--quiet", "estimate", file, "--root", trained, "--out", out, status=1)
    assert done.stderr.endswith("\nerror: 1 of 2 spectra fit nowhere: bad\n")
    assert re.search(r"bad fits nowhere \(p = \S+\): no conc", done.stdout)
    assert pd.read_csv(out)["fits"].tolist() == [True, False]


def test_an_offset_and_a_factor_are_allowed_if_calibrated_so(tmp_path):
    known = write(tmp_path / "known.csv", spectra_at(LEVELS), [f"{one:g} ppb" for one in LEVELS])
    file = write(tmp_path / "in.csv", 1.2 * spectra_at([12]) + 0.3, ["moved"])
    for words, fits in (([], False), (["--allow-offset", "--allow-scale"], True)):
        folder = tmp_path / f"made {fits}"
        accepted = ["--accept"] if words else []  # sets that span most of the range
        done = call("calibrate", known, *words, *accepted, "--out", folder, status=0)
        by = ("--calibration", folder / "calibration.safetensors", "--json", *accepted)
        done = call("estimate", file, *by)
        assert done.exit_code == (0 if fits else 1), done.output
        (row,) = json.loads(done.stdout)["unknowns"]
        assert row["fits"] == fits
    assert row["method"] == "geonode"
    parts = row["geonode set90 (ppb)"]
    for possible in (12, 48):
        assert any(low < possible < high for low, high in parts)
    record = pd.read_csv(folder / "record.csv")
    assert {"option allow-offset", "option allow-scale"} <= {*record["what"]}
