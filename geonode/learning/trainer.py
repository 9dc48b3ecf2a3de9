"""One training loop for independent models trained side by side.

Losses, gradients, clipping and the state of Adam are per model; the models share nothing but the
clock. Which models are side by side is chosen for speed and memory and changes no result beyond
rounding.
"""

import itertools
import logging
from collections.abc import Callable, Sequence
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.config import DecodersParameters, MetricParameters, TrainingParameters
from geonode.devices.profile import profile_of
from geonode.errors import TrainingError
from geonode.geometry.perceptron import Perceptron
from geonode.geometry.trainable import TrainablePerceptron
from geonode.learning.adam import Adam
from geonode.learning.checkpoint import Checkpoints
from geonode.learning.loss_scale import SMALLEST, LossScale
from geonode.learning.schedules import learning_rates
from geonode.progress import Report, silent

FINITE_CHECK_EPOCHS = 50
WARM_UP = 3  # steps before one is captured
LOGGED_EPOCHS = 5  # from one line in the log of a model to the next

_LOG = logging.getLogger(__name__)


def train(
    groups: Sequence[tuple[Perceptron, float]],
    loss: Callable[[slice, int], Float[Tensor, "term model"]],
    pairs: int,
    parameters: TrainingParameters,
    *,
    name: Callable[[int], str] = "model {}".format,
    report: Report = silent,
    checkpoints: Checkpoints | None = None,
    repeats: bool = False,
    parts: int = 1,
) -> Float[Tensor, "epoch term model"]:
    """Minimise the sum of the loss terms of every model, and of its decay, with Adam.

    The decay of a model is `weight_decay` times the sum of the squares of its weights. It is part
    of the loss (L2), so that its gradient passes through the clipping and the moments of Adam.
    Biases have none: they set where a unit responds, not how sharply.

    Args:
        groups: networks, which are trained in place, and the rate before the schedule.
        loss: the terms for the present parameters, as means over some of the training pairs, in a
            certain epoch; a model's terms depend on its own parameters alone.
        pairs: number of training pairs of a model. An epoch is one step, whose gradient is the
            mean over all pairs; with `accumulation` it is summed over that many parts of them, each
            weighted by its share, so that only the activations of one part are held.
        parameters: of the training.
        name: of a model, by its place along the model dimension, for the message of an error.
        report: told of every step of every model.
        checkpoints: where the state is kept every `checkpoint_every` epochs and after the last;
            training goes on from the newest one and ends in the same bits.
        repeats: whether the loss is the same program in every epoch. On CUDA all kernels of an
            epoch are then captured once and launched together.
        parts: of the training pairs at least, whatever `accumulation` says.

    Returns:
        The terms before every step, without the decay, on the CPU.

    Raises:
        TrainingError: a loss or a parameter is not finite, and the message names epoch and model;
            there are fewer pairs than parts; or the checkpoint is of another training.
        CorruptArtifactError: the checkpoint is damaged.
    """
    networks = [network for network, _ in groups]
    tensors = [tensor for network in networks for tensor in network.parameters]
    device, models = tensors[0].device, len(tensors[0])
    captured = repeats and profile_of(device).captured
    adam = Adam([network.parameters for network in networks])
    every = parameters.checkpoint_every
    rates = [learning_rates(parameters.schedule, rate, parameters.epochs) for _, rate in groups]
    shares = _parts(pairs, max(parts, parameters.accumulation))
    last = parameters.epochs
    scale = LossScale(models, device) if _in_half(networks) else None
    history = [] if checkpoints is None else _resume(checkpoints, adam, tensors, scale)
    if history:
        report(len(history) * models)

    def step(epoch: int) -> Tensor:
        terms = _differentiate(loss, shares, epoch, scale)
        going = None
        if scale is not None:
            going = scale.unscale([tensor.grad for tensor in tensors if tensor.grad is not None])
        if parameters.weight_decay:
            (parameters.weight_decay * _squares(networks)).backward()
        _clip(tensors, parameters.gradient_clip)
        adam.step(going)
        return terms

    changing = [*tensors, *adam.moments, *([] if scale is None else scale.state)]
    take = _capture(step, changing, adam) if captured and len(history) < last else step
    for epoch in range(len(history), last):
        adam.prepare(epoch, [rate[epoch] for rate in rates])
        if not captured:
            adam.forget()
        history.append(take(epoch))
        done = epoch + 1
        keeps = every > 0 and (done % every == 0 or done == last)
        if keeps or done % FINITE_CHECK_EPOCHS == 0 or done == last:
            _require_finite(history, tensors, scale, name)
        if checkpoints is not None and keeps:
            checkpoints.save(done, _state(adam, tensors, history, scale))
        report(models)
    return torch.stack(history).cpu()


def _in_half(networks: list[Perceptron]) -> bool:
    """Whether layers are multiplied in float16, whose range gradients may leave."""
    return any(isinstance(n, TrainablePerceptron) and n.products == torch.half for n in networks)


def _capture(
    step: Callable[[int], Tensor], changing: list[Tensor], adam: Adam
) -> Callable[[int], Tensor]:
    """The same step as one CUDA graph.

    It is taken a few times first, so that nothing is set up while it is captured; what that changes
    is put back.
    """
    before = [tensor.detach().clone() for tensor in changing]
    stream = _side_stream(before[0].device)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            adam.forget()
            step(0)
    torch.cuda.current_stream().wait_stream(stream)
    with torch.no_grad():
        for tensor, old in zip(changing, before, strict=True):
            tensor.copy_(old)
    adam.forget()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        terms = step(0)

    def replay(_epoch: int) -> Tensor:
        graph.replay()
        return terms.clone()

    return replay


@cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """The one that all steps are captured on: libraries keep memory for every stream they used."""
    return torch.cuda.Stream(device)


