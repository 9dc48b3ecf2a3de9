from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from geonode.errors import SpectraError
from geonode.estimation.axis import require_axis, shifts
from geonode.spectra.common_axis import interpolated
from geonode.spectra.table import Spectra
from tests.estimation.trained import spectra_at
from tests.factory import LABELS, series_of

AXIS = np.arange(400.0, 701.0, 2.0)


def series(axis=AXIS, unit="nm"):
    found = series_of(np.arange(5.0), np.zeros((5, len(axis))), axis)
    return replace(found, labels=LABELS | {"axis_unit": unit})


def spectra(axis, unit="nm", name="wavelength", values=None):
    values = np.zeros((1, len(axis))) if values is None else values
    names = [f"s{place}" for place in range(len(values))]
    return Spectra(names, axis, name, unit, values, np.empty(0))


def wave(axis):
    """Smooth, and no polynomial."""
    return np.stack([np.sin(axis / 40), np.cos(axis / 60)])


ENDS = np.linspace(400 * (1 + 1e-10), 700 * (1 - 1e-10), 301)
"""Off by rounding."""


@pytest.mark.parametrize("axis", [AXIS, AXIS * (1 + 1e-10), ENDS, np.arange(399.3, 703.0, 0.7)])
def test_a_covering_axis_is_interpolated(axis):
    require_axis(series(), spectra(axis))
    found = interpolated(axis, values := wave(axis), AXIS)
    np.testing.assert_allclose(found, wave(AXIS), atol=2e-4)
    assert (found is values) == (len(axis) == len(AXIS))


def test_nothing_overshoots():
    axis = np.arange(395.0, 710.0, 5.0)
    found = interpolated(axis, (axis > 550).astype(float)[None], AXIS)
    assert (found.min(), found.max()) == (0, 1)


def test_what_does_not_cover_is_refused_and_the_missing_range_named():
    with pytest.raises(SpectraError, match=r"found 450 to 650 .*; 400 to 450 and 650 to 700 nm is"):
        require_axis(series(), spectra(np.linspace(450, 650, 101)))
    with pytest.raises(SpectraError, match=r"found 100 to 300 nm.*; 400 to 700 nm is missing"):
        require_axis(series(), spectra(np.linspace(100, 300, 101)))


def test_an_unknown_unit_contradicts_none():
    for own, other in (("nm", "1"), ("1", "nm"), ("1", "1")):
        require_axis(series(unit=own), spectra(AXIS, other))
        with pytest.raises(SpectraError, match="is missing"):
            require_axis(series(unit=own), spectra(AXIS + 50, other))


def without(axis, low, high):
    return axis[(axis <= low) | (axis >= high)]


def test_a_gap_where_the_model_has_wavelengths_is_refused():
    axis, own = np.arange(400.0, 701.0), without(AXIS, 500, 600)
    wider = np.concatenate([[100.0], axis, [900.0]])
    for of_model, given in (AXIS, without(axis, 500, 505)), (own, without(axis, 500, 600)):
        require_axis(series(of_model), spectra(given))
    require_axis(series(), spectra(wider))
    for of_model, low, high in ((AXIS, 500, 506), (AXIS, 400, 420), (own, 498, 602)):
        with pytest.raises(SpectraError, match=rf"between {low} and {high} nm, .* at most 5 nm"):
            require_axis(series(of_model), spectra(without(axis, low, high)))


ANOTHER = [
    *[("wavelength", "cm-1"), ("wavelength_A", "1"), ("wavelength [A]", "1")],
    *[(f"wavelength ({unit})", "1") for unit in ("angstrom", "Å", "m", "THz")],
    *[("frequency", "1"), ("Raman shift", "1"), ("photon_energy", "1"), ("wavenumber", "1")],
    *[("Wavelength / pm", "1"), ("axis", "angstroms")],
]


@pytest.mark.parametrize(("name", "unit"), ANOTHER)
def test_an_axis_of_another_quantity_or_unit_is_refused(name, unit):
    with pytest.raises(SpectraError, match=r"axis: found a .*, expected nm as in the model; conv"):
        require_axis(series(), spectra(AXIS, unit, name))


def test_waves_in_a_centimetre_have_two_names():
    model = series(unit="cm-1")
    model.labels["axis"] = "raman_shift"
    for name in ("wavenumber", "Raman shift", "shift"):
        require_axis(model, spectra(AXIS, "cm-1", name))
    with pytest.raises(SpectraError, match="found a energy in cm-1"):
        require_axis(model, spectra(AXIS, "cm-1", "energy"))


# an axis that does not resolve a series, and one that is off


@pytest.mark.parametrize("step", [37.5, 60.0, 150.0])
def test_steps_that_do_not_resolve_the_series_are_refused(calibrated, step):
    """At 37.5 nm 1.7 times the noise is lost, of 1.2 times that are allowed."""
    axis = np.arange(400.0, 701.0, step)
    with pytest.raises(SpectraError, match=rf"axis: found steps of {step:g}, at which the spec"):
        calibrated.estimated(Path("a"), spectra(axis, values=spectra_at([40.0], axis)))


@pytest.mark.parametrize("step", [0.5, 3.0, 10.0, 15.0])
def test_steps_that_resolve_it_are_taken(calibrated, step):
    axis = np.arange(400.0, 701.0, step)
    unknown = spectra(axis, values=spectra_at([12.0, 40.0], axis))
    found = calibrated.estimated(Path("a"), unknown)
    for one, level in zip(found, [12.0, 40.0], strict=True):
        assert one.fits
        assert one.contains([level]) == [True]


@pytest.mark.parametrize(("shift", "found"), [(4.5, 0.0), (5.25, 5.25), (-4.5, 0.0), (-6.0, -6.0)])
def test_a_shift_of_less_than_half_a_step_is_none(calibrated, curve, shift, found):
    values = spectra_at([22.0], calibrated.series.axis - shift)  # its steps are 10 nm
    np.testing.assert_allclose(shifts(curve, calibrated.series, values), found, atol=1e-9)


def test_noise_and_other_shapes_are_no_shift(calibrated, curve):
    series = calibrated.series
    noise = np.random.default_rng(1).normal(0, 0.004, (40, len(series.axis)))
    rows = spectra_at(np.linspace(2, 58, 40), series.axis) + noise
    assert not shifts(curve, series, rows).any()
    assert not shifts(curve, series, np.full((1, rows.shape[1]), 0.3)).any()
