"""Covariances over the nodes of a curve, which change linearly between its knots.

Between two knots S = (1 - t) S_0 + t S_1. One matrix V of every pair of knots makes both diagonal:
V S_0 V^T = I and V S_1 V^T = diag(l). So V S V^T is diagonal at all nodes between them, and no node
needs a decomposition of its own. A node may have few terms b of its own, S + sum b b^T; they count
by Woodbury's formula and the determinant lemma.

Source: G. H. Golub and C. F. Van Loan, Matrix Computations, 4th edition, Johns Hopkins 2013,
sections 8.7.2 (two symmetric matrices made diagonal together) and 2.1.4.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from geonode.errors import TrainingError


@dataclass(frozen=True)
class Covariances:
    """Covariance S + sum b b^T of every node."""

    at_knots: Float[np.ndarray, "knot direction direction"]  # S at the knots
    terms: Float[np.ndarray, "node term direction"]  # vectors b of every node
    pair: Int[np.ndarray, "node"]  # place of the pair of knots about every node
    share: Float[np.ndarray, "node"]  # t of every node
    white: Float[np.ndarray, "pair direction direction"]  # V of every pair of knots
    scale: Float[np.ndarray, "node direction"]  # inverse root of the diagonal of V S V^T
    explained: Float[np.ndarray, "node term direction"]
    """Rows that give what the terms of a node explain of a whitened difference."""
    log_determinant: Float[np.ndarray, "node"]  # ln |S + sum b b^T|

    @classmethod
    def of(
        cls,
        at_knots: Float[np.ndarray, "knot direction direction"],
        knots: Float[np.ndarray, "knot"],
        nodes: Float[np.ndarray, "node"],
        terms: Float[np.ndarray, "node term direction"],
    ) -> "Covariances":
        """Covariances from those at the knots.

        Args:
            at_knots: positive definite.
            knots: places of the knots, ascending.
            nodes: places of the nodes, none outside of the knots.
            terms: vectors b, whose outer products are added at every node.

        Raises:
            TrainingError: a covariance at a knot is not positive definite.
        """
        pair = np.clip(np.searchsorted(knots, nodes) - 1, 0, len(knots) - 2)
        share = (nodes - knots[pair]) / (knots[pair + 1] - knots[pair])
        try:
            inverse = np.linalg.inv(np.linalg.cholesky(at_knots))[:-1]
        except np.linalg.LinAlgError as error:
            raise TrainingError(
                "estimation: found expected errors too different to compare, as of levels many "
                "decades apart; expected levels closer together, leave the farthest out"
            ) from error
        ends, vectors = np.linalg.eigh(inverse @ at_knots[1:] @ inverse.swapaxes(1, 2))
        white = vectors.swapaxes(1, 2) @ inverse
        variances = 1 - share[:, None] + share[:, None] * ends[pair]
        of_pairs = -2 * np.log(np.diagonal(inverse, axis1=1, axis2=2)).sum(axis=1)
        scale = 1 / np.sqrt(variances)
        whitened = white[pair] @ terms.swapaxes(1, 2) * scale[..., None]
        among = np.eye(terms.shape[1]) + whitened.swapaxes(1, 2) @ whitened
        root = np.linalg.cholesky(among)
        explained = np.linalg.solve(root, whitened.swapaxes(1, 2))
        of_terms = 2 * np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        log_determinant = of_pairs[pair] + np.log(variances).sum(axis=1) + of_terms
        return cls(at_knots, terms, pair, share, white, scale, explained, log_determinant)

    @property
    def matrices(self) -> Float[np.ndarray, "node direction direction"]:
        """The covariance of every node in full."""
        share = self.share[:, None, None]
        between = (1 - share) * self.at_knots[self.pair] + share * self.at_knots[self.pair + 1]
        return between + self.terms.swapaxes(1, 2) @ self.terms
