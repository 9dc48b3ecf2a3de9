import csv

import numpy as np
import pytest

from geonode.errors import TrainingError
from geonode.metrics.evidence import charts_by_evidence
from geonode.spectra.chart import Chart
from geonode.training.folds import leave_one_out, leave_two_out

WIDE = np.array([1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0])
EVEN = np.linspace(1.0, 7.0, 7)
AXIS = np.linspace(0, 1, 40)


def smooth(coordinate):
    """Spectra that are smooth functions of a coordinate from -1 to 1, and a little noise."""
    scaled = 2 * (coordinate - coordinate.min()) / np.ptp(coordinate) - 1
    spectra = np.sin(2 * scaled[:, None] + 5 * AXIS) + 0.5 * np.cos(3 * scaled[:, None] * AXIS)
    return spectra + 1e-3 * np.random.default_rng(0).normal(size=spectra.shape)


def kappas(levels, spectra, margin=1.0):
    return [chart.kappa for chart in charts(levels, spectra, margin)]


def charts(levels, spectra, margin=1.0):
    folds = leave_one_out(len(levels))
    return charts_by_evidence(Chart.of("linear", None, levels), levels, spectra, folds, margin)


def test_spectra_smooth_in_the_logarithm_ask_for_a_logarithmic_chart():
    found = kappas(WIDE, smooth(np.log(WIDE)))
    assert len(found) == 8
    assert max(found) < 3.0  # where it is linear there is but one level


def test_spectra_smooth_in_concentration_keep_the_linear_chart():
    assert kappas(EVEN, smooth(EVEN)) == [np.inf] * 8
    assert kappas(np.append(0.0, EVEN), smooth(np.append(0.0, EVEN))) == [np.inf] * 9


def test_a_blank_has_a_place_on_the_chart():
    levels = np.append(0.0, WIDE)
    found = kappas(levels, smooth(np.arcsinh(levels / 10.0)))
    assert all(1.0 < kappa < 100.0 for kappa in found)
    for chart in charts(levels, smooth(np.arcsinh(levels / 10.0))):
        assert (chart.low, chart.high) == (0.0, 1000.0)


def test_no_chart_of_a_series_with_a_blank_is_logarithmic():
    """Neither where the blank is trained on nor where it is left out and has to be predicted."""
    levels, spectra = np.append(0.0, WIDE), np.vstack([np.zeros(40), smooth(np.log(WIDE))])
    assert charts(WIDE, spectra[1:], 0.0)[-1].kappa == 0
    folds = [*leave_one_out(8), *leave_two_out(8, 2)]
    given = Chart.of("linear", None, levels)
    found = charts_by_evidence(given, levels, spectra, folds, 0.0)
    assert all(chart.kappa > 0 for chart in found)
    for chart in found:
        assert np.isfinite(chart.position(levels)).all()


def test_the_chart_that_is_given_stays_where_the_evidence_is_weak():
    given = Chart.of("asinh", 20.0, WIDE)
    spectra = smooth(np.log(WIDE))
    folds = leave_one_out(7)
    assert charts_by_evidence(given, WIDE, spectra, folds, 1e3) == [given] * 8
    assert all(chart.kappa < 3.0 for chart in charts_by_evidence(given, WIDE, spectra, folds, 0.1))


def test_a_large_margin_leaves_everything_linear():
    assert kappas(WIDE, smooth(np.log(WIDE)), margin=1e3) == [np.inf] * 8


@pytest.mark.parametrize("erased", [-1e6, 7.0])
def test_a_left_out_spectrum_does_not_reach_the_chart_of_its_fold(erased):
    spectra = smooth(np.log(WIDE)) + 0.1 * np.random.default_rng(1).normal(size=(7, 40))
    found = charts(WIDE, spectra, 0.0)
    for fold in range(7):
        without = spectra.copy()
        without[fold] = erased
        assert charts(WIDE, without, 0.0)[fold] == found[fold]


def test_the_chart_of_an_inner_fold_is_that_of_its_own_spectra():
    given, folds = Chart.of("linear", None, WIDE), leave_two_out(7, 3)
    spectra = smooth(np.log(WIDE)) + 0.1 * np.random.default_rng(1).normal(size=(7, 40))
    found = charts_by_evidence(given, WIDE, spectra, folds, 0.0)
    assert len(set(found)) > 1
    for fold, chart in zip(folds, found, strict=True):
        unknown = spectra.copy()
        unknown[list(fold.left_out)] = np.nan
        assert charts_by_evidence(given, WIDE, unknown, [fold], 0.0) == [chart]


def test_negative_levels_are_refused():
    with pytest.raises(TrainingError, match=r"found the level -1, .*evidence_margin to null"):
        charts(np.array([-1.0, 0.0, 1.0, 2.0]), np.zeros((4, 3)))


def test_of_the_measured_series_the_wide_one_leaves_the_linear_chart(measured_data):
    """Synchronous fluorescence from 31 to 10,000 uM; arsenic from 0 to 60 ppb."""
    found = {}
    for name in ("pmppp_sync_dl15", "aunp_as_030mb"):
        with (measured_data / f"{name}.csv").open() as file:
            header, *rows = csv.reader(file)
        levels = np.array(header[1:], dtype=float)
        found[name] = kappas(levels, np.array(rows, dtype=float)[:, 1:].T)
    assert max(found["pmppp_sync_dl15"]) < 300
    assert found["aunp_as_030mb"] == [np.inf] * 7
