import numpy as np
import pytest
from pydantic import ValidationError

from geonode.errors import SpectraError
from geonode.parameter_types import PreprocessStep
from geonode.spectra.preprocessing import Preprocessing

AXIS = np.arange(400.0, 430.0, 0.5)
SPECTRA = np.random.default_rng(3).normal(size=(5, len(AXIS)))
SAVGOL = {"savgol": {"window": 7, "degree": 2, "derivative": 1}}
EVERY = ["snv", SAVGOL, {"asls": {"smoothness": 100.0}}]


def steps(*said):
    return Preprocessing(tuple(PreprocessStep.model_validate(step) for step in said))


def test_snv_has_mean_0_and_deviation_1():
    found = steps("snv").transform(np.arange(3.0), np.array([[1.0, 2, 3], [10, 30, 50]]))
    np.testing.assert_allclose(found, [[-1, 0, 1], [-1, 0, 1]], atol=1e-15)


def test_derivatives_are_exact_on_polynomials_of_the_degree():
    polynomial = np.polynomial.Polynomial([0.3, -0.2, 0.05])
    found = steps(SAVGOL).transform(AXIS, polynomial(AXIS - 410)[None])
    np.testing.assert_allclose(found[0], polynomial.deriv()(AXIS - 410), atol=1e-10)


def test_percent_becomes_absorbance_and_kubelka_munk():
    percent = np.array([[100.0, 10.0, 1.0], [50.0, 20.0, 80.0]])
    noisy = steps("absorbance").transform(AXIS[:2], np.array([[104.0, 50.0]]))
    np.testing.assert_allclose(noisy, [[-np.log10(1.04), np.log10(2)]])
    absorbance = steps("absorbance").transform(AXIS[:3], percent)
    np.testing.assert_allclose(absorbance, [[0, 1, 2], -np.log10([0.5, 0.2, 0.8])], atol=1e-15)
    of_reflectance = steps("kubelka_munk").transform(AXIS[:3], percent)
    np.testing.assert_allclose(of_reflectance, [[0, 4.05, 49.005], [0.25, 1.6, 0.025]])
    said = steps("absorbance", "snv")
    assert said.quantity("percent transmittance") == "percent transmittance, as A, SNV"
    assert said.unit("%", "nm") == "1"


@pytest.mark.parametrize(("step", "most"), [("absorbance", 110), ("kubelka_munk", 100)])
@pytest.mark.parametrize("wrong", [0.0, -1.0, 110.1])
def test_what_is_no_percent_is_refused(step, most, wrong):
    spectra = np.array([[50.0, 60.0], [50.0, wrong], [0.5, 4.9]])
    found = steps(step, "snv").transform(AXIS[:2], spectra)
    assert np.isfinite(found).all(axis=1).tolist() == [True, False, False]
    for name, values in (("b", f"{min(50, wrong):g} to {max(50, wrong):g}"), ("c", "0.5 to 4.9")):
        own = [0, "abc".index(name)]
        said = f"found '{name}' from {values}, expected per cent, above 0 and at most {most}, "
        with pytest.raises(SpectraError, match=said):
            steps(step).transform(AXIS[:2], spectra[own], ["a", name])


def baseline(spectrum, smoothness, asymmetry):
    """Eilers and Boelens with dense matrices."""
    size = len(spectrum)
    rough = smoothness * np.diff(np.eye(size), 2, axis=0).T @ np.diff(np.eye(size), 2, axis=0)
    weights = np.ones(size)
    for _ in range(200):
        found = np.linalg.solve(np.diag(weights) + rough, weights * spectrum)
        new = np.where(spectrum > found, asymmetry, 1 - asymmetry)
        if np.array_equal(new, weights):
            return found
        weights = new
    raise AssertionError


def test_asls_is_the_published_baseline():
    band = np.exp(-(((AXIS - 412) / 2) ** 2)) + 0.02 * (AXIS - 400) + 0.001 * SPECTRA[0]
    found = steps({"asls": {"smoothness": 1e4, "asymmetry": 0.01}}).transform(AXIS, band[None])
    np.testing.assert_allclose(found[0], band - baseline(band, 1e4, 0.01), atol=1e-6)


