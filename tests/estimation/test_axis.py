import numpy as np
import pytest

from geonode.errors import SpectraError
from geonode.estimation.axis import on_axis, require_axis
from geonode.spectra.chart import Chart
from geonode.spectra.reading import Spectra
from geonode.spectra.series import Series
from tests.geometry.small_series import LABELS

AXIS = np.arange(400.0, 701.0, 2.0)


def series(axis=AXIS, unit="nm"):
    levels = np.arange(5.0)
    chart = Chart.of("linear", None, levels)
    return Series(levels, axis, np.zeros((5, len(axis))), chart, LABELS | {"axis_unit": unit})


def spectra(axis, unit="nm"):
    return Spectra(["a"], axis, "wavelength", unit, np.zeros((1, len(axis))), np.empty(0))


def wave(axis):
    """Smooth, and no polynomial."""
    return np.stack([np.sin(axis / 40), np.cos(axis / 60)])


@pytest.mark.parametrize("axis", [AXIS, AXIS * (1 + 1e-10)])
def test_the_same_axis_is_left_as_it_is(axis):
    values = wave(axis)
    require_axis(series(), spectra(axis))
    assert on_axis(series(), axis, values) is values


def test_a_covering_axis_is_interpolated():
    axis = np.arange(399.3, 703.0, 0.7)
    require_axis(series(), spectra(axis))
    np.testing.assert_allclose(on_axis(series(), axis, wave(axis)), wave(AXIS), atol=2e-4)
    line = 0.1 + 0.003 * axis[None]
    np.testing.assert_allclose(on_axis(series(), axis, line), 0.1 + 0.003 * AXIS[None], rtol=1e-12)


def test_nothing_overshoots_between_two_values():
    axis = np.arange(395.0, 710.0, 5.0)
    step = (axis > 550).astype(float)[None]
    found = on_axis(series(), axis, step)
    assert (found.min(), found.max()) == (0, 1)


def test_ends_that_differ_by_rounding_are_covered():
    axis = np.linspace(400 * (1 + 1e-10), 700 * (1 - 1e-10), 301)
    require_axis(series(), spectra(axis))
    found = on_axis(series(), axis, wave(axis))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[:, [0, -1]], wave(axis)[:, [0, -1]], rtol=1e-9)


@pytest.mark.parametrize(
    ("low", "high", "missing"),
    [
        (450, 700, "400 to 450 nm is missing"),
        (400, 650, "650 to 700 nm is missing"),
        (450, 650, "400 to 450 and 650 to 700 nm is missing"),
        (100, 300, "400 to 700 nm is missing"),
        (800, 900, "400 to 700 nm is missing"),
    ],
)
def test_what_does_not_cover_is_refused_and_the_missing_range_named(low, high, missing):
    with pytest.raises(SpectraError, match=f"found {low} to {high} nm.*; {missing}"):
        require_axis(series(), spectra(np.linspace(low, high, 101)))


@pytest.mark.parametrize(("own", "other"), [("nm", "cm-1"), ("nm", "um"), ("cm-1", "nm")])
def test_units_that_contradict_are_refused(own, other):
    with pytest.raises(SpectraError, match=f"in {other}, expected {own} as in the model"):
        require_axis(series(unit=own), spectra(AXIS, other))


@pytest.mark.parametrize(("own", "other"), [("nm", "1"), ("1", "nm"), ("1", "1")])
def test_an_unknown_unit_contradicts_none(own, other):
    require_axis(series(unit=own), spectra(AXIS, other))
    with pytest.raises(SpectraError, match="is missing"):
        require_axis(series(unit=own), spectra(AXIS + 50, other))


def without(axis, low, high):
    return axis[(axis <= low) | (axis >= high)]


def test_a_wide_gap_is_refused_and_a_narrow_one_is_not():
    axis = np.arange(400.0, 701.0)
    require_axis(series(), spectra(without(axis, 500, 505)))
    with pytest.raises(SpectraError, match=r"nothing between 500 and 506 nm, .* at most 5 nm"):
        require_axis(series(), spectra(without(axis, 500, 506)))


@pytest.mark.parametrize(("low", "high"), [(400, 420), (680, 700)])
def test_a_gap_at_an_end_is_refused(low, high):
    axis = without(np.arange(400.0, 701.0), low, high)
    with pytest.raises(SpectraError, match=f"nothing between {low} and {high} nm"):
        require_axis(series(), spectra(axis))


def test_a_gap_where_the_model_has_no_wavelength_is_none():
    own = without(AXIS, 500, 600)
    require_axis(series(own), spectra(without(np.arange(400.0, 701.0), 500, 600)))
    require_axis(series(), spectra(np.concatenate([[100.0], np.arange(400.0, 701.0), [900.0]])))
    with pytest.raises(SpectraError, match="between 498 and 602 nm"):
        require_axis(series(own), spectra(without(np.arange(400.0, 701.0), 498, 602)))


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        *[(f"wavelength ({unit})", "1") for unit in ("angstrom", "Å", "pm", "m", "THz")],
        *[(f"wavelength_{unit}", "1") for unit in ("A", "pm", "angstrom")],
        *[("wavelength [A]", "1"), ("Wavelength / pm", "1"), ("lambda (pm)", "1")],
        *[("frequency (THz)", "1"), ("frequency_THz", "1"), ("frequency", "1")],
        *[("raman_shift", "1"), ("Raman shift", "1"), ("energy", "1"), ("photon_energy", "1")],
        *[("wavenumber", "1"), ("axis", "angstroms"), ("axis", "THz")],
    ],
)
def test_an_axis_of_another_quantity_or_unit_is_refused(name, unit):
    other = Spectra(["a"], AXIS, name, unit, np.zeros((1, len(AXIS))), np.empty(0))
    with pytest.raises(SpectraError, match=r"axis: found a .*, expected nm as in the model; conv"):
        require_axis(series(), other)


@pytest.mark.parametrize("name", ["wavelength", "Wavelength", "lambda", "x", "axis", "pixel", "nm"])
def test_an_axis_that_says_nothing_else_is_taken(name):
    other = Spectra(["a"], AXIS, name, "1", np.ones((1, len(AXIS))), np.empty(0))
    require_axis(series(), other)
    assert on_axis(series(), other.axis, other.values) is other.values


def test_waves_in_a_centimetre_have_two_names():
    model = series(unit="cm-1")
    model.labels["axis"] = "raman_shift"
    for name in ("wavenumber", "Raman shift", "shift"):
        require_axis(model, Spectra(["a"], AXIS, name, "cm-1", np.zeros((1, 151)), np.empty(0)))
    with pytest.raises(SpectraError, match="found a energy in cm-1"):
        require_axis(model, Spectra(["a"], AXIS, "energy", "cm-1", np.zeros((1, 151)), np.empty(0)))
