"""Synthetic spectra of a known response that is not monotonic, with instrument noise.

The response imitates a colorimetric assay of arsenic with gold nanoparticles and methylene blue,
which turns from gray to blue and back to gray as the concentration rises from 0 to 60 ppb.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from geonode.config import AxisParameters, GenerateParameters
from geonode.errors import ParameterError
from geonode.spectra.arrays import MOST_VALUES
from geonode.spectra.table import SpectraTable

Levels = Float[np.ndarray, "concentration"]
Wavelengths = Float[np.ndarray, "wavelength"]
Absorbances = Float[np.ndarray, "concentration wavelength"]

INSTRUMENT_RANGE = (190.0, 1100.0)
"""Wavelengths of UV-visible spectrometers with silicon detectors (nm); the model's range."""

DECIMALS = 6
"""Of wavelengths and absorbance, so that the last bits of a platform's `exp` do not show."""


@dataclass(frozen=True)
class SyntheticResponse:
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
    """

    half_coverage: float = 25.0  # ppb, K of the isotherm
    cooperativity: int = 2  # n of the isotherm; 1 is that of Langmuir
    largest_aggregated_fraction: float = 0.7  # of the gold, at half coverage

    plasmon_area: float = 16.0  # absorbance nm, of all gold, dispersed or aggregated
    dispersed_peak: float = 520.0  # nm
    dispersed_width: float = 38.0  # nm, standard deviation, as all widths
    aggregated_peak: float = 650.0  # nm, of few and small aggregates
    aggregated_peak_shift: float = 20.0  # nm, at largest aggregation
    aggregated_width: float = 50.0  # nm
    aggregated_width_growth: float = 30.0  # nm, at largest aggregation

    dye_area: float = 6.0  # absorbance nm, of all methylene blue as monomer
    monomer_peak: float = 664.0  # nm
    monomer_width: float = 20.0  # nm
    dimer_peak: float = 612.0  # nm
    dimer_width: float = 28.0  # nm
    dimer_strength: float = 0.6  # area of the dimer, per area of the same dye as monomer
    dimer_share_bound: float = 0.9  # of the dye, without analyte
    dimer_share_free: float = 0.2  # of the dye, at full coverage

    baseline: float = 0.05  # absorbance, of the cuvette
    interband: float = 0.06  # absorbance, of d-band electrons, far above the threshold
    interband_threshold: float = 480.0  # nm
    interband_width: float = 40.0  # nm
    ultraviolet: float = 0.15  # absorbance at 200 nm, of ligands and buffer
    ultraviolet_decay: float = 12.0  # nm
    scattering: float = 0.015  # absorbance at 400 nm, if all gold were aggregated (Rayleigh)

    def coverage(self, concentrations: Levels) -> Levels:
        """Share of the binding sites that the analyte (ppb) takes: the Hill isotherm."""
        power = (concentrations / self.half_coverage) ** self.cooperativity
        return power / (1 + power)

    def aggregation(self, concentrations: Levels) -> Levels:
        """Aggregation relative to its largest, at half coverage: 4 theta (1 - theta)."""
        coverage = self.coverage(concentrations)
        return 4 * coverage * (1 - coverage)

    def plasmon(self, concentrations: Levels, wavelengths: Wavelengths) -> Absorbances:
        """Absorbance of the plasmons; its integral over wavelength is `plasmon_area`."""
        aggregation = self.aggregation(concentrations)[:, np.newaxis]
        fraction = self.largest_aggregated_fraction * aggregation
        dispersed = _gaussian(wavelengths, self.dispersed_peak, self.dispersed_width)
        aggregated = _gaussian(
            wavelengths,
            self.aggregated_peak + self.aggregated_peak_shift * aggregation,
            self.aggregated_width + self.aggregated_width_growth * aggregation,
        )
        return self.plasmon_area * ((1 - fraction) * dispersed + fraction * aggregated)

    def methylene_blue(self, concentrations: Levels, wavelengths: Wavelengths) -> Absorbances:
        """Absorbance of methylene blue, bound and displaced."""
        coverage = self.coverage(concentrations)[:, np.newaxis]
        dimer = self.dimer_share_bound * (1 - coverage) + self.dimer_share_free * coverage
        return self.dye_area * (
            (1 - dimer) * _gaussian(wavelengths, self.monomer_peak, self.monomer_width)
            + dimer
            * self.dimer_strength
            * _gaussian(wavelengths, self.dimer_peak, self.dimer_width)
        )

    def background(self, concentrations: Levels, wavelengths: Wavelengths) -> Absorbances:
        """Cuvette, interband absorption of gold, ultraviolet rise, scattering by aggregates."""
        aggregation = self.aggregation(concentrations)[:, np.newaxis]
        fraction = self.largest_aggregated_fraction * aggregation
        edge = (wavelengths - self.interband_threshold) / self.interband_width
        return (
            self.baseline
            + self.interband / (1 + np.exp(edge))
            + self.ultraviolet * np.exp((200 - wavelengths) / self.ultraviolet_decay)
            + self.scattering * fraction * (400 / wavelengths) ** 4
        )

    def absorbance(self, concentrations: Levels, wavelengths: Wavelengths) -> Absorbances:
        """Absorbance of the whole mixture.

        Args:
            concentrations: of the analyte (ppb), none negative.
            wavelengths: within `INSTRUMENT_RANGE` (nm).
        """
        return (
            self.plasmon(concentrations, wavelengths)
            + self.methylene_blue(concentrations, wavelengths)
            + self.background(concentrations, wavelengths)
        )


def synthetic_scans(parameters: GenerateParameters) -> SpectraTable:
    """Scans of a `SyntheticResponse` by a noisy instrument.

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
    axis = _evenly(asked)
    concentrations = np.sort(np.array(parameters.concentrations, dtype=np.float64))
    noise = parameters.noise
    generator = np.random.Generator(np.random.PCG64(parameters.seed))

    scan_shape = (len(concentrations), parameters.replicates, 1)
    scatter = noise.scatter * generator.standard_normal(scan_shape)
    offset = noise.offset * generator.standard_normal(scan_shape)
    slope = noise.slope * generator.standard_normal(scan_shape)
    detector = noise.detector * generator.standard_normal((*scan_shape[:2], len(axis)))

    absorbance = SyntheticResponse().absorbance(concentrations, axis)[:, np.newaxis]
    scans = absorbance * (1 + scatter) + offset + slope * np.linspace(-1, 1, len(axis)) + detector
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


def _evenly(parameters: AxisParameters) -> Wavelengths:
    start, stop, step = parameters.start, parameters.stop, parameters.step
    low, high = INSTRUMENT_RANGE
    if start < low or stop > high:
        raise ParameterError(
            "generate", "wavelengths", [start, stop], f"an axis within {low:g} to {high:g} nm"
        )
    steps = round((stop - start) / step)
    if abs(start + steps * step - stop) > 1e-6 * step:
        raise ParameterError("generate", "wavelengths.step", step, "a step that divides the axis")
    return np.round(np.linspace(start, stop, steps + 1), DECIMALS)
