"""Designs of several substances: what is understood, refused, and proposed next."""

import json

import numpy as np
import pandas as pd
import pytest

from tests.commands.calling import call
from tests.mixtures import beer
from tests.stages.conftest import assert_refused

KNOWN = beer.amounts(12, 2)


def written(folder, layout, known, noise=5e-3):
    """Options of a file of mixtures, of which the last substance may have any name."""
    samples = [f"m{at}" for at in range(len(known))]
    amounts = pd.DataFrame(known, samples, [f"y_s{at} (ppm)" for at in range(known.shape[1])])
    spectra = beer.frame(beer.spectra(known[:, :3], noise=noise), samples).set_index("sample")
    if layout == "second":
        spectra.T.to_csv(folder / "known.csv", index_label="wavelength_nm")
        amounts.to_csv(folder / "amounts.csv", index_label="sample")
        return [folder / "known.csv", "--concentrations", folder / "amounts.csv"]
    if layout == "long":
        about = {"var_name": "wavelength_nm", "value_name": "absorbance"}
        spectra = spectra.melt(ignore_index=False, **about)
    amounts.join(spectra).to_csv(folder / "known.csv", index_label="sample")
    return [folder / "known.csv"]


CLOSED, RATIO = np.c_[KNOWN[:, 0], 10 - KNOWN[:, 0]], np.c_[KNOWN[:, 0], 3 * KNOWN[:, 0]]
FIXED, NEGATIVE = np.c_[KNOWN[:, 0], np.full(12, 2.0)], KNOWN - [[0, 5.0]]
BAD = {
    "fixed": (FIXED, "s1: found the same amount in all 12 samples"),
    "few": (np.tile(KNOWN[:5], (3, 1)), "5 different compositions of 2 substances, expected 6"),
    "negative": (NEGATIVE, "s1: found '-"),
    "seven": (beer.amounts(20, 7), "found 7 substances with 7 names, expected 1 to 6"),
}
TIED = {"closed": (CLOSED, "sum to 10 in every sample"), "ratio": (RATIO, "vary together")}


@pytest.mark.parametrize("layout", ["long", "second"])
@pytest.mark.parametrize(("known", "message"), BAD.values(), ids=BAD)
def test_what_cannot_calibrate_is_one_sentence_in_every_layout(tmp_path, layout, known, message):
    words = written(tmp_path, layout, known)
    for command in ("calibrate", "next"):
        more = ("--out", tmp_path / "out") if command == "calibrate" else ()
        result = call(command, *words, *more, status=2)
        assert message in result.output
        assert "known.csv" in result.output
        assert len(result.output.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()
    seen = call("inspect", *words)
    assert message in seen.output
    assert ("geonode next" in seen.output, seen.exit_code) == (False, 2 * (message[-1] == "-"))


@pytest.mark.parametrize(("known", "message"), TIED.values(), ids=TIED)
def test_tied_amounts_are_calibrated_each_by_itself(tmp_path, known, message):
    words, out = written(tmp_path, "rows", known), tmp_path / "out"
    result = call("calibrate", *words, "--out", out, status=0)
    assert message in result.output
    assert 'data-figure="design_0_1"' in (out / "index.html").read_text()
    assert_refused(call("next", *words), message)


def test_inspect_tells_the_design_and_what_can_follow(tmp_path):
    known = np.vstack([KNOWN, KNOWN[:1]])  # prepared twice
    words = written(tmp_path, "second", known, noise=0.01)
    found = json.loads(call("inspect", *words, "--json").stdout)
    assert (found["substances"], found["units"]) == (["s0", "s1"], ["ppm", "ppm"])
    assert (found["samples"], found["compositions"], found["wavelengths"]) == (13, 12, 60)
    assert found["problem"] is None
    np.testing.assert_allclose(found["lowest"] + found["highest"], [*known.min(0), *known.max(0)])
    expected = pd.DataFrame(known).corr().to_numpy()
    np.testing.assert_allclose(found["correlation"], expected, rtol=1e-9)
    assert 0.007 < found["replicate_noise"] < 0.013
    said = call("inspect", *words).stdout
    assert f"s0 (ppm)   {known[:, 0].min():.4g}" in said
    follows = said.split("geonode next ")[1].splitlines()[0]
    call("next", *follows.split(), "--count", 1, status=0)


def test_next_mixtures_are_a_table_and_the_same_every_time(tmp_path):
    words = written(tmp_path, "rows", KNOWN)
    header, *lines = call("next", *words, "--count", 2).stdout.splitlines()
    names = ["expected error of the signal there", "share of the error removed"]
    assert header.split("  ") == ["s0 (ppm)", "s1 (ppm)", *names]
    found = json.loads(call("next", *words, "--count", 2, "--json").stdout)
    assert found["substances"] == ["s0", "s1"]
    amounts = np.array([one["amounts"] for one in found["next"]])
    shown = [[float(cell) for cell in line.split()[:2]] for line in lines]
    np.testing.assert_allclose(shown, amounts, rtol=1e-3)
    assert (amounts >= KNOWN.min(0)).all()
    assert (amounts <= KNOWN.max(0)).all()
