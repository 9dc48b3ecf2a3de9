"""A scikit-learn regressor from concentrations to spectra.

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
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from geonode.config import Parameters
from geonode.errors import ParameterError, SpectraError
from geonode.estimation.model import SpectralModel
from geonode.estimation.predicting import blocks
from geonode.estimation.rows import axis_of, columns_of, fitted_model, require_columns, series_of
from geonode.parameters_file import default_parameters
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
        called = columns_of(y)
        if self.wavelengths is not None and called and isinstance(called[0], float):
            require_columns(y, axis_of(self.wavelengths, len(called)).tolist(), "y")
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
        concentrations, parameters = self._concentrations(X), self._parameters()
        spectra = y.reshape(len(y), -1).astype(np.float64)
        chart = parameters.spectra.chart, parameters.spectra.kappa
        self.series_ = series_of(concentrations, spectra, self.wavelengths, FEWEST_LEVELS, *chart)
        self.model_ = fitted_model(self.series_, parameters)
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
            return_std: whether to return standard deviations too. They are the scale s of
                `geonode.learning.inner_predictions`: s^2 is what members, sources and kinds of
                decoders disagree by, squared, and the mean squared error of the leave-one-out
                predictions of the same sort, inside the range of the levels or outside. Without
                inner folds they are the disagreement alone, which does not say how far off a
                prediction is.

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
        model, concentrations = self.model_, self._concentrations(X)
        low, high = model.range
        if outside := int((~model.is_inside(concentrations)).sum()):
            warnings.warn(
                f"{outside} of {len(X)} concentrations are outside {low:g} to {high:g}: nothing is "
                "promised there",
                stacklevel=2,
            )
        parts = [(block.signal, block.std) for block in blocks(model, concentrations)]
        spectra, deviations = (np.concatenate(part) for part in zip(*parts, strict=True))
        if self._one_dimensional:
            spectra, deviations = spectra[:, 0], deviations[:, 0]
        return (spectra, deviations) if return_std else spectra

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
        regressor.series_, regressor.model_ = model.series, model
        return regressor

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    def _concentrations(self, rows: np.ndarray) -> np.ndarray:
        """The only column.

        Raises:
            SpectraError: there are several.
        """
        if rows.shape[1] != 1:
            raise SpectraError(f"X: found {rows.shape[1]} columns, expected one, of concentrations")
        return rows[:, 0]

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
