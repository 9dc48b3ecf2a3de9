"""Single scans about the mean spectrum of their level: how well a measurement repeats."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int


@dataclass(frozen=True, eq=False)
class Replicates:
    """Deviations of scans from the mean of their level, of the levels with two scans or more.

    Attributes:
        scans: behind the mean spectrum of every level.
        level: place of the level of every deviation.
        deviations: (signal units).
    """

    scans: Int[np.ndarray, "level"]
    level: Int[np.ndarray, "scan"]
    deviations: Float[np.ndarray, "scan wavelength"]

    @classmethod
    def of(cls, scans: list[Float[np.ndarray, "_scan wavelength"]]) -> "Replicates":
        """Replicates of the scans of all levels."""
        several = [place for place, of_level in enumerate(scans) if len(of_level) > 1]
        width = scans[0].shape[1]
        return cls(
            np.array([len(of_level) for of_level in scans]),
            np.repeat(several, [len(scans[place]) for place in several]).astype(np.int64),
            np.concatenate(
                [np.zeros((0, width)), *(scans[at] - scans[at].mean(axis=0) for at in several)]
            ),
        )

    @property
    def noise(self) -> Float[np.ndarray, "wavelength"] | None:
        """Pooled standard deviation of one scan about the mean of its level; None without any.

        The square root of the summed squared deviations over the summed degrees of freedom
        (scans - 1) of all levels; two scans differ by sqrt(2) times this.
        """
        freedom = len(self.level) - len(np.unique(self.level))
        if freedom == 0:
            return None
        return np.sqrt(np.sum(self.deviations**2, axis=0) / freedom)

    def excess(self, levels: Int[np.ndarray, "known"]) -> Float[np.ndarray, "row wavelength"]:
        """Excess variance of one scan over that of a mean spectrum.

        Args:
            levels: places of the levels whose scans may be looked at.

        Returns:
            Rows whose outer products add up to the covariance: the pooled one of a scan, less its
            share 1 / n in a mean of n scans, on average over the levels. No rows if no level was
            scanned twice.
        """
        known = np.isin(self.level, levels)
        freedom = int(known.sum()) - len(np.unique(self.level[known]))
        share = 1 - float(np.mean(1 / self.scans[levels]))
        return self.deviations[known] * np.sqrt(share / max(freedom, 1))
