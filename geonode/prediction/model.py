"""Model of a series: what is learned from its spectra and predicts spectra at any concentration.

A model is read from the artifacts of a pipeline, or learned in memory by the same steps: metrics,
path features, decoders (`geonode.learning`).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float

from geonode.compute.device import CPU, Device, resolve
from geonode.compute.threads import one_thread
from geonode.config import DecodersParameters, Parameters
from geonode.errors import SpectraError
from geonode.geometry.learned import LearnedMetrics
from geonode.learning.blend import Blend, fit_blend, training_steps
from geonode.learning.context import NestedRuns
from geonode.learning.folds import Fold, leave_one_out, path_wavelengths
from geonode.learning.metric_learning import learn
from geonode.learning.path_features import features_to, path_features
from geonode.learning.predicted import PathFeatures, Predicted
from geonode.parameters_file import default_parameters
from geonode.prediction.model_store import DECODERS_FILE, METRIC_FILE, ModelStore, key_of
from geonode.progress import Progress, silent
from geonode.spectra.arrays import real_array
from geonode.spectra.series import Series, read_series
from geonode.spectra.table import FEWEST_LEVELS
from geonode.storage.lineage import consistent_artifacts

SPECTRA_FILE = "spectra.zarr"
"""Name of the spectra in the folder of a pipeline."""


@dataclass(frozen=True)
class SpectralModel:
    """Metrics and decoders of every fold of a series."""

    series: Series  # the measured series. A fold does not read the spectra that it leaves out.
    learned: LearnedMetrics  # metrics of the folds of leave-one-out
    blend: Blend  # decoders of these folds
    features: PathFeatures = None
    """Of all geodesics between levels, at the training wavelengths; None where there are no path
    decoders, or where nothing but new concentrations is predicted."""

    @classmethod
    @one_thread()
    def read(cls, folder: Path, place: torch.device = CPU) -> "SpectralModel":
        """Model from the artifacts of a pipeline, without features.

        Args:
            folder: folder of the artifacts.
            place: device with double precision that computes the posterior.

        Raises:
            MissingArtifactError, CorruptArtifactError: an artifact is absent or damaged.
            ArtifactError: artifacts are of different runs.
        """
        spectra, metric, decoders = (
            folder / name for name in (SPECTRA_FILE, METRIC_FILE, DECODERS_FILE)
        )
        with consistent_artifacts(spectra, metric, decoders):
            series = read_series(spectra)
            return cls(series, LearnedMetrics.read(metric), Blend.read(decoders, place))

    @classmethod
    @one_thread()
    def fit(
        cls,
        series: Series,
        parameters: Parameters,
        device: Device | None = None,
        report: Progress = silent,
    ) -> "SpectralModel":
        """Learn metrics and decoders of a series, or read those learned before.

        Models that take a training are kept in the store of the user.

        Args:
            series: series on its given chart.
            parameters: of which the blocks `inner`, `metric` and `decoders` are read.
            device: device to train on; None: that of the parameters.
            report: called after every step of `steps`.

        Raises:
            DeviceError: the device is absent.
            TrainingError: as `learn` and `fit_blend`.
        """
        if device is None:
            device = resolve(parameters.device, parameters.precision, parameters.memory_mb)
        decoders, levels = parameters.decoders, len(series.concentrations)
        steps = cls.steps(levels, parameters, device)
        store, key = ModelStore.of_user(), key_of(series, parameters, device) if steps else ""
        if steps and (known := store.read(key)) is not None:
            report(steps)
            return cls(series, *known, _features(known[0], series, decoders))
        of_metric, of_decoders = (
            runs.with_progress(report) for runs in _runs(levels, parameters, device)
        )
        learned = learn(series, parameters.metric, of_metric).metrics
        features = _features(learned, series, decoders)
        inside = None if learned.inner is None else _features(learned.inner, series, decoders)
        blend, _ = fit_blend(series, features, inside, decoders, of_decoders)
        if steps:
            store.write(key, learned, blend)
        return cls(series, learned, blend, features)

    @classmethod
    def learn(
        cls,
        concentrations: Any,
        spectra: Any,
        wavelengths: Any = None,
        settings: dict[str, Any] | None = None,
    ) -> "SpectralModel":
        """Learn from arrays, without a file or a pipeline.

        Args:
            concentrations: array-like, from 4 to 50 different ones, none negative; rows of one
                concentration are scans of one level.
            spectra: theirs, of shape (row, wavelength).
            wavelengths: axis values of the columns, ascending; None: 0, 1, 2, ...
            settings: values by dotted key of params.yaml that replace the defaults of the package,
                such as {"preset": "fast"}, which trains nothing.

        Raises:
            SpectraError, ParameterError: naming what is wrong.
            DeviceError, TrainingError: as `fit`.
        """
        parameters = default_parameters(settings or {})
        chart, kappa = parameters.spectra.chart, parameters.spectra.kappa
        series = Series.of_rows(concentrations, spectra, wavelengths, FEWEST_LEVELS, chart, kappa)
        return cls.fit(series, parameters)

    @staticmethod
    def steps(levels: int, parameters: Parameters, device: Device) -> int:
        """Training steps that `fit` reports for so many levels; 0 if nothing is trained."""
        of_metric, of_decoders = _runs(levels, parameters, device)
        metric = parameters.metric
        steps = 0 if metric.learning == "flat" else of_metric.models * metric.epochs
        return steps + training_steps(parameters.decoders, of_decoders)

    @property
    def fold(self) -> Fold:
        """The fold that leaves nothing out, by which new concentrations are predicted."""
        return leave_one_out(len(self.series.concentrations))[-1]

    @property
    def range(self) -> tuple[float, float]:
        """Lowest and highest level."""
        levels = self.series.concentrations
        return float(levels[0]), float(levels[-1])

    def is_inside(self, concentrations: Float[np.ndarray, "target"]) -> Bool[np.ndarray, "target"]:
        """True for concentrations in the measured range, ends included."""
        return self.fold.spans(self.series.concentrations, concentrations)

    @one_thread()
    def predict(self, concentrations: Any) -> Predicted:
        """Spectra at some concentrations (array-like), with intervals if the blend has them.

        Memory grows with the number of concentrations: predict some hundreds at a time.

        Raises:
            SpectraError: a concentration is negative or not finite.
        """
        concentrations = real_array(concentrations, "concentrations", target=None)
        if (wrong := concentrations < 0).any():
            negative = f"{concentrations[wrong][0]:g}"
            raise SpectraError(f"concentrations: found {negative}, expected finite numbers from 0")
        fold, features = self.fold, None
        if "path" in self.blend.decoders:
            features = features_to(
                self.learned, fold, self.series, concentrations, self.blend.training
            )
        return self.blend.predict(fold, self.series, concentrations, features)

    @one_thread()
    def left_out(self, kind: str | None = None) -> Predicted:
        """Spectrum of every level by the fold without it; path decoders need `features`.

        Args:
            kind: of decoder, alone; None: all of the blend.
        """
        blend = self.blend if kind is None else self.blend.only(kind)
        return blend.left_out(self.series, self.features)


def _runs(levels: int, parameters: Parameters, device: Device) -> tuple[NestedRuns, NestedRuns]:
    metric, decoders, inner = parameters.metric, parameters.decoders, parameters.inner
    of_metric = NestedRuns.of(levels, metric, inner, device)
    return of_metric, NestedRuns.of(levels, decoders, inner, device)


def _features(
    learned: LearnedMetrics, series: Series, decoders: DecodersParameters
) -> PathFeatures:
    """Features of all geodesics between levels; None for the posterior alone."""
    chosen = path_wavelengths(len(series.axis), decoders.kind, decoders.wavelengths)
    return None if chosen is None else path_features(learned, series, chosen)
