"""Novelty that a spectrum may have: residuals of training spectra off the span of the others."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

DEPENDENT = 1e-12
"""Squared part of a row in the dependences among all rows, above which the others span it."""

Rows = Float[np.ndarray, "row wavelength"]


@dataclass(frozen=True)
class Novelty:
    """Residuals of training spectra outside the span of the others of their fold."""

    square: float  # mean square of the residuals (signal squared, summed over wavelengths)
    freedom: float
    """Degrees of freedom of the chi-squared distribution with the same relative variance."""
    spectra: int  # number of training spectra

    @classmethod
    def of(cls, parts: Rows) -> "Novelty":
        """Novelty from the residuals of the training spectra.

        The degrees of freedom are the smaller of two estimates, and at least 1: (tr C)^2 / tr C^2,
        with C the second moment of the residuals, from products of different spectra alone; and
        2 mean^2 / variance of their squares.
        """
        gram = parts @ parts.T
        squares = np.diag(gram)
        mean, count = float(squares.mean()), len(parts)
        if mean == 0:
            return cls(0.0, 1.0, count)
        apart = ~np.eye(count, dtype=bool)
        products = np.sum(np.outer(squares, squares)[apart])
        by_direction = products / max(np.sum(gram[apart] ** 2), np.finfo(float).tiny)
        by_size = 2 * mean**2 / max(squares.var(ddof=1), np.finfo(float).tiny)
        freedom = min(by_direction, by_size, parts.shape[1])
        return cls(mean, max(1.0, float(freedom)), count)

    def with_noise(self, rows: Rows) -> "Novelty":
        """Novelty of spectra with additional noise.

        Degrees of freedom by Satterthwaite, Biometrics Bulletin 2 (1946) 110.

        Args:
            rows: rows whose outer products add up to the covariance of the noise.
        """
        gram = rows @ rows.T
        noise = float(np.trace(gram))
        if noise == 0:
            return self
        square = self.square + noise
        # Half the variance: square^2 / freedom of the novelty, tr C^2 of the noise.
        freedom = square**2 / (self.square**2 / self.freedom + float(np.sum(gram**2)))
        return Novelty(square, max(1.0, freedom), self.spectra)


def outside_others(rows: Rows, tolerance: float) -> Rows:
    """Residual of every row outside of the span of all others, from one decomposition.

    The columns of the pseudo-inverse are a dual basis: column i is orthogonal to all rows but i. If
    the others do not span row i, its residual is therefore that column over its squared norm.

    Args:
        rows: any rows.
        tolerance: smallest singular value, relative to the largest, of a direction that is
            spanned.

    Source: A. Ben-Israel and T. N. E. Greville, Generalized Inverses, 2nd edition, Springer 2003.
    """
    left, singular, right = np.linalg.svd(rows, full_matrices=False)
    kept = singular > tolerance * singular[0]
    left, singular, right = left[:, kept], singular[kept], right[kept]
    alone = 1 - np.sum(left**2, axis=1) < DEPENDENT
    columns = (left[alone] / singular) @ right
    found = np.zeros_like(rows)
    found[alone] = columns / np.sum(columns**2, axis=1, keepdims=True)
    return found
