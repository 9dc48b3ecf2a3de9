"""A scikit-learn regressor from concentrations to spectra, and back.

It learns what the pipeline learns, in memory, and predicts with the fold that leaves nothing out;
the folds of leave-one-out say how far off it may be.

Cross-validated by scikit-learn, every fit sees less than the fold of the pipeline that leaves out
the same level. That fold knows the concentration of the level, and so the ends of the chart and the
weights of its blend are those of all levels. Between the ends the posterior predicts the same
either way, and what is trained agrees as far as other seeds do.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import (
    check_array,
    check_is_fitted,
    check_non_negative,
    validate_data,
)

from geonode.config import Parameters
from geonode.defaults import default_parameters
from geonode.errors import ParameterError, SpectraError
from geonode.estimation.curve import Curve
from geonode.estimation.model import SpectralModel
from geonode.estimation.posterior import Estimates, estimate
from geonode.estimation.predicting import blocks
from geonode.estimation.rows import axis_of, columns_of, fitted_model, require_columns, series_of
from geonode.spectra.chart import ChartName
from geonode.spectra.table import FEWEST_LEVELS

NAMES = {
    "metric.learning": "learning",
    "decoders.kind": "kind",
    **{f"{block}.members": "members" for block in ("metric", "decoders")},
    **{f"{block}.epochs": "epochs" for block in ("metric", "decoders")},
    "inner.members": "inner_members",
    "preset": "preset",
    "device": "device",
    "spectra.kappa": "kappa",
    "spectra.chart": "chart",
    **{f"{block}.seed": "seed" for block in ("metric", "decoders")},
}
"""Parameters of the regressor by dotted key."""

INNER_LEVELS = 2
"""Levels left out in turn inside a fold: as few as there may be.

