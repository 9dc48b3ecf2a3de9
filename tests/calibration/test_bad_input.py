"""Input at the limits: an answer with its interval, or one line."""

import re
import warnings

import numpy as np
import pytest

from geonode.calibration.fit import Calibration
from geonode.calibration.verdict import Verdict
from geonode.errors import ParameterError, SpectraError, TrainingError
from geonode.posterior.next_levels import propose
from tests.commands.calling import call

AXIS = np.linspace(0, 1, 21)
BANDS = np.exp(-((AXIS - [[0.3], [0.6]]) ** 2) / 0.02)
LEVELS = np.array([0, 5, 10, 20, 40, 60.0])


def spectra_of(amounts, noise=0.003):
    shares = np.asarray(amounts, float) / np.max(amounts)
    rows = np.stack([shares / (1 + shares), shares], axis=1) @ BANDS + 0.1
    return rows + noise * np.random.default_rng(7).standard_normal(rows.shape)


SPECTRA = spectra_of(LEVELS)


@pytest.fixture(autouse=True)
def no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize(
    ("levels", "spectra"),
    [
        (LEVELS, np.zeros((6, 21))),
        (LEVELS, SPECTRA[[2] * 6]),
        (LEVELS, SPECTRA[:, [6]]),
        (LEVELS, SPECTRA * 1e-28),
        (LEVELS, SPECTRA * 1e28),
        (LEVELS, np.concatenate([np.zeros((5, 21)), SPECTRA[5:]])),
        (LEVELS * 1e-28, SPECTRA),
        (np.repeat(LEVELS, [1, 1, 5, 1, 1, 1]), spectra_of(np.repeat(LEVELS, [1, 1, 5, 1, 1, 1]))),
        (10.0 ** np.arange(-15, 16, 6), spectra_of(np.arange(6))),
        (np.array([0, 1, 1000, 1000.001]), spectra_of(np.arange(4))),
    ],
)
def test_an_answer_has_an_interval(levels, spectra):
    calibration = Calibration.fit(spectra, levels)
    flat = np.stack([np.zeros(spectra.shape[1]), np.full(spectra.shape[1], np.abs(spectra).max())])
    found, ends = calibration.estimate(np.concatenate([spectra, flat]))
    assert np.isfinite(found).all()
    assert np.isfinite(ends).all()
    assert (ends[:, 0] <= ends[:, 1]).all()


@pytest.mark.parametrize("pedestal", [0, 1e5])
def test_a_pedestal_hides_no_concentration(pedestal):
    """The 90% sets stay a tenth of the range wide at most, and hold the truth."""
    unknown = spectra_of([15, 30, 50, 60])[:3] + pedestal
    found = Calibration.fit(SPECTRA + pedestal, LEVELS).by_geonode(unknown)
    np.testing.assert_allclose(found.mode, [15, 30, 50], atol=1)
    for parts, truth in zip(found.sets, [15, 30, 50], strict=True):
        assert parts[0][0] < truth < parts[-1][1] < parts[0][0] + 6


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (1e-310, "found no number larger than .*e-3.., expected some above 1e-30; change the unit"),
        (1e96, r"expected finite numbers of at most 1e\+30; change the unit"),
    ],
)
def test_sizes_of_which_powers_vanish_or_overflow_are_refused(factor, said):
    for spectra, levels in ((SPECTRA, LEVELS * factor), (SPECTRA * factor, LEVELS)):
        with pytest.raises(SpectraError, match=said):
            Calibration.fit(spectra, levels)
    with pytest.raises(SpectraError, match="change the unit"):
        Calibration.fit(SPECTRA, LEVELS).estimate(SPECTRA * factor)


@pytest.mark.parametrize("level", [95, 1, 0.5, 0, -1, np.nan, "0.9", [0.9]])
@pytest.mark.usefixtures("unchecked")
def test_a_level_that_is_none_gives_no_interval(calibration, mixture, level):
    for file in (calibration, mixture):
        model, spectra = file.model.calibration, file.series.signal[:2]
        for use in (model.estimate, getattr(model, "by_geonode", model.estimate)):
            with pytest.raises(ParameterError, match="level: found"):
                use(spectra, level=level)
    with pytest.raises(ParameterError, match="level: found"):
        Calibration.fit(SPECTRA, LEVELS, level=level)


@pytest.mark.parametrize(
    ("scans", "said"),
    [
        (
            (np.arange(3), SPECTRA[:3]),
            "scans: found [0, 1, 2], expected places of samples, each of 6 with a scan",
        ),
        ((np.array([0, 1, 2, 3, 4, 9]), SPECTRA), "scans: found [0, 1, 2, 3, 4], expected"),
        ((np.arange(6), np.where(SPECTRA > 1, np.nan, SPECTRA)), "scans: found NaN or infinity"),
        ((np.arange(6), SPECTRA[:, 1:]), "expected finite numbers: 6 scans, 21 wavelengths"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_scans_that_are_not_those_of_the_samples_are_refused(scans, said):
    with pytest.raises(SpectraError, match=re.escape(said)):
        Calibration.fit(SPECTRA, LEVELS, scans=scans)


@pytest.mark.parametrize("modes", [[1.0], [np.nan, 1.0], "ab"])
@pytest.mark.usefixtures("unchecked")
def test_modes_of_geonode_that_are_none_of_the_unknowns_are_refused(calibration, modes):
    with pytest.raises(SpectraError, match="of_geonode: found"):
        calibration.model.calibration.estimate(calibration.series.signal[:2], modes)


def test_nothing_is_proposed_without_a_response():
    for spectra, said in ((np.zeros((6, 21)), "zero"), (SPECTRA[[1] * 6], "same")):
        with pytest.raises(TrainingError, match=f"found spectra that are .*{said}"):
            propose(LEVELS, spectra, 2)


def test_over_decades_errors_are_shares_of_the_level_too():
    levels = np.array([1, 10, 100, 1000.0])
    pls, geonode = levels * [1.1, 0.9, 1.1, 0.9], levels + np.array([0.9, 9, 10, 10])
    verdict = Verdict.of(levels, {"geonode": geonode, "combined": pls})
    sentence = verdict.sentence("uM", {})
    # RMSEP: sqrt((0.1^2 + 1 + 10^2 + 100^2) / 4) = 50.3; all errors are a tenth.
    assert "RMSEP 50 uM (5.0 % of the range, 10 % of the level)" in sentence
    # Of geonode: sqrt((0.9^2 + 0.9^2 + 0.1^2 + 0.01^2) / 4) = 0.638.
    assert sentence.endswith("geonode with RMSEP 8.4 uM (0.84 % of the range, 64 % of the level).")


def test_levels_of_which_one_node_lies_above_zero_or_none_have_a_page(tmp_path):
    file = tmp_path / "far.csv"
    rows = np.column_stack([400 + AXIS, spectra_of(np.arange(4)).T])
    np.savetxt(file, rows, delimiter=",", header="wavelength_nm,0,1e-6,1,1e6", comments="")
    done = call("calibrate", file, "--accept", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    limits = (tmp_path / "out" / "limits.csv").read_text(encoding="utf-8")
    assert "the levels are too far apart" in limits or "left-out levels are not" in limits
