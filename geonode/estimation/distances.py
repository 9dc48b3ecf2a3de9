"""Squared Mahalanobis distances of spectra from the nodes of a curve, as products of matrices.

Between two knots V S_n V^T = diag(1 / w_n) for all nodes n (`geonode.estimation.covariances`). With
x the scores of a spectrum, m_n those of a node, m their mean between the knots, u = V (x - m) and
d_n = V (m_n - m), the distance is

    Q_n(x) = w_n . u^2 - 2 (w_n d_n) . u + w_n . d_n^2 - |E_n (u - d_n)|^2,

where E_n gives what the terms of a node explain. So all distances are products of matrices with u
and u^2, which are the same for all nodes between two knots. As m is near the nodes, the squares
cancel few digits.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geonode.compute.device import on_device
from geonode.estimation.covariances import Covariances


class Distances:
    """Squared distances of spectra from the mean of every node.

    Args:
        covariances: covariances of the nodes.
        means: scores of the nodes.
        place: device of the scores of spectra, with double precision.
    """

    def __init__(
        self,
        covariances: Covariances,
        means: Float[np.ndarray, "node direction"],
        place: torch.device,
    ) -> None:
        self.stretches = []
        # Between two knots: what distances take from u^2 and u, and from u for terms.
        for pair in np.unique(covariances.pair):
            here = covariances.pair == pair
            white, scale = covariances.white[pair], covariances.scale[here]
            centre = white @ means[here].mean(axis=0)
            apart = means[here] @ white.T - centre
            weights = scale**2
            explained = covariances.explained[here] * scale[:, None]
            parts = (
                white.T,
                -centre,
                np.concatenate([weights, -2 * weights * apart], axis=1).T,
                np.sum(weights * apart**2, axis=1),
                explained.transpose(1, 2, 0),
                -np.einsum("ntd,nd->tn", explained, apart),
            )
            self.stretches.append([on_device(part, place, torch.float64) for part in parts])

    def __call__(
        self, scores: Float[Tensor, "spectrum direction"]
    ) -> Float[Tensor, "spectrum node"]:
        """Distances of spectra from every node.

        Args:
            scores: scores of the spectra in the directions of the curve.
        """
        found = []
        for white, centre, of_squares, constant, of_terms, terms in self.stretches:
            near = torch.addmm(centre, scores, white)
            both = torch.cat([near**2, near], dim=1)
            distances = torch.addmm(constant, both, of_squares)
            for term, of_term in zip(terms, of_terms, strict=True):
                explained = torch.addmm(term, near, of_term)
                distances.addcmul_(explained, explained, value=-1)
            found.append(distances)
        return torch.cat(found, dim=1).clamp_(min=0)  # rounding of large terms
