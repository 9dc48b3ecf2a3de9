"""Gain of each way of computing over the plain one, on the device at hand.

`python -m research.kernels --device cuda` (or cpu) prints a table as CSV: seconds of both ways, in
turns, and the quartiles of their ratio. Ways that a device lacks are left out.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Annotated
from unittest.mock import patch

import numpy as np
import torch
import typer
from torch.nn.functional import softplus

from geonode.compute.device import Device, resolve
from geonode.compute.profile import profile_of
from geonode.geometry.chebyshev import ChebyshevSource
from geonode.geometry.grid import uniform_nodes
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import FLOOR, SIZES, Metric, product
from geonode.geometry.perceptron import Perceptron
from geonode.geometry.solvers.closed_form import ClosedForm
from geonode.learning.context import TrainingRun
from geonode.learning.folds import leave_one_out
from geonode.learning.path_features import path_features
from geonode.machine import usable_cores
from geonode.parameters_file import default_parameters
from geonode.spectra.series import Series
from stages.performance.kernels import time_training
from stages.performance.timing import Quartiles, time_calls

LEVELS, WAVELENGTHS, NODES, STATIONS, MEMBERS = 6, 601, 2000, 100, 4
Timed = Callable[[], float]
Pair = tuple[str, Timed, Timed]  # what is compared, seconds of the one way and of the plain one


def main(
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    turns: Annotated[int, typer.Option(min=1, help="Timed turns of each way.")] = 5,
) -> None:
    """Measure every way beside the plain one."""
    given = default_parameters({"device": device})
    on = resolve(given.device, given.precision)
    typer.echo("what,device,ms,plain ms,times as fast,q25,q75")
    for name, one, plain in (*_geometry(on), *_training(on)):
        one(), plain()  # compiles, fills caches
        pairs = [(one(), plain()) for _ in range(turns)]
        both = (1e3 * np.median(pairs, axis=0)).tolist()
        numbers = (*both, *Quartiles.of([b / a for a, b in pairs]))
        typer.echo(",".join([name, on.name, *(f"{number:.4g}" for number in numbers)]))


def _once(call: Callable[[], object], on: Device) -> Timed:
    return lambda: time_calls(call, 1, on.synchronise).median


def _without(name: str, instead: Callable[..., object], timed: Timed) -> Timed:
    return patch(f"geonode.{name}", instead)(timed)


def _geometry(on: Device) -> Iterator[Pair]:
    """The Christoffel symbol of the network, and all paths between many stations."""
    metric = Metric(Perceptron.initial(SIZES, [(0,)]).to(on.reference, torch.float64))
    positions = uniform_nodes(NODES // 10, on.reference, torch.float64)
    wavelengths = uniform_nodes(WAVELENGTHS, on.reference, torch.float64)
    points = product(positions[None], wavelengths, 1)

    def recorded() -> torch.Tensor:
        given = points.clone().requires_grad_()
        log_sqrt = 0.5 * torch.log(softplus(metric.network(given)) + FLOOR)
        return torch.autograd.grad(log_sqrt.sum(), given)[0][..., 0]

    analytic = _once(lambda: metric.with_symbol(positions[None], wavelengths), on)
    yield "Christoffel symbol: analytic over autograd", analytic, _once(recorded, on)
    source = ChebyshevSource.of(metric, wavelengths, tolerance=1e-8, largest_degree=512)
    form = ClosedForm(source.grid(0, uniform_nodes(NODES, on.place, on.geometry)))
    known = form.stations(uniform_nodes(STATIONS, on.place, on.geometry), wavelengths.to(on.place))
    if profile_of(on.place).kernels:
        paths = _once(known.every_path, on)
        plain = _without("geometry.stations.usable", lambda _: False, paths)
        yield "all paths: fused kernel over torch", paths, plain


def _training(on: Device) -> Iterator[Pair]:
    """An epoch of path decoders of six folds at all wavelengths."""
    levels, axis = np.arange(LEVELS) * 10.0, np.linspace(200, 800, WAVELENGTHS)
    spectra = np.exp(-(((axis - 500 - 3 * levels[:, None]) / 60) ** 2))
    series = Series.of_rows(levels, spectra, axis, LEVELS)
    network = Perceptron.initial(SIZES, [(fold,) for fold in range(LEVELS + 1)])
    learned = LearnedMetrics(network, [series.chart] * (LEVELS + 1))
    features = path_features(learned, series, np.arange(WAVELENGTHS))
    block = default_parameters({"preset": "published"}).decoders
    run = TrainingRun(leave_one_out(LEVELS)[:-1], MEMBERS, on)

    def epoch() -> float:
        return time_training(series, features, block, run, 1).median

    profile, what = profile_of(on.place), f"an epoch of {MEMBERS * LEVELS} decoders"
    if profile.kernels:
        plain = _without("geometry.trainable.usable", lambda _: False, epoch)
        yield f"{what}: fused kernels over torch", epoch, plain
    if profile.captured:
        eager = replace(profile, captured=False)
        plain = _without("learning.trainer.profile_of", lambda _: eager, epoch)
        yield f"{what}: captured graph over eager steps", epoch, plain
    cores = "compute.profile.usable_cores"
    for count in range(2, usable_cores() + 1) if on.kind == "cpu" else ():
        several, alone = (_without(cores, lambda n=n: n, epoch) for n in (count, 1))
        yield f"{what}: {count} workers over 1", several, alone


if __name__ == "__main__":
    typer.run(main)
