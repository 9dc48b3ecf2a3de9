"""A scikit-learn regressor from spectra to concentrations."""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from geonode.errors import SpectraError
from geonode.estimation.curve import Curve
from geonode.estimation.posterior import Estimates, estimate
from geonode.rows import fitted_model, grouped, parameters_of

FEWEST_LEVELS = 3
"""As many as a fold of a series of four leaves."""

NAMES = {
    "preset": "preset",
    "device": "device",
    "metric.seed": "seed",
    "decoders.seed": "seed",
}
"""Parameters of the regressor by dotted key."""


class ConcentrationRegressor(RegressorMixin, BaseEstimator):
    """Concentrations by spectrum, with sets of credible concentrations.

    Args:
        preset: "fast" (closed forms, no networks), "standard" or "thorough".
        offset: whether spectra may differ from those of `fit` by a constant, of any size.
        scale: whether they may differ by a factor close to 1.
        seed: of first weights; "fast" has none.
        device: where to train: "auto", "cpu", "cuda" or "mps".

    Attributes:
        series_ (Series): levels, each once and ascending, and the mean spectrum of each.
        model_ (SpectralModel): that predicts spectra.
        curve_ (Curve): of predicted spectra, which spectra are compared with.
        n_features_in_ (int): number of wavelengths.
        feature_names_in_ (ndarray): their names, if X had some.

    Samples of one concentration are scans of one level: their mean is learned from, and how much
    they vary says how much a single scan may. Of more than 50 concentrations, neighbours are made
    one level, with a warning. One substance is thought to vary: other differences between samples
    count as noise.
    """

    def __init__(
        self,
        *,
        preset: str = "fast",
        offset: bool = False,
        scale: bool = False,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.preset = preset
        self.offset = offset
        self.scale = scale
        self.seed = seed
        self.device = device

    def fit(self, X: Any, y: Any) -> "ConcentrationRegressor":  # noqa: N803
        """Learn from measured spectra.

        Args:
            X: spectra, array-like of shape (sample, wavelength).
            y: concentrations, array-like of shape (sample,), none negative, at least three
                different ones.

        Returns:
            The regressor itself.

        Raises:
            ValueError: an array is empty, negative or not finite, or not of these shapes.
            SpectraError: there are too few levels, or one wavelength that an offset leaves nothing.
            ParameterError: a parameter is of the wrong type or out of range.
            DeviceError: the device is absent.
            TrainingError: as `fit_series`.
        """
        X, y = validate_data(  # noqa: N806
            self, X, y, dtype=np.float64, ensure_min_samples=2, y_numeric=True
        )
        check_non_negative(y.reshape(-1, 1), f"{type(self).__name__} (y)")
        if self.offset and X.shape[1] == 1:
            raise SpectraError("X: found offset and one wavelength, expected two or more")
        parameters = parameters_of(self, NAMES)
        levels = grouped(y.astype(np.float64))
        self.model_ = fitted_model(parameters, levels, X, None, FEWEST_LEVELS)
        self.series_ = self.model_.series
        self.curve_ = Curve.of(self.model_, offset=self.offset, scale=self.scale, one_scan=True)
        return self

    def predict(
        self,
        X: Any,  # noqa: N803
        return_interval: bool = False,
    ) -> (
        Float[np.ndarray, "sample"]
        | tuple[Float[np.ndarray, "sample"], Float[np.ndarray, "sample 2"]]
    ):
        """Most likely concentrations; a warning says how many spectra fit none.

        Args:
            X: spectra, array-like of shape (sample, wavelength).
            return_interval: whether to return lowest and highest concentration of each 90% set
                too. A set with a gap is more than its ends say: see `predict_set`.

        Raises:
            NotFittedError: there was no fit.
            ValueError: as `fit`.
        """
        found = self.estimate(X)
        if misfits := int((~found.fits).sum()):
            warnings.warn(
                f"{misfits} of {len(found.fits)} spectra fit no concentration; `estimate` tells "
                "which",
                stacklevel=2,
            )
        if not return_interval:
            return found.mode
        return found.mode, np.array([(parts[0][0], parts[-1][1]) for parts in found.sets])

    def predict_set(self, X: Any) -> list[list[tuple[float, float]]]:  # noqa: N803
        """90% sets of concentrations: the intervals of every spectrum, ascending.

        Args:
            X: spectra, array-like of shape (sample, wavelength).

        Raises:
            NotFittedError: there was no fit.
            ValueError: as `fit`.
        """
        return self.estimate(X).sets

    def estimate(self, X: Any) -> Estimates:  # noqa: N803
        """Posterior of the concentration of every spectrum.

        Args:
            X: spectra, array-like of shape (sample, wavelength).

        Raises:
            NotFittedError: there was no fit.
            ValueError: as `fit`.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)  # noqa: N806
        return estimate(self.curve_, X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
