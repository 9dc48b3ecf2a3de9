"""Training loop of independent models side by side.

Losses, gradients, clipping and the state of Adam are per model; the models share only the number
of the step. Batches are chosen for speed and memory and change no result beyond rounding.

`torch.optim.Adam` gives the same steps, and takes longer: on one core an epoch of the seven metrics
of six levels took 7.6 ms (fused) in place of 7.1, one of their decoders 2.4 in place of 2.2. Its
first use imports the compiler of torch besides, 0.85 s in every process that trains.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from geonode.compute.profile import profile_of
from geonode.config import DecodersParameters, MetricParameters, TrainingParameters
from geonode.errors import TrainingError
from geonode.geometry.perceptron import Perceptron
from geonode.learning.checkpoint import Checkpoints
from geonode.progress import Progress, silent
from geonode.storage.table import Column, Table
from geonode.usage import memory_in_use

FIRST_DECAY, SECOND_DECAY, TINY = 0.9, 0.999, 1e-8
FINITE_CHECK_EPOCHS = 50
WARM_UP = 3  # steps before one is captured
HISTORY = "history"  # of the losses, in a checkpoint
LOGGED_EPOCHS = 5  # epochs from one row of the history of a model to the next
SECONDS_BETWEEN = 5.0  # from one line of the log of a training to the next

_LOG = logging.getLogger(__name__)


class BatchedAdam:
    """Adam for parameters with a leading model dimension.

    Source: D. P. Kingma and J. Ba, Adam: a method for stochastic optimization, ICLR 2015,
    algorithm 1, with the decays and the smallest divisor that they propose.
    """

    def __init__(self, groups: Sequence[Sequence[Float[Tensor, "model ..."]]]) -> None:
        """Start with moments of zero; the parameters of a group share a learning rate."""
        self._groups = groups
        self._parameters = [part for group in groups for part in group]
        # means of the gradient and of its square
        self.first = [torch.zeros_like(part) for part in self._parameters]
        self.second = [torch.zeros_like(part) for part in self._parameters]
        self._lengths = [part.new_zeros(()) for part in self._parameters]
        self._scale = self._parameters[0].new_zeros(())

    def prepare(self, step: int, rates: Sequence[float]) -> None:
        """Set the length of the next step.

        Steps count from 0; every group has its rate.
        """
        of_parts = [rate for group, rate in zip(self._groups, rates, strict=True) for _ in group]
        for length, rate in zip(self._lengths, of_parts, strict=True):
            unbiased = rate / (1 - FIRST_DECAY ** (step + 1))
            # torch refuses to round numbers beyond the range of the format
            length.fill_(unbiased if unbiased <= torch.finfo(length.dtype).max else math.inf)
        self._scale.fill_((1 - SECOND_DECAY ** (step + 1)) ** -0.5)

    def forget(self) -> None:
        """Drop the gradients, to which the next ones would be added otherwise."""
        for part in self._parameters:
            part.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Update the parameters that have a gradient."""
        for part, first, second, length in zip(
            self._parameters, self.first, self.second, self._lengths, strict=True
        ):
            if part.grad is None:
                continue
            first.lerp_(part.grad, 1 - FIRST_DECAY)
            second.mul_(SECOND_DECAY).addcmul_(part.grad, part.grad, value=1 - SECOND_DECAY)
            part.sub_(length * first / (self._scale * second.sqrt()).add_(TINY))


def learning_rates(rate: float, epochs: int) -> list[float]:
    """Learning rate of every epoch: half a cosine wave that reaches zero one epoch after the last.

    Source: I. Loshchilov and F. Hutter, SGDR, ICLR 2017, equation 5, without restarts.
    """
    return [rate * (1 + math.cos(math.pi * epoch / epochs)) / 2 for epoch in range(epochs)]


