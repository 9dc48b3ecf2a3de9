"""The pipeline against the method of the publication, one geodesic at a time.

`python -m research.sequential`, after `dvc repro`, writes metrics/sequential.json.
"""

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, NamedTuple

import numpy as np
import torch
import typer
from jaxtyping import Float, Int
from torch import Tensor

from geonode.compute.device import Device
from geonode.compute.threads import one_thread
from geonode.config import DecodersParameters
from geonode.evaluation.scores import pooled_r2
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import Metric
from geonode.geometry.perceptron import Perceptron
from geonode.geometry.problem import ordered_pairs
from geonode.learning.context import TrainingRun
from geonode.learning.folds import Fold, Standardisation, training_wavelengths
from geonode.learning.path_decoder import PathDecoders
from geonode.learning.path_features import DECODER_SIZES, path_features
from geonode.parameters_file import read_parameters
from geonode.progress import Progress, bar, silent
from geonode.spectra.series import Series, read_series
from geonode.storage.document import write_json
from geonode.storage.lineage import consistent_artifacts
from geonode.storage.record import Record
from geonode.terminal import OneLineCommand, tell
from research.published_method import (
    MetricModule,
    SequentialDecoder,
    SequentialSolver,
    published_calls,
)
from stages.paths import DEVICE, METRIC, METRICS, PARAMETERS, PIPELINE, RECORDS, SPECTRA
from stages.performance.kernels import first_member
from stages.performance.timing import Quartiles

PathFeatures = Float[np.ndarray, "1 1 pair training feature"]
"""Path features of one member and one fold, at some wavelengths."""


class Parity(NamedTuple):
    """Differences between the pipeline and the sequential method."""

    feature: float  # largest difference of a path feature (charted units)
    loss: float
    """Largest difference of the loss of the decoder before a step, relative to the first."""
    prediction: float
    """Root mean square difference of the predictions, relative to the deviation of the training
    spectra."""
    r2: float | None
    r2_sequential: float | None
    """R2 of the left-out spectrum by both; None if it is constant."""


