"""Model of a series: prediction of spectra at any concentration."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from geonode.errors import SpectraError
from geonode.geometry.learned import LearnedMetrics
from geonode.learning.blend import Blend
from geonode.learning.folds import Fold, leave_one_out
from geonode.learning.path_features import features_to
from geonode.learning.predicted import Predicted
from geonode.spectra.series import Series, read_series
from geonode.storage.lineage import consistent_artifacts

SPECTRA, METRIC, DECODERS = "spectra.zarr", "metric.safetensors", "decoders.safetensors"
"""Names of the artifacts of a model in the folder of a pipeline."""


@dataclass(frozen=True)
class SpectralModel:
    """Model of one fold of a series.

    Attributes:
        series: the measured series. The spectra that the fold leaves out are not read.
        learned: metrics of the folds of leave-one-out.
        blend: decoders of these folds.
        fold: the fold; the last one leaves nothing out.
    """

    series: Series
    learned: LearnedMetrics
    blend: Blend
    fold: Fold

    @classmethod
    def read(cls, folder: Path) -> "SpectralModel":
        """Model of all levels from the artifacts of a pipeline.

        Args:
            folder: folder of the artifacts.

        Raises:
            MissingArtifactError, CorruptArtifactError: an artifact is absent or damaged.
            ArtifactError: artifacts are of different runs.
        """
        with consistent_artifacts(folder / SPECTRA, folder / METRIC, folder / DECODERS):
            series = read_series(folder / SPECTRA)
            learned = LearnedMetrics.read(folder / METRIC)
            blend = Blend.read(folder / DECODERS)
        return cls.of(series, learned, blend)

    @classmethod
    def of(cls, series: Series, learned: LearnedMetrics, blend: Blend) -> "SpectralModel":
        """Model of all levels of a series, by the fold that leaves nothing out."""
        *_, whole = leave_one_out(len(series.concentrations))
        return cls(series, learned, blend, whole)

    @property
    def has_posterior(self) -> bool:
        """Whether the posterior over metrics is among the decoders."""
        return "posterior" in self.blend.decoders

    @property
    def range(self) -> tuple[float, float]:
        """Lowest and highest training level."""
        levels = self.series.concentrations[self.fold.training]
        return float(levels[0]), float(levels[-1])

    def is_inside(self, concentrations: Float[np.ndarray, "target"]) -> Bool[np.ndarray, "target"]:
        """Whether concentrations are in the training range, ends included."""
        return self.fold.spans(self.series.concentrations, concentrations)

    def predict(self, concentrations: Float[np.ndarray, "target"]) -> Predicted:
        """Spectra at some concentrations, with intervals if the blend has them.

        Memory grows with the number of concentrations: predict some hundreds at a time.

        Raises:
            SpectraError: a concentration is negative or not finite.
        """
        wrong = ~(np.isfinite(concentrations) & (concentrations >= 0))
        if wrong.any():
            raise SpectraError(
                f"concentration: found {concentrations[wrong][0]:g}, expected a finite number "
                "that is not negative"
            )
        features = None
        if "path" in self.blend.decoders:
            features = features_to(
                self.learned, self.fold, self.series, concentrations, self.blend.training
            )
        return self.blend.predict(self.fold, self.series, concentrations, features)
