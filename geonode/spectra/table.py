"""Spectra on one axis: of a concentration series, and of unknowns."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from geonode.errors import SpectraError
from geonode.spectra.arrays import require_size
from geonode.spectra.replicates import Replicates
from geonode.storage.table import Column, Table, shortest

FEWEST_LEVELS, MOST_LEVELS = 4, 50
"""Concentrations that a metric is learned from; a calibration does without beyond."""

FEWEST_SAMPLES, MOST_SAMPLES = 3, 20_000
"""Concentrations of a calibration."""

FEWEST_WAVELENGTHS = 3

EQUAL_LEVELS = 1e-9
"""Relative difference of concentrations, up to which they are one: nobody weighs so exactly."""

ROUNDING_OF_ZERO = 4 * float(np.finfo(float).eps)
"""Share of the next level, up to which one is zero: 0.3 - 0.1 - 0.2 is not."""


@dataclass(frozen=True, eq=False)
class SpectraTable:
    """A validated concentration series on one spectral axis.

    Raises:
        SpectraError: too few or too many levels, too few wavelengths, an axis or levels that do
            not ascend, a negative level, or a number that is not finite or too large.
    """

    axis: Float[np.ndarray, "wavelength"]
    """Spectral axis, ascending; called wavelength whatever its quantity."""
    axis_name: str  # what the axis is, such as "wavelength" or "raman_shift"
    axis_unit: str  # its unit, such as "nm" or "cm-1"; "1" if unknown
    concentrations: Float[np.ndarray, "concentration"]
    """Levels, ascending, each once, none negative."""
    scans: list[Float[np.ndarray, "_scan wavelength"]]
    """The scans of every level, which may differ in number."""
    masked: Float[np.ndarray, "masked"]  # wavelengths that were left out because a cell was missing
    concentration_unit: str | None = None
    """Unit of the levels as the file names it; None if it does not."""
    places: tuple[tuple[int, ...], ...] = ()
    """Of every scan in the file, by level; empty if it is not known."""
    quantity: str | None = None
    """Quantity of the spectra by the file (`quantities.WORDS`); None if it does not say."""

    def __post_init__(self) -> None:
        levels, wavelengths = len(self.concentrations), len(self.axis)
        if not FEWEST_SAMPLES <= levels <= MOST_SAMPLES:
            raise SpectraError(
                f"found {levels} concentrations, expected {FEWEST_SAMPLES} to {MOST_SAMPLES} "
                "(one column a spectrum, one row a wavelength)"
            )
        if wavelengths < FEWEST_WAVELENGTHS:
            raise SpectraError(
                f"found {wavelengths} wavelengths, expected at least {FEWEST_WAVELENGTHS} "
                "(one column a spectrum, one row a wavelength)"
            )
        finite = self.concentrations[np.isfinite(self.concentrations)]
        if self.concentrations[0] < 0 or np.any(np.diff(without_rounding(finite)) <= 0):
            raise SpectraError(
                f"found concentrations {self.concentrations.tolist()}, expected each once, "
                "ascending, none negative"
            )
        if np.any(np.diff(self.axis) <= 0):
            raise SpectraError("found an axis that does not ascend, expected every value once")
        for numbers in (self.axis, self.concentrations, np.concatenate(self.scans)):
            if not np.all(np.isfinite(numbers)):
                raise SpectraError("found NaN or infinity, expected finite numbers only")
            require_size(numbers)

    @property
    def spectra(self) -> Float[np.ndarray, "concentration wavelength"]:
        """Mean spectrum of every level."""
        return np.stack([scans.mean(axis=0) for scans in self.scans])

    @property
    def replicates(self) -> Replicates:
        """The scans of every level about their mean."""
        return Replicates.of(self.scans)

    def replicate_noise(self) -> float | None:
        """Root mean square over wavelengths of the noise of one scan; None without replicates."""
        noise = self.replicates.noise
        return None if noise is None else float(np.sqrt(np.mean(noise**2)))

    def non_monotonic_share(self, noise: float) -> float:
        """Share of wavelengths at which the mean spectra both rise and fall with concentration.

        By more than three standard deviations of a difference of spectra, each with this noise.
        """
        spectra, least = self.spectra, 3 * 2**0.5 * noise
        rises = (spectra - np.minimum.accumulate(spectra, axis=0)).max(axis=0) > least
        falls = (np.maximum.accumulate(spectra, axis=0) - spectra).max(axis=0) > least
        return float(np.mean(rises & falls))


@dataclass(frozen=True, eq=False)
class Spectra:
    """Spectra of unknown concentration on one spectral axis."""

    names: list[str]  # what the file calls each spectrum, without repetition
    axis: Float[np.ndarray, "wavelength"]  # spectral axis, ascending
    axis_name: str  # what the axis is, such as "wavelength" or "raman_shift"
    axis_unit: str  # its unit; "1" if unknown
    values: Float[np.ndarray, "spectrum wavelength"]  # the spectra
    masked: Float[np.ndarray, "masked"]
    """Wavelengths that were left out because a value was missing."""
    quantity: str | None = None  # what they are of (`quantities.WORDS`); None: unknown.
    converted: str = ""  # how they were converted to another one, if they were


def to_csv(table: SpectraTable) -> str:
    """Text of a table that is read back, every number in its shortest exact form."""
    unit = {"1": "", "cm-1": "_cm1"}.get(table.axis_unit, f"_{table.axis_unit}")
    of_level = "" if table.concentration_unit is None else f" {table.concentration_unit}"
    columns = [Column(table.axis_name + unit, table.axis, digits=None)]
    for concentration, scans in zip(table.concentrations, table.scans, strict=True):
        name = shortest(concentration) + of_level
        names = [name, *(f"{name}__r{scan}" for scan in range(2, len(scans) + 1))]
        columns += [Column(*one, digits=None) for one in zip(names, scans, strict=True)]
    return Table("spectra", "Spectra by level", columns).csv()


def without_rounding(levels: Float[np.ndarray, "value"]) -> Float[np.ndarray, "value"]:
    """Concentrations, of which those that differ by rounding alone are one and the same number.

    So do 0.3 and 0.1 + 0.2. The number is the one of them with the shortest text.

    Args:
        levels: finite, in any order.
    """
    if not levels.size:
        return levels
    each, place = np.unique(levels, return_inverse=True)
    near = EQUAL_LEVELS * np.abs(each[1:])
    if len(each) > 2 and each[0] == 0:
        near[0] = ROUNDING_OF_ZERO * each[2]
    groups = np.split(each, np.flatnonzero(np.diff(each) > near) + 1)
    shortest = [min(group.tolist(), key=lambda value: len(repr(value))) for group in groups]
    return np.repeat(shortest, [len(group) for group in groups])[place.reshape(levels.shape)]
