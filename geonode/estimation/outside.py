"""What is outside of the span of other spectra."""

import numpy as np
from jaxtyping import Float

DEPENDENT = 1e-12
"""Squared part of a row in the dependences among all rows, above which the others span it."""


def outside_others(
    rows: Float[np.ndarray, "row wavelength"], tolerance: float
) -> Float[np.ndarray, "row wavelength"]:
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
