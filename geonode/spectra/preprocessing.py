"""Preprocessing of spectra, each by itself, so that nothing leaks from one into another.

Nothing is fitted: a spectrum becomes the same beside any others. Multiplicative scatter correction
(MSC) is left out: its reference is the mean of other spectra and would have to be fitted in every
fold. It says little more than SNV: with mean m and deviation s of the reference, and r the
correlation of a spectrum with it, MSC is m + s / r times its SNV (Dhanoa, Lister, Sanderson and
Barnes, J. Near Infrared Spectrosc. 2 (1994) 43).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from geonode.errors import SpectraError
from geonode.parameter_types import AslsParameters, PreprocessStep, SavgolParameters

LEAST_PERCENT = 5
"""Percentage that one value at least exceeds; none of fractions and absorbances does."""

MOST_PERCENT = {"absorbance": 110, "kubelka_munk": 100}
"""Largest percentage by step: noise and drift of the lamp take a transmittance beyond 100, where
Kubelka-Munk would rise again."""

EVEN = 1e-3
"""Share of the median step by which other steps of an axis may differ from it, for a filter."""

ITERATIONS = 200
"""Iterations after which the weights of a baseline must have settled."""


@dataclass(frozen=True)
class Preprocessing:
    """Steps done to every spectrum, in this order."""

    steps: tuple[PreprocessStep, ...] = ()  # as the parameter `spectra.preprocess` names them.

    def transform(
        self,
        axis: Float[np.ndarray, "wavelength"],
        spectra: Float[np.ndarray, "spectrum wavelength"],
        names: list[str] | None = None,
    ) -> Float[np.ndarray, "spectrum wavelength"]:
        """The spectra after all steps.

        Args:
            axis: ascending.
            spectra: finite.
            names: names of the spectra, all of which must suit the steps; None: one that does not
                suit becomes NaN throughout.

        Raises:
            SpectraError: the axis is too short or too uneven for a step, no baseline is found, or a
                named spectrum is flat, or not within 0 and 100 per cent.
        """
        for step in self.steps if len(spectra) else ():  # no spectrum is an error of SciPy
            before, spectra = spectra, _after(step, axis, spectra)
            unsuited = np.flatnonzero(~np.isfinite(spectra).all(axis=1))
            if names is None or not unsuited.size:
                continue
            name, values = names[unsuited[0]], before[unsuited[0]]
            found, expected = (
                "flat",
                "a spectrum that varies along the axis, which snv divides by its deviation",
            )
            if step.snv is None:
                found = f"from {values.min():.4g} to {values.max():.4g}"
                most = MOST_PERCENT[step.name]
                expected = f"per cent, above 0 and at most {most}, of which {step.name} is made"
            raise SpectraError(f"spectra.preprocess: found {name!r} {found}, expected {expected}")
        return spectra

    @property
    def keeps_offset_and_scale(self) -> bool:
        """True if an offset and a factor of a spectrum are those of the result."""
        return all(step.savgol is not None and step.savgol.derivative == 0 for step in self.steps)

    def quantity(self, name: str) -> str:
        """Name of the result, for labels, from that of what was measured."""
        return ", ".join([name, *(step.said for step in self.steps)])

    def unit(self, unit: str, axis_unit: str) -> str:
        """Unit of the result, from those of what was measured and of the axis."""
        for step in self.steps:
            if step.savgol is None and step.asls is None:
                unit = "1"
            elif step.savgol is not None and step.savgol.derivative:
                unit = f"{unit}/{axis_unit}^{step.savgol.derivative}"
        return unit


def _after(step: PreprocessStep, axis: np.ndarray, spectra: np.ndarray) -> np.ndarray:
    if step.savgol is not None:
        return savitzky_golay(step.savgol, axis, spectra)
    if step.asls is not None:
        return without_baseline(step.asls, axis, spectra)
    if step.snv is not None:
        return standard_normal_variate(spectra)
    return of_percent(spectra, reflectance=step.kubelka_munk is not None)


def of_percent(
    spectra: Float[np.ndarray, "spectrum wavelength"], *, reflectance: bool
) -> Float[np.ndarray, "spectrum wavelength"]:
    """Absorbance 2 - log10 T of percent transmittance T, or F = (1 - R)^2 / (2 R) of reflectance.

    R is a hundredth of the percent reflectance, of a layer so thick that nothing passes (P. Kubelka
    and F. Munk, Z. tech. Phys. 12 (1931) 593). A spectrum is NaN if it is no percentages.
    """
    most = MOST_PERCENT["kubelka_munk" if reflectance else "absorbance"]
    within = np.all((spectra > 0) & (spectra <= most), axis=1)
    percent = within & np.any(spectra > LEAST_PERCENT, axis=1)
    share = np.where(percent[:, None], spectra, np.nan) / 100
    return (1 - share) ** 2 / (2 * share) if reflectance else -np.log10(share)


def standard_normal_variate(
    spectra: Float[np.ndarray, "spectrum wavelength"],
) -> Float[np.ndarray, "spectrum wavelength"]:
    """Each spectrum less its mean, over its standard deviation; NaN where that is zero.

    Barnes, Dhanoa and Lister, Appl. Spectrosc. 43 (1989) 772: n - 1 degrees of freedom.
    """
    away = spectra - spectra.mean(axis=1, keepdims=True)
    deviation = spectra.std(axis=1, ddof=1, keepdims=True)
    rounding = 1e-12 * np.abs(spectra).max(axis=1, keepdims=True, initial=0)
    return away / np.where(deviation > rounding, deviation, np.nan)


def savitzky_golay(
    choice: SavgolParameters,
    axis: Float[np.ndarray, "wavelength"],
    spectra: Float[np.ndarray, "spectrum wavelength"],
) -> Float[np.ndarray, "spectrum wavelength"]:
    """Each spectrum, or a derivative of it (per axis unit), by a polynomial over a moving window.

    Savitzky and Golay, Anal. Chem. 36 (1964) 1627, by scipy.signal.savgol_filter; at the ends the
    polynomial of the last whole window goes on.

    Raises:
        SpectraError: the axis is shorter than the window, or its steps vary.
    """
    from scipy.signal import savgol_filter  # noqa: PLC0415 - for those who ask for it

    steps = np.diff(axis)
    if len(axis) < choice.window:
        raise SpectraError(
            f"spectra.preprocess: savgol: found {len(axis)} wavelengths, expected at least the "
            f"window, {choice.window}"
        )
    even = float(np.median(steps))
    if np.abs(steps - even).max() > EVEN * even:
        raise SpectraError(
            f"spectra.preprocess: savgol: found steps of the axis from {steps.min():.6g} to "
            f"{steps.max():.6g}, expected even ones; choose a part with spectra.window, or leave "
            "the step out"
        )
    return savgol_filter(
        spectra, choice.window, choice.degree, choice.derivative, even, axis=1, mode="interp"
    )


def without_baseline(
    choice: AslsParameters,
    axis: Float[np.ndarray, "wavelength"],
    spectra: Float[np.ndarray, "spectrum wavelength"],
) -> Float[np.ndarray, "spectrum wavelength"]:
    """Each spectrum less a smooth baseline below its bands, by asymmetric least squares.

    Eilers, Anal. Chem. 76 (2004) 404, and Eilers and Boelens (2005), by pybaselines.

    Raises:
        SpectraError: the weights of a baseline do not settle.
    """
    from pybaselines import Baseline  # noqa: PLC0415 - for those who ask for it

    fitter, left = Baseline(axis, check_finite=True), np.full_like(spectra, np.nan)
    for place in np.flatnonzero(np.isfinite(spectra).all(axis=1)).tolist():
        spectrum = spectra[place]
        found, told = fitter.asls(
            spectrum, lam=choice.smoothness, p=choice.asymmetry, max_iter=ITERATIONS
        )
        if not told["tol_history"][-1] <= 1e-3:
            raise SpectraError(
                f"spectra.preprocess: asls: found no baseline of spectrum {place + 1} in "
                f"{ITERATIONS} steps, expected one; change smoothness or asymmetry"
            )
        left[place] = spectrum - found
    return left
