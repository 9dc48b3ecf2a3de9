"""Training of path decoders in every format of a device: time of an epoch, and accuracy.

`python -m benchmarks.training --out training.json` uses the spectra of the parameters and geodesics
of untrained metrics. An epoch is of all wavelengths and one decoder per fold. Accuracy is for the
training of the parameters, compared with double precision and with other initial weights; errors
are root mean squares relative to the deviation of the spectra.
"""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from jaxtyping import Float

from benchmarks.performance.benchmark import time_training
from geonode.compute.device import Device, resolve
from geonode.config import Parameters
from geonode.errors import DeviceError
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import SIZES
from geonode.geometry.perceptron import Perceptron
from geonode.learning.context import TrainingRun
from geonode.learning.folds import leave_one_out, training_wavelengths
from geonode.learning.path_decoder import fit_path_decoders
from geonode.learning.path_features import path_features
from geonode.machine import machine
from geonode.parameters_file import read_parameters
from geonode.spectra.series import Series, read_series_csv
from geonode.storage.document import write_document
from stages.paths import PARAMETERS

FORMATS = ("float64", "float32", "tf32", "bfloat16")

Features = Float[np.ndarray, "member fold pair wavelength feature"]


def left_out(
    series: Series, features: Features, parameters: Parameters, device: Device, seed: int
) -> Float[np.ndarray, "level wavelength"]:
    """Predictions of every level by the decoders trained without it."""
    block = parameters.decoders.model_copy(update={"seed": seed})
    chosen = features[..., training_wavelengths(len(series.axis), block.wavelengths), :]
    *folds, whole = leave_one_out(len(series.concentrations))
    run = TrainingRun([*folds, whole], block.members, device)
    decoders, _ = fit_path_decoders(series, chosen, block, run)
    predicted = [
        decoders.predict(
            fold,
            series,
            series.concentrations[list(fold.left_out)],
            fold.paths_to_left_out(chosen),
        )
        for fold in folds
    ]
    return np.concatenate([of_fold.spectra for of_fold in predicted])


def measured(parameters: Parameters, kind: Any, repeats: int) -> list[dict[str, Any]]:
    """Results of every format of the device, in the order of `FORMATS`."""
    series = read_series_csv(parameters.spectra)
    folds = leave_one_out(len(series.concentrations))
    network = Perceptron.initial(SIZES, [(0, fold.index) for fold in folds])
    learned = LearnedMetrics(network, [series.chart] * len(folds))
    features = path_features(learned, series, np.arange(len(series.axis)))
    whole = parameters.decoders.model_copy(update={"wavelengths": len(series.axis)})
    seed, lines, exact = parameters.decoders.seed, list[dict[str, Any]](), None
    for name in FORMATS:
        try:
            device = resolve(kind, parameters.precision.model_copy(update={"training": name}))
        except DeviceError as error:
            lines.append({"format": name, "note": str(error)})
            continue
        epoch = time_training(series, features, whole, TrainingRun(folds[:-1], 1, device), repeats)
        found, other = (left_out(series, features, parameters, device, seed + k) for k in (0, 1))
        exact = found if exact is None else exact
        line: dict[str, Any] = {"format": name, "epoch_ms": 1e3 * epoch.median}
        for key, one, reference in (
            ("error", found, series.signal),
            ("from_float64", found, exact),
            ("from_other_weights", other, found),
        ):
            line[key] = float(np.sqrt(np.square(one - reference).mean()) / reference.std())
        lines.append(line)
    return lines


def main(
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    repeats: Annotated[int, typer.Option(min=1, help="Timings of every format.")] = 5,
    out: Annotated[Path | None, typer.Option(help="JSON file for all results.")] = None,
) -> None:
    """Time the training of path decoders in every format, and compare their predictions."""
    parameters = read_parameters(PARAMETERS)
    lines = measured(parameters, device, repeats)
    for line in lines:
        typer.echo(line)
    if out is not None:
        about = resolve(device, parameters.precision).describe()  # type: ignore[arg-type]
        write_document(out, {"machine": about | machine(), "formats": lines})


if __name__ == "__main__":
    typer.run(main)
