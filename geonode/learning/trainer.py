"""Training loop of independent models side by side.

Losses, gradients, clipping and the state of Adam are per model; the models share only the number
of the step. Batches are chosen for speed and memory and change no result beyond rounding.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.compute.profile import profile_of
from geonode.config import DecodersParameters, MetricParameters, TrainingParameters
from geonode.errors import TrainingError
from geonode.geometry.perceptron import Perceptron
from geonode.learning.adam import BatchedAdam, learning_rates
from geonode.learning.checkpoint import Checkpoints
from geonode.progress import Progress, silent
from geonode.storage.table import Column, Table
from geonode.usage import memory_in_use

FINITE_CHECK_EPOCHS = 50
WARM_UP = 3  # steps before one is captured
HISTORY = "history"  # of the losses, in a checkpoint
LOGGED_EPOCHS = 5  # epochs from one row of the history of a model to the next
SECONDS_BETWEEN = 5.0  # from one line of the log of a training to the next

_LOG = logging.getLogger(__name__)


def train(
    groups: Sequence[tuple[Perceptron, float]],
    loss: Callable[[], Float[Tensor, "term model"]],
    parameters: TrainingParameters,
    *,
    name: Callable[[int], str] = "model {}".format,
    report: Progress = silent,
    checkpoint: Checkpoints | None = None,
    rows: int = 0,
) -> Float[Tensor, "epoch term model"]:
    """Minimise the loss terms of every model with Adam.

    Args:
        groups: networks, which are trained in place, each with its first learning rate.
        loss: loss terms over all training pairs; the terms of a model depend on its own parameters
            alone. It runs the same kernels in every epoch, which is one step: on CUDA all of an
            epoch are captured once and launched together.
        parameters: parameters of the training.
        name: name of a model in error messages, by its place along the model dimension.
        report: called after every step with the number of models.
        checkpoint: written every `checkpoint_every` epochs and after the last; training resumes
            from it and ends in the same bits.
        rows: samples of an epoch, for the log.

    Returns:
        The terms before every step, on the CPU.

    Raises:
        TrainingError: a loss or a parameter is not finite, and the message names epoch and model;
            or the checkpoint is of another training.
        CorruptArtifactError: the checkpoint is damaged.
    """
    training = _Training(groups, loss, parameters, name)
    state = checkpoint and checkpoint.read()
    if checkpoint and state:
        training.restore(state)
        training.history = list(state[HISTORY].to(training.device))
        _LOG.info("%s: training goes on after epoch %d", checkpoint.path, len(training.history))
    training.run(report, checkpoint, rows)
    return torch.stack(training.history).cpu()


class _Training:
    """Models under training, with the state of their optimiser."""

    def __init__(
        self,
        groups: Sequence[tuple[Perceptron, float]],
        loss: Callable[[], Tensor],
        parameters: TrainingParameters,
        name: Callable[[int], str],
    ) -> None:
        self.tensors = [tensor for network, _ in groups for tensor in network.parameters]
        self.device, self.models = self.tensors[0].device, len(self.tensors[0])
        self.adam = BatchedAdam([network.parameters for network, _ in groups])
        self._rates = [learning_rates(rate, parameters.epochs) for _, rate in groups]
        self._loss, self._parameters, self._name = loss, parameters, name
        self.history: list[Tensor] = []

    @property
    def state(self) -> dict[str, Tensor]:
        """Tensors that a step changes in place, by their names in a checkpoint."""
        kinds = {"parameter": self.tensors, "first": self.adam.first, "second": self.adam.second}
        return {f"{kind}{k}": part for kind, parts in kinds.items() for k, part in enumerate(parts)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Copy values into the tensors of `state`."""
        with torch.no_grad():
            for name, tensor in self.state.items():
                tensor.copy_(state[name])

    def run(self, report: Progress, checkpoint: Checkpoints | None, rows: int) -> None:
        """Train all epochs that are left; arguments are those of `train`."""
        done, last = len(self.history), self._parameters.epochs
        every = self._parameters.checkpoint_every
        logged, logged_at = done, time.monotonic()
        if done:
            report(done * self.models)
        captured = profile_of(self.device).captured and done < last
        take = _capture(self) if captured else self.step
        for epoch in range(done, last):
            self.adam.prepare(epoch, [rates[epoch] for rates in self._rates])
            if not captured:  # a captured step overwrites them
                self.adam.forget()
            self.history.append(take())
            done = epoch + 1
            keeps = every > 0 and (done % every == 0 or done == last)
            if keeps or done % FINITE_CHECK_EPOCHS == 0 or done == last:
                self.require_finite()
            if checkpoint is not None and keeps:
                checkpoint.save(self.state | {HISTORY: torch.stack(self.history)})
            seconds = time.monotonic() - logged_at
            if seconds > SECONDS_BETWEEN and _LOG.isEnabledFor(logging.INFO):
                self._log(rows * (done - logged) / seconds)
                logged, logged_at = done, time.monotonic()
            report(self.models)

    def step(self) -> Tensor:
        """Take one step of every model; return the terms before it."""
        terms = self._loss()
        terms.sum().backward()
        _clip(self.tensors, self._parameters.gradient_clip)
        self.adam.step()
        return terms.detach()

    def _log(self, rate: float) -> None:
        """Log epoch, loss, samples a second and memory."""
        _LOG.info(
            "%s and %d more: epoch %d, loss %.4g, %s samples a second; %s",
            *(self._name(0), self.models - 1, len(self.history)),
            *(float(self.history[-1].sum(0).mean()), f"{rate:,.0f}", memory_in_use()),
        )

    def require_finite(self) -> None:
        """Refuse losses and parameters that are not finite.

        Raises:
            TrainingError: naming the model and the epoch.
        """
        done = len(self.history)
        recent = torch.stack(self.history[-FINITE_CHECK_EPOCHS:])
        if not torch.isfinite(recent).all():
            epoch, _, model = torch.nonzero(~torch.isfinite(recent))[0].tolist()
            raise TrainingError(
                f"the loss of {self._name(model)} is not finite at epoch "
                f"{done - len(recent) + epoch}; lower the learning rate"
            )
        finite = torch.stack([torch.isfinite(t).flatten(1).all(1) for t in self.tensors]).all(0)
        if not finite.all():
            raise TrainingError(
                f"a parameter of {self._name(int(torch.nonzero(~finite)[0]))} is not finite after "
                f"epoch {done - 1}; lower the learning rate"
            )


def _capture(training: _Training) -> Callable[[], Tensor]:
    """Training step as one CUDA graph."""
    # A few steps come first, so that nothing is initialised meanwhile; their changes are undone.
    before = {name: tensor.detach().clone() for name, tensor in training.state.items()}
    stream = _side_stream(training.device)
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
        history: return value of `train` for the models in the order (member, fold). Every
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
