"""Diagnostics of a calibration by PLS or PCR: its vector, its samples, its components.

An estimate is the mean concentration plus (x - mean spectrum) b, with b the regression vector. Of
components with scores t_a, a sample has

    leverage  h = 1/n + sum_a t_a^2 / sum_i t_ia^2,        Q = |x - mean spectrum - sum_a t_a p_a|^2

with p_a the loadings. A sample above the limit of its leverage is unlike the others along the
components, one above that of Q has something that the components do not describe. Limits hold 95%
of the samples of one normal population:

    h: 1/n + (n - 1)/n B,   B = A F / (A F + n - A - 1),   F: 95% quantile for A and n - A - 1
       degrees of freedom (N. D. Tracy, J. C. Young and R. L. Mason, J. Qual. Technol. 24 (1992) 88,
       whose T^2 is (n - 1) (h - 1/n))
    Q: J. E. Jackson and G. S. Mudholkar, Technometrics 21 (1979) 341, from the eigenvalues of the
       covariance of what is left
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import fdtri, ndtri  # scipy.stats takes 0.3 s to import

from geonode.calibration.methods import OF_COMPONENTS, Concentrations, Folds, Linear, Spectra
from geonode.spectra.component_regression import (
    ROUNDING_OF_SPECTRA,
    FindComponents,
    Fitted,
    Scores,
)
from geonode.spectra.preprocessed_pls import MOST_COMPONENTS, PreprocessedPLS, preprocessed

HELD = 0.95
"""Share of the samples below a limit."""


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Diagnostics of a calibration by PLS or PCR, or by PLS on several preprocessings."""

    key: str
    """Of the calibration, in `CALIBRATIONS`."""
    components: int
    """Their number; of several preprocessings, here and in Q, that of the largest weight."""
    vector: Float[np.ndarray, "wavelength"]
    """Concentration per unit of the signal at every wavelength, at the mean spectrum."""
    leverages: Float[np.ndarray, "sample"]
    """Of the samples; of several preprocessings the weighted mean."""
    leverage_limit: float | None
    """None: there are too few samples for one."""
    residuals: Float[np.ndarray, "sample"]
    """Q of the samples (square of the unit of the signal, preprocessed)."""
    residual_limit: float | None
    """None: the components describe the samples exactly."""
    rmsecv: dict[str, Float[np.ndarray, "_tried"]]
    """Root mean square error of samples left out by PLS and PCR (unit of the concentrations), with
    one component and more."""

    def t2(self, leverage: Any) -> Any:
        """Hotelling's T^2 of a leverage, or of the limit of one: of the scores alone."""
        count = len(self.leverages)
        return None if leverage is None else (count - 1) * (leverage - 1 / count)

    @property
    def inside(self) -> Bool[np.ndarray, "sample"]:
        """True where samples are within both limits."""
        leverage = np.inf if self.leverage_limit is None else self.leverage_limit
        residual = np.inf if self.residual_limit is None else self.residual_limit
        return (self.leverages <= leverage) & (self.residuals <= residual)

    @classmethod
    def of(
        cls,
        key: str,
        fitted: Fitted,
        spectra: Spectra,
        concentrations: Concentrations,
        folds: Folds,
    ) -> "Diagnostics":
        """Diagnostics of a fitted method.

        Args:
            key: "pls", "pcr" or "preprocessed_pls".
            fitted: the method.
            spectra: those that it was fitted to.
            concentrations: theirs.
            folds: of samples that are left out together, as of `folds_of`.
        """
        fit = fitted.fit
        if isinstance(fit, PreprocessedPLS):
            name, largest = max(fit.members.items(), key=lambda each: each[1].weight)
            vector, leverages = fit.slopes_at(spectra.mean(axis=0)), fit.leverages(spectra)[:, 0]
            centred = preprocessed(name, spectra) - largest.centre
            rotation, sizes = largest.rotation, largest.sizes
        else:
            assert isinstance(fit, Linear)
            assert fit.rotation is not None  # of components
            there = slice(int(np.isfinite(fit.sizes[: fitted.option + 1]).sum()))
            centred, rotation = spectra - fit.centre, fit.rotation[:, there]
            vector, sizes = rotation @ fit.slopes[there], fit.sizes[there]
            leverages = fitted.leverages_of(spectra)
        scores = centred @ rotation
        left = centred - scores @ (scores.T @ centred / sizes[:, None])
        return cls(
            key,
            len(sizes),
            vector,
            leverages,
            leverage_limit(len(spectra), len(sizes)),
            np.sum(left**2, axis=1),
            residual_limit(left, ROUNDING_OF_SPECTRA * float(np.linalg.norm(centred))),
            {one: _rmsecv(by, spectra, concentrations, folds) for one, by in OF_COMPONENTS.items()},
        )


def leverage_limit(samples: int, components: int) -> float | None:
    """Leverage that 95% of the samples of a calibration are below."""
    freedom = samples - components - 1
    if freedom < 1 or not components:
        return None
    ratio = components * float(fdtri(components, freedom, HELD)) / freedom
    return 1 / samples + (samples - 1) / samples * ratio / (ratio + 1)


def residual_limit(left: Spectra, rounding: float = 0.0) -> float | None:
    """Q that 95% of samples are below; None for spectra that are all but zero.

    Args:
        left: spectra of the samples without their components.
        rounding: singular value from which they are not zero.
    """
    products = left @ left.T if len(left) < left.shape[1] else left.T @ left
    squares = np.linalg.eigvalsh(products)
    least = max(rounding**2, np.finfo(float).eps * squares[-1])
    eigenvalues = squares[squares > least] / (len(left) - 1)
    if not eigenvalues.size:
        return None
    one, two, three = (float(np.sum(eigenvalues**power)) for power in (1, 2, 3))
    power = 1 - 2 * one * three / (3 * two**2)
    spread = float(ndtri(HELD)) * np.sqrt(2 * two * power**2) / one
    return float(one * (1 + spread + two * power * (power - 1) / one**2) ** (1 / power))


def _rmsecv(
    method: FindComponents, spectra: np.ndarray, concentrations: np.ndarray, folds: np.ndarray
) -> Float[np.ndarray, "component"]:
    """Error of samples left out by every number of components that all folds have."""
    scores, targets = Scores(spectra, folds), concentrations - concentrations.mean()
    found = scores.left_out(targets, method, MOST_COMPONENTS, nested=False).estimates
    errors, most = found - targets[:, None], found.shape[1]
    each = [(fold,) for fold in range(int(folds.max()) + 1)]
    there = np.isfinite(scores.fits(targets, each, method, most).components.sizes).all(axis=0)
    return np.sqrt(np.mean(errors**2, axis=0))[: max(int(there.sum()), 1)]
