"""Gradient of a batch of metrics, computed by other programs than that of the package.

`python -m benchmarks.programs` times one step, without the optimiser, of the first batch of the
default training: the loss alone, the passes of the package, those that torch records, the latter by
torch.compile, on a CPU two threads within every operation, and on CUDA a captured step on one
stream against its halves on two. Medians with quartiles. On a CPU the operations of a step of path
decoders follow, each alone in memory of its own, as times and relative to the floor: what no
program of these operations goes below.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Annotated
from unittest.mock import patch

import numpy as np
import torch
import typer
from torch import Tensor

from benchmarks.performance.floors import Rates, training_work
from benchmarks.performance.timing import Quartiles, time_calls
from geonode.compute.device import Device, resolve
from geonode.compute.products import fast_products
from geonode.geometry.perceptron import tanh_of_half_
from geonode.geometry.trainable import THIN, TrainablePerceptron, product
from geonode.learning.batches import Batch, batches_of
from geonode.learning.context import NestedRuns, TrainingRun
from geonode.learning.end_to_end import EndToEnd
from geonode.learning.path_decoder import DECODER_SIZES
from geonode.parameters_file import read_parameters
from geonode.spectra.series import read_series_csv
from stages.paths import PARAMETERS

WARM_UP = 3

Step = Callable[[], object]


def recorded(network: TrainablePerceptron, inputs: Tensor) -> Tensor:
    """Values of networks by operations that torch records, for its own backward pass."""
    layers, views = len(network.weights), (*network.weights, *network.biases)
    joined = network.joined.split([view[0].numel() for view in views], dim=1)
    parts = [one.unflatten(1, view.shape[1:]) for one, view in zip(joined, views, strict=True)]
    weights, biases = parts[:layers], parts[layers:]
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        inputs = torch.tanh(torch.baddbmm(bias, inputs, weight))
    return torch.baddbmm(biases[-1], inputs, weights[-1])


def step_of(objective: EndToEnd, batch: Batch, run: TrainingRun, *, compiled: bool = False) -> Step:
    """Step that computes the loss of a batch and its gradient."""
    prepared = objective.prepare(batch, run)

    def loss() -> Tensor:
        return prepared.loss().sum()

    program = torch.compile(loss) if compiled else loss

    def step() -> None:
        program().backward()
        for network, _ in prepared.networks:
            network.joined.grad = None

    return step


def loss_of(objective: EndToEnd, batch: Batch, run: TrainingRun) -> Step:
    """Step that computes the loss of a batch, as for its gradient, and no gradient."""
    return objective.prepare(batch, run).loss


def captured(step: Step) -> tuple[torch.cuda.CUDAGraph, torch.cuda.Stream]:
    """Step as one CUDA graph, and the stream on which it was captured."""
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            step()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        step()
    return graph, stream


def programs(objective: EndToEnd, batch: Batch, run: TrainingRun) -> Iterator[tuple[str, Step]]:
    """Steps by name; a program is made when it is asked for."""
    yield "loss alone", loss_of(objective, batch, run)
    yield "passes of the package", step_of(objective, batch, run)
    with patch.object(TrainablePerceptron, "__call__", recorded):
        yield "recorded by torch", step_of(objective, batch, run)
        start = time.perf_counter()
        compiled = step_of(objective, batch, run, compiled=True)
        try:
            compiled()
            yield f"torch.compile ({time.perf_counter() - start:.0f} s to compile)", compiled
        except torch._dynamo.exc.TorchDynamoException as error:
            typer.echo(f"torch.compile refuses: {str(error).splitlines()[0]}")
    if run.device.kind == "cpu":
        torch.set_num_threads(2)
        yield "two threads within operations", step_of(objective, batch, run)
        torch.set_num_threads(1)
    if run.device.kind != "cuda":
        return
    whole, _ = captured(step_of(objective, batch, run))
    yield "captured, one stream", whole.replay
    halves = [captured(step_of(objective, half, run)) for half in batch.halves()]

    def both() -> None:
        for graph, stream in halves:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                graph.replay()
        for _, stream in halves:
            torch.cuda.current_stream().wait_stream(stream)

    yield "captured, halves on two streams", both


def operations(sizes: Sequence[int], rows: int) -> dict[str, list[Step]]:
    """Operations of one step of a perceptron without its optimiser, by kind; in float32."""
    layers = list(pairwise(sizes))
    values, errors = ([torch.randn(1, rows, size) for size in sizes] for _ in range(2))
    steps: dict[str, list[Step]] = {"products": [], "tanh and its derivative": [], "sums": []}
    for place, (inputs, outputs) in enumerate(layers):
        weight, bias = torch.randn(1, inputs, outputs), torch.randn(1, 1, outputs)
        below, above = values[place], torch.empty(1, rows, outputs)
        error, under, units = errors[place + 1], errors[place], values[place + 1]
        forward = partial(torch.baddbmm, bias, below, weight, out=above)
        steps["products"] += [
            forward if outputs >= THIN else partial(product, below, weight),
            partial(product, below.mT, error),
        ]
        steps["sums"].append(partial(torch.sum, error, 1, keepdim=True))
        if place:
            times = torch.bmm if outputs > 1 else torch.mul
            steps["products"].append(partial(times, error, weight.mT, out=under))
        if place + 1 < len(layers):
            slope = torch.ops.aten.tanh_backward.grad_input
            steps["tanh and its derivative"] += [
                partial(tanh_of_half_, units),
                partial(slope, error, torch.rand_like(error), grad_input=torch.empty_like(error)),
            ]
    return steps


def show_operations(rows: int, here: Device, repeats: int) -> None:
    """Print the times of the operations of a path decoder, relative to its floor on one core."""
    with torch.no_grad():
        rates = Rates.of(here, torch.float32, repeats)
        floor = training_work(1, rows, DECODER_SIZES, 4).floor(rates)
        for kind, steps in operations(DECODER_SIZES, rows).items():
            seconds = sum(time_calls(step, repeats, here.synchronise).median for step in steps)
            typer.echo(f"{kind} of a path decoder: {1e3 * seconds:.3g} ms, {seconds / floor:.3g}")


def main(
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    repeats: Annotated[int, typer.Option(min=1, help="Timings of every program.")] = 41,
) -> None:
    """Time one step of the training of metrics by every program."""
    parameters = read_parameters(PARAMETERS)
    here = resolve(device, parameters.precision)  # type: ignore[arg-type]
    series = read_series_csv(parameters.spectra)
    levels = series.concentrations
    run = NestedRuns.of(len(levels), parameters.metric.members, parameters.inner, here).outer
    charted = np.stack([series.chart.position(levels)] * len(run.folds))
    objective = EndToEnd(series, charted, parameters.metric)
    batch = batches_of(run, objective.footprint(here))[0]
    typer.echo(f"{len(batch.models)} models, {here.name}, torch {torch.__version__}")
    if here.kind == "cpu":
        torch.set_num_threads(1)  # as every batch has one
    with fast_products(here.place):
        for name, step in programs(objective, batch, run):
            found: Quartiles = time_calls(step, repeats, here.synchronise)
            low, middle, high = (1e3 * part for part in (found.q25, found.median, found.q75))
            typer.echo(f"{name}: {middle:.3g} ms ({low:.3g} to {high:.3g})")
        if here.kind == "cpu":
            pairs = len(run.folds[0].training_pairs)
            show_operations(pairs * len(series.axis), here, repeats)


if __name__ == "__main__":
    typer.run(main)
