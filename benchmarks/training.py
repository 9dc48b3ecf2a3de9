"""Training of path decoders in every format of a device: speed, floor and accuracy.

`python -m benchmarks.training --out training.json` uses the spectra of the parameters and geodesics
of untrained metrics. Speed is for all wavelengths and one decoder per fold. Accuracy is for the
training of the parameters, compared with double precision and with other initial weights.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from jaxtyping import Float

from geonode.config import Parameters
from geonode.decoders.kinds import KINDS
from geonode.decoders.path_decoder import DECODER_SIZES
from geonode.decoders.path_features import path_features
from geonode.devices.device import Device, environment, resolve
from geonode.errors import DeviceError
from geonode.evaluation.benchmark import time_training
from geonode.evaluation.floors import Rates, training_work
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import SIZES
from geonode.geometry.perceptron import Perceptron
from geonode.parameters_file import read_parameters
from geonode.spectra.series import Series, read_series_csv
from geonode.storage.document import write_document
from geonode.training.context import TrainingRun
from geonode.training.folds import leave_one_out, training_wavelengths

FORMATS = ("float64", "float32", "tf32", "bfloat16", "float16")
PARAMETERS = Path("params.yaml")
"""Parameters, of which the blocks `spectra` and `decoders` are used."""


@dataclass(frozen=True)
class Case:
    """Spectra, and the features of the geodesics between them at all wavelengths."""

    series: Series
    features: Float[np.ndarray, "member fold pair wavelength feature"]

    @classmethod
    def of(cls, parameters: Parameters) -> "Case":
        """Case of the spectra of the parameters, with untrained metrics."""
        series = read_series_csv(parameters.spectra)
        folds = len(series.concentrations) + 1
        network = Perceptron.initial(SIZES, [(0, fold) for fold in range(folds)])
        learned = LearnedMetrics(network, [series.chart] * folds)
        every = np.arange(len(series.axis))
        return cls(series, path_features(learned, series, every))


def left_out(
    case: Case, parameters: Parameters, device: Device, seed: int
) -> Float[np.ndarray, "level wavelength"]:
    """Predictions of every level by the decoders trained without it."""
    block = parameters.decoders.model_copy(update={"seed": seed})
    chosen = training_wavelengths(len(case.series.axis), block.wavelengths)
    features = case.features[..., chosen, :]
    folds = leave_one_out(len(case.series.concentrations))
    decoders, _ = KINDS["path"].fit(
        case.series, features, block, TrainingRun(folds, block.members, device)
    )
    return np.concatenate(
        [
            decoders.predict(
                fold,
                case.series,
                case.series.concentrations[[level]],
                fold.paths_to(level, features),
            ).spectra
            for level, fold in enumerate(folds[:-1])
        ]
    )


def timed(case: Case, parameters: Parameters, device: Device, repeats: int) -> dict[str, Any]:
    """Time of an epoch of one decoder per fold at all wavelengths, with its floor."""
    levels, wavelengths = len(case.series.concentrations), len(case.series.axis)
    block = parameters.decoders.model_copy(update={"wavelengths": wavelengths})
    run = TrainingRun(leave_one_out(levels)[:-1], 1, device)
    epoch = time_training(case.series, case.features, block, run, repeats)
    rows = len(run.folds[0].training_pairs) * wavelengths
    work = training_work(levels, rows, DECODER_SIZES, device.products.itemsize)
    rates = Rates.of(device, device.products, repeats)
    return {
        "models": levels,
        "rows": rows,
        "epoch_ms": {name: 1e3 * value for name, value in epoch._asdict().items()},
        "floor_ms": 1e3 * work.floor(rates),
        "ratio_to_floor": work.ratio(epoch, rates),
        "rates": rates._asdict(),
    }


def root_mean_square(
    found: Float[np.ndarray, "level wavelength"], expected: Float[np.ndarray, "level wavelength"]
) -> float:
    """Root mean square of a difference, relative to the deviation of the expected spectra."""
    return float(np.sqrt(np.square(found - expected).mean()) / expected.std())


def measured(case: Case, parameters: Parameters, kind: Any, repeats: int) -> list[dict[str, Any]]:
    """Results of every format of the device, in the order of `FORMATS`."""
    lines: list[dict[str, Any]] = []
    exact = None
    for name in FORMATS:
        precision = parameters.precision.model_copy(update={"training": name})
        try:
            device = resolve(kind, precision)
        except DeviceError as error:
            lines.append({"format": name, "note": str(error)})
            continue
        predicted = left_out(case, parameters, device, parameters.decoders.seed)
        if exact is None:
            exact = predicted
        lines.append(
            {
                "format": name,
                **timed(case, parameters, device, repeats),
                "error": root_mean_square(predicted, case.series.signal),
                "from_float64": root_mean_square(predicted, exact),
                "from_other_weights": root_mean_square(
                    left_out(case, parameters, device, parameters.decoders.seed + 1), predicted
                ),
            }
        )
    return lines


def main(
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    repeats: Annotated[int, typer.Option(min=1, help="Timings of every format.")] = 5,
    out: Annotated[Path | None, typer.Option(help="JSON file for all results.")] = None,
) -> None:
    """Time the training of path decoders in every format, and compare their predictions."""
    parameters = read_parameters(PARAMETERS)
    lines = measured(Case.of(parameters), parameters, device, repeats)
    for line in lines:
        typer.echo(line)
    if out is not None:
        about = environment(resolve(device, parameters.precision))  # type: ignore[arg-type]
        write_document(out, {"machine": about, "formats": lines})


if __name__ == "__main__":
    typer.run(main)