def _parts(pairs: int, count: int) -> list[slice]:
    """Consecutive training pairs, in parts whose sizes differ by one at most."""
    if count > pairs:
        raise TrainingError(
            f"accumulation: found {count}, expected at most {pairs}, which is the number of "
            "training pairs of a model"
        )
    ends = [part * pairs // count for part in range(count + 1)]
    return [slice(*between) for between in itertools.pairwise(ends)]


def _differentiate(
    loss: Callable[[slice, int], Tensor], parts: list[slice], epoch: int, scale: LossScale | None
) -> Tensor:
    """Add the gradient of the mean over all pairs to that of the parameters; return the terms."""
    pairs = parts[-1].stop
    done = []
    for part in parts:
        terms = loss(part, epoch) * ((part.stop - part.start) / pairs)
        scaled = terms if scale is None else terms * scale.factors
        scaled.sum().backward()
        done.append(terms.detach())
    return sum(done[1:], done[0])


def _squares(networks: list[Perceptron]) -> Tensor:
    """Sum of the squares of all weights. A weight's gradient is that of its own square alone."""
    return torch.stack([weight.square().sum() for n in networks for weight in n.decayed]).sum()


def _state(
    adam: Adam,
    tensors: list[Tensor],
    history: list[Tensor],
    scale: LossScale | None,
) -> dict[str, Tensor]:
    """All that the steps to come depend on, and what is returned of those that are done."""
    state = {"history": torch.stack(history)}
    if scale is not None:
        state["scale"] = torch.stack(scale.state)
    for place, tensor in enumerate(tensors):
        state[f"parameter{place}"] = tensor
        state[f"first{place}"], state[f"second{place}"] = adam.first[place], adam.second[place]
    return state


def _resume(
    checkpoints: Checkpoints,
    adam: Adam,
    tensors: list[Tensor],
    scale: LossScale | None,
) -> list[Tensor]:
    """Take up the newest checkpoint, if there is one; return the history up to it."""
    state = checkpoints.latest()
    if state is None:
        return []
    history = state["history"].to(tensors[0].device)
    _LOG.info("%s: training goes on after epoch %d", checkpoints.folder, len(history))
    if scale is not None:
        for part, kept in zip(scale.state, state["scale"], strict=True):
            part.copy_(kept)
    with torch.no_grad():
        for place, tensor in enumerate(tensors):
            tensor.copy_(state[f"parameter{place}"])
            adam.first[place].copy_(state[f"first{place}"])
            adam.second[place].copy_(state[f"second{place}"])
    return list(history)


def _clip(tensors: list[Tensor], largest: float) -> None:
    """Scale the gradient of each model whose norm exceeds the largest; the others keep theirs."""
    gradients = [tensor.grad for tensor in tensors if tensor.grad is not None]
    squares = torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients])
    scale = (largest / squares.sum(0).sqrt().clamp_min(1e-30)).clamp_max(1.0)
    for gradient in gradients:
        gradient.mul_(scale.reshape(-1, *[1] * (gradient.dim() - 1)))


def _require_finite(
    history: list[Tensor],
    tensors: list[Tensor],
    scale: LossScale | None,
    name: Callable[[int], str],
) -> None:
    """Refuse losses, or parameters after the last of them, that are not finite.

    Gradients that leave float16 whatever the loss is multiplied with are refused as well.
    """
    recent = torch.stack(history[-FINITE_CHECK_EPOCHS:])
    if not torch.isfinite(recent).all():
        epoch, _, model = torch.nonzero(~torch.isfinite(recent))[0].tolist()
        raise TrainingError(
            f"the loss of {name(model)} is not finite at epoch "
            f"{len(history) - len(recent) + epoch}; lower the learning rate"
        )
    finite = torch.stack([torch.isfinite(tensor).flatten(1).all(1) for tensor in tensors]).all(0)
    if not finite.all():
        model = int(torch.nonzero(~finite)[0])
        raise TrainingError(
            f"a parameter of {name(model)} is not finite after epoch {len(history) - 1}; "
            "lower the learning rate"
        )
    if scale is not None and (lost := scale.exhausted()).any():
        raise TrainingError(
            f"the gradient of {name(int(lost.nonzero()[0]))} overflows float16 up to epoch "
            f"{len(history) - 1}, although its loss was scaled down to {SMALLEST:g} of itself; set "
            "precision.training to bfloat16 or float32"
        )


def history_csv(
    history: Float[Tensor, "epoch term model"],
    terms: Sequence[str],
    folds: int,
    parameters: MetricParameters | DecodersParameters,
) -> str:
    """Loss terms and learning rate of every model, as a table for `dvc plots`.

    Args:
        history: what `train` returned for the models in the order (member, fold). Every
            `LOGGED_EPOCHS`th epoch is written, and the last one.
        terms: their names.
        folds: number of folds.
        parameters: of the training. The rate is that of the metric, or of the decoder if decoders
            are trained alone; all models have the same.
    """
    rates = learning_rates(parameters.schedule, parameters.learning_rate, parameters.epochs)
    lines = [",".join(("epoch", "fold", "member", *terms, "learning_rate"))]
    for model, of_model in enumerate(history.movedim(2, 0)):
        for epoch, values in enumerate(of_model.tolist()):
            if epoch % LOGGED_EPOCHS == 0 or epoch == len(of_model) - 1:
                numbers = ",".join(f"{number:.6g}" for number in (*values, rates[epoch]))
                lines.append(f"{epoch},{model % folds},{model // folds},{numbers}")
    return "\n".join(lines) + "\n"


def last_losses(history: Float[Tensor, "epoch term model"]) -> Float[Tensor, "model"]:
    """The loss of every model before its last step."""
    return history[-1].sum(0)
