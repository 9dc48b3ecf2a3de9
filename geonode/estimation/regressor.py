"""A scikit-learn regressor from concentrations to spectra, and back.

It learns what the pipeline learns, in memory: metrics and decoders of every fold of leave-one-out,
and of the folds inside. It predicts with the fold that leaves nothing out; the others say how far
off it may be.

Cross-validated by scikit-learn, every fit sees fewer levels than the pipeline's fold of the same
purpose. That fold knows the concentration of what it leaves out, but not its spectrum: the ends of
the chart, the candidates of the evidence and the panels of quadrature are those of all levels. Its
random numbers are of another seed, and its blend is weighed by models of the inner folds, where a
fit weighs it by those of its own leave-one-out. Between the ends, straight geodesics and a process
give the same predictions either way; what is trained agrees as far as other seeds do. At an end
that is left out, the chart and the metric networks are continued.
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

from geonode.errors import SpectraError
from geonode.estimation.curve import Curve
from geonode.estimation.model import SpectralModel
from geonode.estimation.posterior import Estimates, estimate
from geonode.estimation.rows import (
    axis_of,
    columns_of,
    fitted_model,
    parameters_of,
    require_columns,
    series_of,
)
from geonode.spectra.chart import ChartName
from geonode.spectra.table import FEWEST_LEVELS

AT_ONCE = 256  # concentrations

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
        table = y
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
        parameters, concentrations = parameters_of(self, NAMES), self._concentrations(X)
        spectra = y.reshape(len(y), -1).astype(np.float64)
        axis = axis_of(self.wavelengths, spectra.shape[1])
        known = None if self.wavelengths is None else axis.tolist()
        called = columns_of(table)
        if called and isinstance(called[0], float):
            require_columns(table, known, "y")
        chart = parameters.spectra.chart, parameters.spectra.kappa
        series = series_of(concentrations, spectra, axis, FEWEST_LEVELS, *chart)
        model = fitted_model(series, parameters)
        self._set(model, called or known, one_dimensional=y.ndim == 1)
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
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)  # noqa: N806
        check_non_negative(X, type(self).__name__)
        concentrations, model = self._concentrations(X), self.model_
        low, high = model.range
        if outside := int((~model.is_inside(concentrations)).sum()):
            warnings.warn(
                f"{outside} of {len(concentrations)} concentrations are outside {low:g} to "
                f"{high:g}: nothing is promised there",
                stacklevel=2,
            )
        spectra, deviations = [], []
        for part in np.split(concentrations, range(AT_ONCE, len(concentrations), AT_ONCE)):
            prediction = model.predict(part)
            spectra.append(prediction.spectra)
            deviations.append(prediction.scale)
        if return_std:
            return self._shaped(spectra), self._shaped(deviations)
        return self._shaped(spectra)

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
        given = check_array(
            spectra,
            dtype=np.float64,
            estimator=self,
            input_name="spectra",
        )
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
        regressor.n_features_in_ = 1
        regressor._set(model, model.series.axis.tolist(), one_dimensional=False)
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

    def _set(
        self,
        model: SpectralModel,
        columns: list[float] | list[str] | None,
        *,
        one_dimensional: bool,
    ) -> None:
        self.series_, self.model_, self._columns = model.series, model, columns
        self._one_dimensional = one_dimensional
        self._curves: dict[tuple[bool, bool], Curve] = {}

    def _shaped(self, parts: list[np.ndarray]) -> np.ndarray:
        """One array of the blocks, with as many dimensions as the spectra of `fit` had."""
        whole = np.concatenate(parts)
        return whole[:, 0] if self._one_dimensional else whole