They are for the predictions of the folds of leave-one-out alone. The fold that leaves nothing out
is judged by leave-one-out itself, and gives the same bits with more of them.
"""


class SpectrumRegressor(RegressorMixin, MultiOutputMixin, BaseEstimator):
    """Spectra by concentration, along geodesics of a learned metric.

    Args:
        wavelengths: axis value of every column of the spectra, ascending; None: 0, 1, 2, ...
        chart: of the concentrations c: "linear" (c), "log" (ln c) or "asinh" (asinh(c / kappa)).
        kappa: concentration at which the asinh chart turns from linear to logarithmic; None for
            the other charts.
        preset: "fast", "standard" or "thorough": what the next five parameters are where they are
            None, and all parameters that are not named here.
        learning: of the metric network: "flat", "end_to_end" or "shared". The last one leaks: it
            takes its errors for too small. The posterior uses none.
        kind: of predictor: "blend", "posterior" or "path".
        members: independent metrics and decoders of every fold.
        epochs: of training, of metrics as of decoders.
        inner_members: models of every fold inside a fold; 0: no inner folds: a blend is then the
            posterior alone, and "path" has no calibrated deviation.
        seed: of the first weights. The same seed and data give the same fit on the same machine.
        device: where to train: "auto", "cpu", "cuda" or "mps".

    Attributes:
        series_ (Series): levels, each once and ascending, and the mean spectrum of each.
        model_ (SpectralModel): metrics and decoders of all folds, and the fold that leaves nothing
            out, which predicts.
        n_features_in_ (int): 1.
        feature_names_in_ (ndarray of shape (1,)): name of the concentration, if X had one.
    """

    def __init__(
        self,
        *,
        wavelengths: ArrayLike | None = None,
        chart: ChartName = "linear",
        kappa: float | None = None,
        preset: str = "standard",
        learning: str | None = None,
        kind: str | None = None,
        members: int | None = None,
        epochs: int | None = None,
        inner_members: int | None = None,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.wavelengths = wavelengths
        self.chart = chart
        self.kappa = kappa
        self.preset = preset
        self.learning = learning
        self.kind = kind
        self.members = members
        self.epochs = epochs
        self.inner_members = inner_members
        self.seed = seed
        self.device = device

    def fit(self, X: Any, y: Any) -> "SpectrumRegressor":  # noqa: N803
        """Learn from measured spectra.

        Args:
            X: concentrations, array-like of shape (row, 1), none negative. Rows of the
                same concentration are replicates and are averaged. From 4 to 50 different ones.
            y: spectra, array-like of shape (row, wavelength), or (row,) for one wavelength. Columns
                of a DataFrame that are called by numbers must be the wavelengths.

        Returns:
            The regressor itself.

        Raises:
            ValueError: an array is empty, negative or not finite, or not of these shapes.
            SpectraError: there are other than one column of concentrations, too few or too many
                levels, or wavelengths that do not fit the spectra; or the chart does not fit.
            ParameterError: a parameter is of the wrong type or out of range.
            DeviceError: the device is absent.
            TrainingError: as `fit_series`.
        """
        called, axis = columns_of(y), None
        if self.wavelengths is not None:
            axis = axis_of(self.wavelengths, np.shape(y)[1] if np.ndim(y) > 1 else 1).tolist()
        if called and isinstance(called[0], float):
            require_columns(y, axis, "y")
        X, y = validate_data(  # noqa: N806
            self,
            X,
            y,
            dtype=np.float64,
            ensure_min_samples=2,
            multi_output=True,
            y_numeric=True,
        )
        check_non_negative(X, type(self).__name__)
        if X.shape[1] != 1:
            raise SpectraError(f"X: found {X.shape[1]} columns, expected one, of concentrations")
        parameters, spectra = self._parameters(), y.reshape(len(y), -1).astype(np.float64)
        chart = parameters.spectra.chart, parameters.spectra.kappa
        series = series_of(X[:, 0], spectra, axis, FEWEST_LEVELS, *chart)
        self._set(fitted_model(series, parameters), called or axis)
        self._one_dimensional = y.ndim == 1
        return self

    def predict(
        self,
        X: Any,  # noqa: N803
        return_std: bool = False,
    ) -> (
        Float[np.ndarray, "row *wavelength"]
        | tuple[Float[np.ndarray, "row *wavelength"], Float[np.ndarray, "row *wavelength"]]
    ):
        """Spectra at any concentrations; a warning says how many are beyond the levels.

        Args:
            X: concentrations, array-like of shape (row, 1), none negative.
            return_std: whether to return standard deviations too, the scale of
                `geonode.learning.half_widths`: what members, sources and kinds of decoders disagree
                by, and the errors of leave-one-out. Without inner folds they are the disagreement
                alone, which does not say how far off a prediction is.

        Returns:
            Spectra, one row a concentration (one number if `fit` had one), and the standard
            deviations in the same shape.

        Raises:
            NotFittedError: there was no fit.
            ValueError: as `fit`.
            SpectraError: a prediction is not finite, as far beyond all levels.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)  # noqa: N806
        check_non_negative(X, type(self).__name__)
        model = self.model_
        low, high = model.range
        if outside := int((~model.is_inside(X[:, 0])).sum()):
            warnings.warn(
                f"{outside} of {len(X)} concentrations are outside {low:g} to {high:g}: nothing is "
                "promised there",
                stacklevel=2,
            )
        parts = [(block.signal, block.std) for block in blocks(model, X[:, 0])]
        spectra, deviations = (np.concatenate(part) for part in zip(*parts, strict=True))
        if self._one_dimensional:
            spectra, deviations = spectra[:, 0], deviations[:, 0]
        return (spectra, deviations) if return_std else spectra

    def estimate(self, spectra: Any, *, offset: bool = False, scale: bool = False) -> Estimates:
        """Posterior of the concentration of every spectrum, inside the range of the levels.

        The curve that this takes is made once for every `offset` and `scale`, and kept.

        Args:
            spectra: array-like of shape (row, wavelength), as measured: what a pipeline did to its
                own is done to them. The columns of a DataFrame must be called as those of the fit,
                or else by the wavelengths.
            offset: whether they may differ from the measured ones by a constant, of any size.
            scale: whether they may differ by a factor close to 1.

        Raises:
            NotFittedError: there was no fit.
            ValueError: the spectra are empty, not finite or of another shape.
            SpectraError: they have other wavelengths or columns of other names, or one alone, of
                which an offset leaves none.
            TrainingError: as `Curve.of`.
        """
        check_is_fitted(self)
        given = check_array(spectra, dtype=np.float64, estimator=self, input_name="spectra")
        wanted = len(self.series_.axis)
        if given.shape[1] != wanted:
            raise SpectraError(
                f"estimate: found {given.shape[1]} wavelengths, expected the {wanted} of the series"
            )
        require_columns(spectra, self._columns, "estimate")
        if offset and wanted == 1:
            raise SpectraError(
                "estimate: found offset and one wavelength, expected two or more, as an offset "
                "takes the mean over wavelengths away"
            )
        if (offset, scale) not in self._curves:
            self._curves[offset, scale] = Curve.of(
                self.series_, self.model_.fold, offset=offset, scale=scale, one_scan=True
            )
        names = [f"row {row}" for row in range(len(given))]
        prepared = self.series_.preprocessing.require(self.series_.axis, given, names)
        return estimate(self._curves[offset, scale], prepared)

    @classmethod
    def from_artifacts(cls, folder: Path | str) -> "SpectrumRegressor":
        """Fitted regressor from the artifacts of a pipeline.

        Its `wavelengths`, `chart` and `kappa` are those of the series. Its other parameters are
        the defaults, whatever the pipeline's were: a new fit is another training.

        Args:
            folder: of the artifacts.

        Raises:
            MissingArtifactError, CorruptArtifactError: one is absent or damaged.
            ArtifactError: they are of different series.
        """
        model = SpectralModel.read(Path(folder))
        kappa = model.series.chart.kappa
        limits: dict[float, ChartName] = {np.inf: "linear", 0.0: "log"}
        regressor = cls(
            wavelengths=model.series.axis,
            chart=limits.get(kappa, "asinh"),
            kappa=None if kappa in limits else kappa,
        )
        regressor.n_features_in_, regressor._one_dimensional = 1, False
        regressor._set(model, model.series.axis.tolist())
        return regressor

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    def _set(self, model: SpectralModel, columns: list[float] | list[str] | None) -> None:
        self.series_, self.model_, self._columns = model.series, model, columns
        self._curves: dict[tuple[bool, bool], Curve] = {}

    def _parameters(self) -> Parameters:
        """Parameters of the preset, with those of this regressor that are not None.

        Raises:
            ParameterError: naming a parameter of the regressor.
        """
        given = {key: getattr(self, name) for key, name in NAMES.items()}
        values = {  # NumPy's numbers, such as those of a search, become Python's
            key: value.item() if isinstance(value, np.generic) else value
            for key, value in given.items()
            if value is not None or key == "spectra.kappa"  # whose None is a value
        }
        try:
            return default_parameters(values | {"inner.levels": INNER_LEVELS})
        except ParameterError as error:
            # Of values that contradict each other only their block is named.
            key = next(key for key in values if f"{key}.".startswith(f"{error.key}."))
            name = type(self).__name__
            raise ParameterError(name, NAMES[key], given[key], error.expected) from error
