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
from geonode.estimation.rows import axis_of, columns_of, require_columns, series_of
from geonode.parameters_file import default_parameters
from geonode.spectra.chart import ChartName
from geonode.spectra.table import FEWEST_LEVELS

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
        preset: "fast", "standard" or "thorough": values of all parameters that are not named here.
            "fast" trains nothing: it predicts by the posterior over metrics alone.
        settings: values by dotted key of params.yaml, such as {"decoders.kind": "path"}, that
            replace those of the preset. "metric.learning": "shared" leaks: its errors are too
            small. Without inner folds ("inner.members": 0) "path" has no calibrated deviation.
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
        settings: dict[str, Any] | None = None,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.wavelengths = wavelengths
        self.chart = chart
        self.kappa = kappa
        self.preset = preset
        self.settings = settings
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
            TrainingError: as `SpectralModel.fit`.
        """
        called = columns_of(y)
        if self.wavelengths is not None and called and isinstance(called[0], float):
            require_columns(y, axis_of(self.wavelengths, len(called)).tolist(), "y")
        checks: dict[str, Any] = {"ensure_min_samples": 2, "multi_output": True, "y_numeric": True}
        X, y = validate_data(self, X, y, dtype=np.float64, **checks)  # noqa: N806
        check_non_negative(X, type(self).__name__)
        concentrations, parameters = self._concentrations(X), self._parameters()
        spectra = y.reshape(len(y), -1).astype(np.float64)
        chart, kappa = parameters.spectra.chart, parameters.spectra.kappa
        self.series_ = series_of(
            concentrations, spectra, self.wavelengths, FEWEST_LEVELS, chart, kappa
        )
        self.model_ = SpectralModel.fit(self.series_, parameters)
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
            return_std: whether to return standard deviations too. Their squares are what members,
                sources and kinds of decoders disagree by, squared, and the mean squared error of
                leave-one-out predictions inside the range of the levels, or outside. Without inner
                folds they are the disagreement alone, which does not say how far off a prediction
                is.

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
        """Parameters of the preset with the settings.

        Raises:
            ParameterError: naming the dotted key.
        """
        values = {
            "preset": self.preset,
            "device": self.device,
            "inner.levels": INNER_LEVELS,
            "metric.seed": self.seed,
            "decoders.seed": self.seed,
            "spectra.chart": self.chart,
            "spectra.kappa": self.kappa,
            **(self.settings or {}),
        }
        plain = (one.item() if isinstance(one, np.generic) else one for one in values.values())
        try:
            return default_parameters(dict(zip(values, plain, strict=True)))
        except ParameterError as error:
            name = type(self).__name__
            raise ParameterError(name, error.key, error.found, error.expected) from error
