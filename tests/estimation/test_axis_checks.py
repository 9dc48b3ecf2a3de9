"""An axis that does not resolve a series, and one that is off."""

import numpy as np
import pytest

from geonode.errors import SpectraError
from geonode.estimation.axis_checks import require_resolution, shifts
from geonode.estimation.curve import Curve
from geonode.estimation.model import SpectralModel
from geonode.estimation.tables import estimated
from geonode.spectra.reading import Spectra
from tests.estimation.trained import AXIS, spectra_at, write_model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return SpectralModel.read(write_model(tmp_path_factory.mktemp("axis_checks")) / "data")


@pytest.fixture(scope="module")
def curve(model):
    return Curve.of(model)


def measured(axis, values):
    names = [f"s{place}" for place in range(len(values))]
    return Spectra(names, axis, "wavelength", "nm", values, np.empty(0))


def at(axis, concentrations, shift=0.0):
    """The formula of the series, anywhere."""
    height = 1 - (np.asarray(concentrations, float)[:, None] - 30) ** 2 / 1800
    where = axis + shift
    return 0.2 + 0.0002 * (where - 400) + height * np.exp(-(((where - 550) / 50) ** 2))


@pytest.mark.parametrize("step", [60.0, 75.0, 100.0, 150.0])
def test_steps_that_do_not_resolve_the_series_are_refused(model, curve, step):
    axis = np.arange(400.0, 701.0, step)
    with pytest.raises(
        SpectraError, match=rf"axis: found steps of {step:g}, at which the spectrum"
    ):
        require_resolution(curve, model.series, axis)
    with pytest.raises(SpectraError, match="found steps of"):
        estimated(curve, model.series, measured(axis, at(axis, [40.0])))


@pytest.mark.parametrize("step", [0.5, 1.0, 3.0, 10.0, 15.0])
def test_steps_that_resolve_it_are_taken(model, curve, step):
    axis = np.arange(400.0, 701.0, step)
    rows = estimated(curve, model.series, measured(axis, at(axis, [12.0, 40.0])))
    for row, level in zip(rows, [12.0, 40.0], strict=True):
        assert row.fits
        assert any(low <= level <= high for low, high in row.sets)


@pytest.mark.parametrize("shift", [-12.0, -10.0, 10.0, 13.5])
def test_an_axis_that_is_off_does_not_fit(model, curve, shift):
    rows = estimated(curve, model.series, measured(AXIS, at(AXIS, [8.0, 22.0, 50.0], -shift)))
    for row in rows:
        assert not row.fits
        assert row.shift == pytest.approx(shift, abs=3)
        assert "fits nowhere as it is, but close if its axis is off by about" in row.sentence("ppb")


def test_noise_and_other_shapes_are_no_shift(model, curve):
    rng = np.random.default_rng(1)
    levels = np.linspace(2, 58, 40)
    rows = spectra_at(levels) + rng.normal(0, 0.004, (40, len(AXIS)))
    assert not shifts(curve, model.series, rows).any()
    flat = np.full((1, len(AXIS)), 0.3)
    assert not shifts(curve, model.series, flat).any()