@dataclass(frozen=True)
class MiddleFold:
    """Fold without the middle level, which both methods run to its end at some wavelengths."""

    learned: LearnedMetrics
    series: Series
    device: Device
    block: DecodersParameters  # of the decoder, and the number of wavelengths, at most

    @cached_property
    def features(self) -> Float[np.ndarray, "member fold pair wavelength feature"]:
        """Features of the geodesics of the pipeline, of the first member at all wavelengths."""
        every = np.arange(len(self.series.axis))
        return path_features(first_member(self.learned), self.series, every)

    @property
    def middle(self) -> int:
        """Level that is left out, and the place of its metric."""
        return len(self.series.concentrations) // 2

    @property
    def fold(self) -> Fold:
        """The fold, as the only one of a run."""
        return Fold(0, len(self.series.concentrations), (self.middle,))

    @property
    def chosen(self) -> Int[np.ndarray, "training"]:
        """Indices of the wavelengths."""
        return training_wavelengths(len(self.series.axis), self.block.wavelengths)

    @property
    def stored(self) -> PathFeatures:
        """Features of the pipeline: of one member, this fold and the wavelengths."""
        return self.features[:1, [self.middle]][..., self.chosen, :]

    @cached_property
    def rows(self) -> list[tuple[int, int]]:
        """Pair and place of the wavelength of every geodesic that begins at a training level."""
        source, _ = ordered_pairs(self.fold.levels)
        pairs = torch.nonzero(source != self.middle).squeeze(1).tolist()
        return [(pair, place) for pair in pairs for place in range(len(self.chosen))]

    def walk(self, report: Progress = silent) -> tuple[PathFeatures, Quartiles]:
        """Features of the geodesics, solved one at a time, and seconds per metric call.

        On a CPU this runs in one thread, which is fastest: networks of one row at a time gain
        nothing from several threads, and on a busy machine threads wait for each other.
        """
        metric = Metric(self.learned.network.to(self.device.place, self.device.training))
        module = MetricModule(metric, self.middle)
        positions = self.learned.positions(self.series.concentrations)[self.middle]
        wavelengths = self.series.wavelengths[self.chosen].tolist()
        ends = torch.stack(ordered_pairs(len(positions)), dim=1).numpy()
        walked, seconds = self.stored.astype(np.float64), []
        for pair, place in self.rows:
            solver, (source, target) = SequentialSolver(module), positions[ends[pair]].tolist()
            with one_thread():
                start = time.perf_counter()
                found = solver.solve(source, target, wavelengths[place])
                seconds.append((time.perf_counter() - start) / solver.calls)
            walked[0, 0, pair, place] = found.features.numpy()
            report(1)
        return walked, Quartiles.of(seconds)

    def parity(self, walked: PathFeatures) -> Parity:
        """Train a decoder by both methods, and predict the left-out spectrum with each.

        The matrix from the outputs of a decoder to a spectrum is that of the pipeline.
        """
        fold, signal, levels = self.fold, self.series.signal, self.series.concentrations
        run = TrainingRun([fold], 1, self.device)
        decoders, history = PathDecoders.fit(self.series, self.stored, self.block, run)
        paths = fold.paths_to_left_out(self.stored)
        found = decoders.predict(fold, self.series, levels[[self.middle]], paths).spectra
        # The other way begins with the same weights.
        standard, (_, target) = (
            Standardisation.of(signal[fold.training]),
            ordered_pairs(len(levels)),
        )
        goal = standard.apply(signal[:, self.chosen])[target[fold.training_pairs]]
        known = walked[0, 0, fold.training_pairs].reshape(-1, walked.shape[-1])
        first = Perceptron.initial(DECODER_SIZES, [(self.block.seed, 0, *fold.seed)])
        given, wanted = self._given(known), self._given(goal.reshape(-1))
        alone = SequentialDecoder(first, given, wanted, self.block)
        with torch.no_grad():
            each = alone(self._given(walked[0, 0, (target == self.middle).numpy()]))
        outputs = each.mean(0, keepdim=True).double().cpu().numpy()
        expected = outputs @ decoders.matrix.numpy()[0] + decoders.offset.numpy()
        losses, measured = history[:, 0, 0].double().numpy(), signal[[self.middle]]
        return Parity(
            float(np.abs(walked - self.stored).max()),
            float(np.abs(losses - alone.losses).max() / losses[0]),
            float(np.sqrt(np.mean((found - expected) ** 2)) / standard.deviation),
            pooled_r2(measured, found),
            pooled_r2(measured, expected),
        )

    def _given(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(self.device.place, self.device.training)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(cls=OneLineCommand)
def main(
    wavelengths: Annotated[
        int, typer.Option(min=1, help="Wavelengths at which the sequential method runs one fold.")
    ] = 3,
) -> None:
    """Compare the pipeline with the sequential method."""
    parameters = read_parameters(PARAMETERS)
    device = Device.read(DEVICE, parameters.memory_mb)
    with consistent_artifacts(SPECTRA, METRIC):
        series, learned = read_series(SPECTRA), LearnedMetrics.read(METRIC)
    records = {name: Record.read(RECORDS / f"{name}.json") for name in PIPELINE}
    block = parameters.decoders.model_copy(update={"wavelengths": wavelengths})
    fold = MiddleFold(learned, series, device, block)
    with bar("timing the sequential method", len(fold.rows)) as report:
        walked, call = fold.walk(report)
    calls, seconds = published_calls(), sum(record.seconds for record in records.values())
    extrapolated = call.median * calls
    found = {
        "device": device.kind,
        "name": device.name,
        "pipeline": {
            "seconds": seconds,
            "speedup": extrapolated / seconds,
            "speedup_q25": call.q25 * calls / seconds,
            "speedup_q75": call.q75 * calls / seconds,
        },
        "sequential": {
            "metric_calls": calls,
            "sample_geodesics": len(fold.rows),
            "seconds_per_call": call._asdict(),
            "seconds_extrapolated": extrapolated,
            "days_extrapolated": extrapolated / 86400,
        },
        "parity": fold.parity(walked)._asdict(),
    }
    write_json(METRICS / "sequential.json", found)
    tell(
        f"pipeline {seconds:.1f} s, sequential method {extrapolated / 86400:.1f} days "
        f"(extrapolated): {extrapolated / seconds:,.0f} times faster"
    )


if __name__ == "__main__":
    app()