@pytest.mark.parametrize(("window", "degree"), [(51, 8), (101, 7), (501, 5), (2001, 4)])
def test_the_largest_windows_and_degrees_are_still_exact(window, degree):
    axis = np.linspace(-1, 1, 2001)
    exact = np.polynomial.Legendre.basis(degree)(axis)[None]
    found = steps({"savgol": {"window": window, "degree": degree}}).transform(axis, exact)
    np.testing.assert_allclose(found, exact, atol=1e-4)
    with pytest.raises(ValidationError, match="at most 1e12"):
        steps({"savgol": {"window": window, "degree": degree + 1}})


def test_the_stiffest_baseline_balances_what_is_above_and_below_it():
    """As its normal equations say, to which roughness adds nothing along a line."""
    axis, random = np.linspace(-1, 1, 5001), np.random.default_rng(0)
    spectrum = 0.3 + 0.2 * axis + np.exp(-((axis / 0.2) ** 2)) + 0.002 * random.normal(size=5001)
    step = {"asls": {"smoothness": 1e9, "asymmetry": 1e-4}}
    left = steps(step).transform(axis, spectrum[None])[0]
    weights = np.where(left > 0, 1e-4, 1 - 1e-4)
    for line in (np.ones(5001), axis):
        assert abs(weights * left @ line) < 1e-4 * (weights * np.abs(line)).sum()


@pytest.mark.parametrize("step", EVERY, ids=["snv", "savgol", "asls"])
def test_a_spectrum_becomes_the_same_beside_any_others(step):
    together = steps(step).transform(AXIS, SPECTRA)
    for place in range(len(SPECTRA)):
        alone = steps(step).transform(AXIS, SPECTRA[place : place + 1])
        np.testing.assert_array_equal(alone[0], together[place])
    assert steps(step).transform(AXIS, SPECTRA[:0]).shape == (0, len(AXIS))


def test_steps_are_taken_in_their_order():
    first = steps(SAVGOL).transform(AXIS, SPECTRA)
    np.testing.assert_array_equal(
        steps(SAVGOL, "snv").transform(AXIS, SPECTRA), steps("snv").transform(AXIS, first)
    )
    assert steps(SAVGOL, "snv").quantity("absorbance") == "absorbance, derivative 1, SNV"
    assert steps(SAVGOL).unit("AU", "nm") == "AU/nm^1"
    assert (steps(SAVGOL, "snv").unit("AU", "nm"), steps().unit("AU", "nm")) == ("1", "AU")
    smooth = {"savgol": {"window": 7, "degree": 2}}
    for said, keeps in (((), True), ((smooth,), True), ((SAVGOL,), False), (("snv",), False)):
        assert steps(*said).keeps_offset_and_scale is keeps


def test_what_a_step_cannot_do_is_refused():
    with pytest.raises(SpectraError, match=r"steps of the axis from 0\.5 to 1, expected even"):
        steps(SAVGOL).transform(np.delete(AXIS, 4), np.delete(SPECTRA, 4, axis=1))
    with pytest.raises(SpectraError, match="found 5 wavelengths, expected at least the window, 7"):
        steps(SAVGOL).transform(AXIS[:5], SPECTRA[:, :5])
    flat = np.vstack([SPECTRA[:1], np.full((1, len(AXIS)), 0.1)])
    assert np.isnan(steps("snv").transform(AXIS, flat)).all(axis=1).tolist() == [False, True]
    with pytest.raises(SpectraError, match="found 'b' flat"):
        steps("snv").transform(AXIS, flat, ["a", "b"])


def test_a_step_that_is_none_is_refused():
    windows = [(8, 2, 0), (5, 5, 0), (5, 1, 2)]
    for said in (
        *["msc", {}, {"snv": None}, {"snv": {}, "asls": {}}],
        *[{"savgol": {"window": w, "degree": d, "derivative": of}} for w, d, of in windows],
        *[{"asls": {"asymmetry": one}} for one in (0.7, 1e-5)],
        *[{"asls": {"smoothness": one}} for one in (0.1, 1e10, 1e18, float("inf"))],
    ):
        with pytest.raises(ValidationError):
            PreprocessStep.model_validate(said)
