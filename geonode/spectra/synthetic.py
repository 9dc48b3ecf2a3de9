"""Synthetic spectra of a known response that is not monotonic, with instrument noise.

The response imitates a colorimetric assay of arsenic with gold nanoparticles and methylene blue,
which turns from gray to blue and back to gray as the concentration rises from 0 to 60 ppb.
"""

import numpy as np
from jaxtyping import Float

from geonode.config import GenerateParameters
from geonode.errors import ParameterError
from geonode.spectra.arrays import MOST_VALUES
from geonode.spectra.table import SpectraTable

Levels = Float[np.ndarray, "concentration"]
Wavelengths = Float[np.ndarray, "wavelength"]
Absorbances = Float[np.ndarray, "concentration wavelength"]

INSTRUMENT_RANGE = (190.0, 1100.0)
"""Wavelengths of UV-visible spectrometers with silicon detectors (nm); the model's range."""

LARGEST_AGGREGATED_FRACTION = 0.7
"""Of the gold, at half coverage."""

DECIMALS = 6
"""Of wavelengths and absorbance, so that the last bits of a platform's `exp` do not show."""


def coverage(concentrations: Levels) -> Levels:
    """Share of the binding sites that the analyte (ppb) takes: the Hill isotherm."""
    power = (concentrations / 25) ** 2  # half of them at 25 ppb
    return power / (1 + power)


def aggregation(concentrations: Levels) -> Levels:
    """Aggregation relative to its largest, at half coverage: 4 theta (1 - theta)."""
    taken = coverage(concentrations)
    return 4 * taken * (1 - taken)


def plasmon(concentrations: Levels, wavelengths: Wavelengths) -> Absorbances:
    """Absorbance of the plasmons; its integral over wavelength is always 16 nm."""
    relative = aggregation(concentrations)[:, np.newaxis]
    fraction = LARGEST_AGGREGATED_FRACTION * relative
    dispersed = _gaussian(wavelengths, 520, 38)
    # The more and the larger the aggregates are, the farther and the wider is their band.
    aggregated = _gaussian(wavelengths, 650 + 20 * relative, 50 + 30 * relative)
    return 16 * ((1 - fraction) * dispersed + fraction * aggregated)


def methylene_blue(concentrations: Levels, wavelengths: Wavelengths) -> Absorbances:
    """Absorbance of methylene blue, bound and displaced; 6 nm of area if all were monomer."""
    taken = coverage(concentrations)[:, np.newaxis]
    dimer = 0.9 * (1 - taken) + 0.2 * taken  # share of the dye: without analyte, and with much
    monomer_band, dimer_band = _gaussian(wavelengths, 664, 20), _gaussian(wavelengths, 612, 28)
    return 6 * ((1 - dimer) * monomer_band + dimer * 0.6 * dimer_band)


def background(concentrations: Levels, wavelengths: Wavelengths) -> Absorbances:
    """Cuvette, d-band electrons of gold, ultraviolet rise of buffer, scattering by aggregates."""
    fraction = LARGEST_AGGREGATED_FRACTION * aggregation(concentrations)[:, np.newaxis]
    return (
        0.05
        + 0.06 / (1 + np.exp((wavelengths - 480) / 40))
        + 0.15 * np.exp((200 - wavelengths) / 12)
        + 0.015 * fraction * (400 / wavelengths) ** 4  # Rayleigh
    )


def absorbance(concentrations: Levels, wavelengths: Wavelengths) -> Absorbances:
    """Noise-free absorbance of gold nanoparticles with methylene blue under an analyte.

    The analyte binds to the particles by a Hill isotherm, theta = c^n / (c^n + K^n). Bound analyte
    neutralises their charge, so that they aggregate most at half coverage; beyond it the charge
    reverses and disperses them again: the aggregated fraction is proportional to
    4 theta (1 - theta). The analyte also displaces methylene blue from the surface, where it
    absorbs as dimer; displaced dye absorbs as monomer. Gold and dye are conserved: every band
    has an area (absorbance x nm) that is shared out, and everything is analytic in c >= 0.

    Sources of the bands: plasmon of dispersed particles of some 15 nm near 520 nm, Haiss et al.,
    Anal. Chem. 79 (2007) 4215; methylene blue, 664 nm as monomer and a shoulder near 612 nm
    ascribed to its dimer, Fernandez-Perez and Marban, ACS Omega 5 (2020) 29801. The remaining
    numbers give absorbances of 0.05 to 0.5, as such assays do.

    Args:
        concentrations: of the analyte (ppb), none negative.
        wavelengths: within `INSTRUMENT_RANGE` (nm).
    """
    at = concentrations, wavelengths
    return plasmon(*at) + methylene_blue(*at) + background(*at)


def synthetic_scans(parameters: GenerateParameters) -> SpectraTable:
    """Scans of `absorbance` by a noisy instrument.

    Each scan is the absorbance times 1 + scatter, plus an offset, plus a slope times the axis
    charted to [-1, 1], plus white noise; all normal, from one seeded generator on the CPU.

    Raises:
        ParameterError: the axis leaves `INSTRUMENT_RANGE`, its step does not divide it, or there
            would be more than `MOST_VALUES` numbers.
        SpectraError: a level is given twice, or fewer than three wavelengths are asked for.
    """
    asked = parameters.wavelengths
    points = (asked.stop - asked.start) / asked.step + 1
    values = points * len(parameters.concentrations) * parameters.replicates
    if values > MOST_VALUES:  # before memory is taken
        key = "wavelengths.step" if points > MOST_VALUES else "replicates"
        found = asked.step if points > MOST_VALUES else parameters.replicates
        raise ParameterError("generate", key, found, f"at most {MOST_VALUES} values in all")
    low, high = INSTRUMENT_RANGE
    if asked.start < low or asked.stop > high:
        expected = f"an axis within {low:g} to {high:g} nm"
        raise ParameterError("generate", "wavelengths", [asked.start, asked.stop], expected)
    steps = round((asked.stop - asked.start) / asked.step)
    if abs(asked.start + steps * asked.step - asked.stop) > 1e-6 * asked.step:
        expected = "a step that divides the axis"
        raise ParameterError("generate", "wavelengths.step", asked.step, expected)
    axis = np.round(np.linspace(asked.start, asked.stop, steps + 1), DECIMALS)
    concentrations = np.sort(np.array(parameters.concentrations, dtype=np.float64))
    noise = parameters.noise
    generator = np.random.Generator(np.random.PCG64(parameters.seed))

    scan_shape = (len(concentrations), parameters.replicates, 1)
    scatter = noise.scatter * generator.standard_normal(scan_shape)
    offset = noise.offset * generator.standard_normal(scan_shape)
    slope = noise.slope * generator.standard_normal(scan_shape)
    detector = noise.detector * generator.standard_normal((*scan_shape[:2], len(axis)))

    exact = absorbance(concentrations, axis)[:, np.newaxis]
    scans = exact * (1 + scatter) + offset + slope * np.linspace(-1, 1, len(axis)) + detector
    return SpectraTable(
        axis=axis,
        axis_name="wavelength",
        axis_unit="nm",
        concentrations=concentrations,
        scans=list(np.round(scans, DECIMALS)),
        masked=np.empty(0),
    )


def _gaussian(
    wavelengths: Wavelengths,
    peak: float | Float[np.ndarray, "concentration 1"],
    width: float | Float[np.ndarray, "concentration 1"],
) -> Float[np.ndarray, "*concentration wavelength"]:
    """Gaussian band of unit area."""
    return np.exp(-(((wavelengths - peak) / width) ** 2) / 2) / (np.sqrt(2 * np.pi) * width)
