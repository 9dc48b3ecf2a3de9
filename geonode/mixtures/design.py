"""Amounts of the substances in the samples of a calibration, checked before anything is fitted."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from geonode.errors import MixtureError, SpectraError
from geonode.spectra.arrays import require_size
from geonode.spectra.table import MOST_SAMPLES, without_rounding
from geonode.ties import first_largest
from geonode.wording import listed

MOST_SUBSTANCES = 6
MOST_COMPOSITIONS = 300
"""Of a response surface. More would take minutes: times grow with the third power."""

CLOSED = 1e-3
"""Largest deviation of the sums of amounts, relative to their mean, that is none."""

ENTANGLED = 0.97
"""Share of the variance of an amount that others explain, from which nothing tells it from them."""

ROUNDING = 1e-9
"""Smallest error of an amount, relative to the range."""

MOST_PARTS = 20
"""Compositions that are left out one by one; of more, ten parts are."""


@contextmanager
def errors_of_file(source: str) -> Iterator[None]:
    """Make errors of amounts name their file, and the way out.

    Raises:
        MixtureError: in place of what was raised inside.
    """
    try:
        yield
    except MixtureError as error:
        raise MixtureError(
            f"{source}: {error} (several amounts are taken together; --target NAME takes one alone)"
        ) from error


def folds_of(composition: Int[np.ndarray, "sample"]) -> Int[np.ndarray, "sample"]:
    """Fold of every sample: samples of a composition are left out together."""
    _, place = np.unique(composition, return_inverse=True)
    count = place.max() + 1
    if count <= MOST_PARTS:
        return place
    return np.random.default_rng(0).permutation(count)[place] % (MOST_PARTS // 2)


@dataclass(frozen=True, eq=False)
class Design:
    """Known amounts of every sample; samples of equal amounts are one composition."""

    names: tuple[str, ...]  # of the substances
    amounts: Float[np.ndarray, "sample substance"]  # unit of each substance, none negative
    composition: Int[np.ndarray, "sample"]  # from 0 on

    @classmethod
    def of(
        cls,
        amounts: Float[np.ndarray, "sample substance"],
        names: tuple[str, ...] | None = None,
        spectra: Float[np.ndarray, "sample wavelength"] | None = None,
    ) -> "Design":
        """Design of samples.

        Args:
            amounts: of every substance in every sample; they need not lie on a grid.
            names: of the substances; None: "substance 1" and so on.
            spectra: of the samples. Compositions are numbered by the distance of their mean
                spectra from that of all, so that no order of substances or samples decides which
                are left out together; None: by their amounts.

        Raises:
            MixtureError: the amounts cannot calibrate.
        """
        count, substances = amounts.shape
        names = names or tuple(f"substance {place + 1}" for place in range(substances))
        _require_numbers(names, amounts)
        amounts = np.stack([without_rounding(column) for column in amounts.T], axis=1)
        _, composition = np.unique(amounts, axis=0, return_inverse=True)
        composition = composition.ravel()
        if spectra is not None:
            total = np.zeros((composition.max() + 1, spectra.shape[1]))
            np.add.at(total, composition, spectra - spectra.mean(axis=0))
            away = np.sum(total**2, axis=1) / np.bincount(composition) ** 2
            composition = np.argsort(np.argsort(away, kind="stable"))[composition]
        design = cls(names, amounts, composition)
        if (design.ranges == 0).any():
            raise MixtureError(
                f"{names[int(design.ranges.argmin())]}: found the same amount in all {count} "
                "samples, expected one that varies; leave the substance out, or prepare mixtures "
                "with other amounts of it"
            )
        fewest = 2 * substances + 2
        if design.compositions < fewest:
            raise MixtureError(
                f"found {design.compositions} different compositions of {substances} substances, "
                f"expected {fewest} or more; prepare further mixtures, or leave a substance out"
            )
        for fold in range(design.folds.max() + 1):
            fixed = np.ptp(amounts[design.folds != fold], axis=0) == 0
            if fixed.any():
                raise MixtureError(
                    f"{names[int(fixed.argmax())]}: found another amount in one composition only, "
                    "so that nothing is left to compare it with; prepare further mixtures with "
                    "other amounts of it"
                )
        return design

    @property
    def tied(self) -> str:
        """Sentence on an amount that follows from the others, so that they are tied; else empty."""
        names, amounts = self.names, self.amounts
        if len(names) == 1:
            return ""
        total = amounts.sum(axis=1)
        if np.ptp(total) <= CLOSED * total.mean():
            return f"amounts of {listed([*names])} sum to {total.mean():.4g} in every sample"
        scaled = (amounts - amounts.mean(axis=0)) / amounts.std(axis=0)
        correlation = scaled.T @ scaled / len(scaled)
        np.fill_diagonal(correlation, 0)
        one, other = divmod(int(first_largest(np.abs(correlation).ravel())), len(names))
        if (found := correlation[one, other]) ** 2 >= ENTANGLED:
            return f"{names[one]} and {names[other]} vary together (correlation {found:.3f})"
        for place, name in enumerate(names):
            others = np.delete(scaled, place, axis=1)
            left = scaled[:, place] - others @ np.linalg.lstsq(others, scaled[:, place])[0]
            if np.mean(left**2) <= 1 - ENTANGLED:
                rest = listed([each for each in names if each != name])
                return f"amounts of {name} follow from those of {rest}"
        return ""

    @property
    def without_surface(self) -> str:
        """Why no response surface is fitted; empty if one is."""
        if tied := self.tied:
            return (
                f"Amounts are tied, as {tied}: each is estimated by itself, without a response "
                "surface or a joint region, and only for samples in which they are so tied."
            )
        if self.compositions > MOST_COMPOSITIONS:
            return (
                f"No response surface is fitted to {self.compositions} different compositions, "
                f"more than {MOST_COMPOSITIONS}."
            )
        return ""

    def without(self, out: Bool[np.ndarray, "sample"]) -> "Design":
        """Design of the samples that are not left out."""
        _, composition = np.unique(self.composition[~out], return_inverse=True)
        return Design(self.names, self.amounts[~out], composition)

    @property
    def folds(self) -> Int[np.ndarray, "sample"]:
        """Fold of every sample, as of `folds_of`."""
        return folds_of(self.composition)

    @property
    def compositions(self) -> int:
        """Number of different compositions."""
        return int(self.composition.max()) + 1

    @property
    def low(self) -> Float[np.ndarray, "substance"]:
        """Lowest amounts."""
        return self.amounts.min(axis=0)

    @property
    def high(self) -> Float[np.ndarray, "substance"]:
        """Highest amounts."""
        return self.amounts.max(axis=0)

    @property
    def ranges(self) -> Float[np.ndarray, "substance"]:
        """Highest amounts less the lowest."""
        return np.ptp(self.amounts, axis=0)

    @property
    def rounding(self) -> Float[np.ndarray, "substance substance"]:
        """Smallest covariance of estimated amounts."""
        return np.diag((ROUNDING * self.ranges) ** 2)

    def are_outside(
        self, amounts: Float[np.ndarray, "unknown substance"]
    ) -> Bool[np.ndarray, "unknown substance"]:
        """True for amounts beyond those of all samples; zero is never too low."""
        slack = ROUNDING * self.ranges
        low = np.where(self.low > 0, self.low - slack, -np.inf)
        return (amounts < low) | (amounts > self.high + slack)


def _require_numbers(names: tuple[str, ...], amounts: np.ndarray) -> None:
    """Refuse amounts that are no amounts."""
    count, substances = amounts.shape
    if not 1 <= substances <= MOST_SUBSTANCES or len(names) != substances:
        raise MixtureError(
            f"found {substances} substances with {len(names)} names, expected 1 to "
            f"{MOST_SUBSTANCES}, each with its name"
        )
    if not 1 <= count <= MOST_SAMPLES:
        raise MixtureError(
            f"found {count} samples, expected 1 to {MOST_SAMPLES}; average replicates, or leave "
            "some out"
        )
    for wrong, what in ((~np.isfinite(amounts), "no number"), (amounts < 0, "negative")):
        if wrong.any():
            sample, place = np.argwhere(wrong)[0]
            raise MixtureError(
                f"{names[place]}: found {amounts[sample, place]:g} in sample {sample + 1}, which "
                f"is {what}, expected an amount from 0; correct it, or leave the sample out"
            )
    for name, column in zip(names, amounts.T, strict=True):
        try:
            require_size(column)
        except SpectraError as error:
            raise MixtureError(f"{name}: {error}") from error