@dataclass
class Training:
    """Models under training: their loss terms are minimised with Adam, those of each by itself."""

    groups: Sequence[tuple[Perceptron, float]]
    """Networks, which are trained in place, each with its first learning rate."""
    loss: Callable[[], Float[Tensor, "term model"]]
    """Loss terms over all training pairs; the terms of a model depend on its own parameters alone.
    It runs the same kernels in every epoch, which is one step: on CUDA all of an epoch are captured
    once and launched together."""
    parameters: TrainingParameters  # parameters of the training
    name: Callable[[int], str] = "model {}".format
    """Name of a model in error messages, by its place along the model dimension."""
    report: Progress = silent  # called after every step with the number of models
    checkpoint: Checkpoints | None = None
    """Written every `checkpoint_every` epochs and after the last; training resumes from it and ends
    in the same bits."""
    rows: int = 0  # samples of an epoch, for the log

    def __post_init__(self) -> None:
        self._tensors = [tensor for network, _ in self.groups for tensor in network.parameters]
        self.adam = BatchedAdam([network.parameters for network, _ in self.groups])
        self._history: list[Tensor] = []

    @property
    def state(self) -> dict[str, Float[Tensor, "model ..."]]:
        """Tensors that a step changes in place, by their names in a checkpoint."""
        kinds = {"parameter": self._tensors, "first": self.adam.first, "second": self.adam.second}
        return {f"{kind}{k}": part for kind, parts in kinds.items() for k, part in enumerate(parts)}

    def restore(self, state: Mapping[str, Shaped[Tensor, "..."]]) -> None:
        """Copy values into the tensors of `state`."""
        with torch.no_grad():
            for name, tensor in self.state.items():
                tensor.copy_(state[name])

    def run(self) -> Float[Tensor, "epoch term model"]:
        """Train all epochs that are left.

        Returns:
            The terms before every step, on the CPU.

        Raises:
            TrainingError: a loss or a parameter is not finite, and the message names epoch and
                model; or the checkpoint is of another training.
            CorruptArtifactError: the checkpoint is damaged.
        """
        history, device, models = self._history, self._tensors[0].device, len(self._tensors[0])
        if self.checkpoint is not None and (state := self.checkpoint.read()):
            self.restore(state)
            history += state[HISTORY].to(device)
            _LOG.info("%s: training goes on after epoch %d", self.checkpoint.path, len(history))
            self.report(len(history) * models)
        last, every = self.parameters.epochs, self.parameters.checkpoint_every
        rates = [learning_rates(rate, last) for _, rate in self.groups]
        logged, logged_at = len(history), time.monotonic()
        captured = profile_of(device).captured and logged < last
        take = _capture(self, device) if captured else self.step
        for epoch in range(logged, last):
            self.adam.prepare(epoch, [of_group[epoch] for of_group in rates])
            if not captured:  # a captured step overwrites them
                self.adam.forget()
            history.append(take())
            done = epoch + 1
            keeps = every > 0 and (done % every == 0 or done == last)
            if keeps or done % FINITE_CHECK_EPOCHS == 0 or done == last:
                self._require_finite()
            if self.checkpoint is not None and keeps:
                self.checkpoint.save(self.state | {HISTORY: torch.stack(history)})
            seconds = time.monotonic() - logged_at
            if seconds > SECONDS_BETWEEN and _LOG.isEnabledFor(logging.INFO):
                rate, loss = self.rows * (done - logged) / seconds, float(history[-1].sum(0).mean())
                _LOG.info(
                    "%s and %d more: epoch %d, loss %.4g, %s samples a second; %s",
                    *(self.name(0), models - 1, done, loss, f"{rate:,.0f}", memory_in_use()),
                )
                logged, logged_at = done, time.monotonic()
            self.report(models)
        return torch.stack(history).cpu()

    def step(self) -> Float[Tensor, "term model"]:
        """Take one step of every model; return the terms before it."""
        terms = self.loss()
        terms.sum().backward()
        _clip(self._tensors, self.parameters.gradient_clip)
        self.adam.step()
        return terms.detach()

    def _require_finite(self) -> None:
        """Refuse losses and parameters that are not finite; the message names model and epoch."""
        done = len(self._history)
        recent = torch.stack(self._history[-FINITE_CHECK_EPOCHS:])
        if not torch.isfinite(recent).all():
            epoch, _, model = torch.nonzero(~torch.isfinite(recent))[0].tolist()
            epoch += done - len(recent)
            wrong, when = f"the loss of {self.name(model)}", f"at epoch {epoch}"
        else:
            finite = torch.stack([torch.isfinite(t).flatten(1).all(1) for t in self._tensors])
            if finite.all():
                return
            model = int(torch.nonzero(~finite.all(0))[0])
            wrong, when = f"a parameter of {self.name(model)}", f"after epoch {done - 1}"
        raise TrainingError(f"{wrong} is not finite {when}; lower the learning rate")


def _capture(training: Training, device: torch.device) -> Callable[[], Tensor]:
    """Training step as one CUDA graph."""
    # A few steps come first, so that nothing is initialised meanwhile; their changes are undone.
    before = {name: tensor.detach().clone() for name, tensor in training.state.items()}
    stream = _side_stream(device)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            training.adam.forget()
            training.step()
    torch.cuda.current_stream().wait_stream(stream)
    training.restore(before)
    training.adam.forget()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        terms = training.step()

    def replay() -> Tensor:
        graph.replay()
        return terms.clone()

    return replay


@cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """CUDA stream of all captures: libraries keep memory for every stream they have used."""
    return torch.cuda.Stream(device)


def _clip(tensors: list[Tensor], largest: float) -> None:
    """Clip the gradient of every model to a largest norm."""
    gradients = [tensor.grad for tensor in tensors if tensor.grad is not None]
    squares = torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients])
    scale = (largest / squares.sum(0).sqrt().clamp_min(1e-30)).clamp_max(1.0)
    for gradient in gradients:
        gradient.mul_(scale.reshape(-1, *[1] * (gradient.dim() - 1)))


def history_csv(
    history: Float[Tensor, "epoch term model"],
    terms: Sequence[str],
    folds: int,
    parameters: MetricParameters | DecodersParameters,
) -> str:
    """Loss terms and learning rate of every model, as a table for `dvc plots`.

    Args:
        history: return value of `Training.run` for the models in the order (member, fold). Every
            `LOGGED_EPOCHS`th epoch is written, and the last one.
        terms: names of the terms.
        folds: number of folds.
        parameters: parameters of the training. The rate is that of the metric, or of the decoder
            if decoders are trained alone; all models have the same.
    """
    last, models = len(history) - 1, history.shape[2]
    kept = [epoch for epoch in range(last + 1) if epoch % LOGGED_EPOCHS == 0 or epoch == last]
    rates = learning_rates(parameters.learning_rate, parameters.epochs)
    of_terms = history[kept].movedim(2, 0).flatten(0, 1).T.tolist()
    numbers = dict(zip(terms, of_terms, strict=True))
    numbers["learning_rate"] = [rates[epoch] for epoch in kept] * models
    model = [one for one in range(models) for _ in kept]
    columns = [
        Column("epoch", kept * models),
        Column("fold", [one % folds for one in model]),
        Column("member", [one // folds for one in model]),
        *(Column(name, values, exponent=True) for name, values in numbers.items()),
    ]
    return Table("history", "Losses of every model", columns).csv()
