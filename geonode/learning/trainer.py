"""One training loop for independent models trained side by side.

Losses, gradients, clipping and the state of Adam are per model; the models share nothing but the
clock. Which models are side by side is chosen for speed and memory and changes no result beyond
rounding.
"""

import itertools
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.config import DecodersParameters, MetricParameters, TrainingParameters
from geonode.errors import TrainingError
from geonode.geometry.perceptron import Perceptron
from geonode.learning.checkpoint import Checkpoints
from geonode.learning.schedules import learning_rates
from geonode.progress import Report, silent

FINITE_CHECK_EPOCHS = 50
MOMENTS = ("exp_avg", "exp_avg_sq")  # of Adam, as torch names them


def train(
    groups: Sequence[tuple[Perceptron, float]],
    loss: Callable[[slice, int], Float[Tensor, "term model"]],
    pairs: int,
    parameters: TrainingParameters,
    *,
    name: Callable[[int], str] = "model {}".format,
    report: Report = silent,
    checkpoints: Checkpoints | None = None,
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

    Returns:
        The terms before every step, without the decay, on the CPU.

    Raises:
        TrainingError: a loss or a parameter is not finite, and the message names epoch and model;
            there are fewer pairs than parts; or the checkpoint is of another training.
        CorruptArtifactError: the checkpoint is damaged.
    """
    networks = [network for network, _ in groups]
    tensors = [tensor for network in networks for tensor in network.parameters]
    optimiser = torch.optim.Adam(
        [{"params": network.parameters, "lr": rate} for network, rate in groups],
        fused=tensors[0].device.type != "mps",
    )
    epochs, every = parameters.epochs, parameters.checkpoint_every
    rates = [learning_rates(parameters.schedule, rate, epochs) for _, rate in groups]
    parts = _parts(pairs, parameters.accumulation)
    history = [] if checkpoints is None else _resume(checkpoints, optimiser, tensors)
    if history:
        report(len(history) * len(tensors[0]))
    for epoch in range(len(history), epochs):
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate[epoch]
        optimiser.zero_grad()
        history.append(_differentiate(loss, parts, epoch))
        if parameters.weight_decay:
            (parameters.weight_decay * _squares(networks)).backward()
        _clip(tensors, parameters.gradient_clip)
        optimiser.step()
        done = epoch + 1
        keeps = every > 0 and (done % every == 0 or done == epochs)
        if keeps or done % FINITE_CHECK_EPOCHS == 0 or done == epochs:
            _require_finite(history, tensors, name)
        if checkpoints is not None and keeps:
            checkpoints.save(done, _state(optimiser, tensors, history))
        report(len(tensors[0]))
    return torch.stack(history).cpu()


def _parts(pairs: int, count: int) -> list[slice]:
    """Consecutive training pairs, in parts whose sizes differ by one at most."""
    if count > pairs:
        raise TrainingError(
            f"accumulation: found {count}, expected at most {pairs}, which is the number of "
            "training pairs of a model"
        )
    ends = [part * pairs // count for part in range(count + 1)]
    return [slice(*between) for between in itertools.pairwise(ends)]


def _differentiate(loss: Callable[[slice, int], Tensor], parts: list[slice], epoch: int) -> Tensor:
    """Add the gradient of the mean over all pairs to that of the parameters; return the terms."""
    pairs = parts[-1].stop
    done = []
    for part in parts:
        terms = loss(part, epoch) * ((part.stop - part.start) / pairs)
        terms.sum().backward()
        done.append(terms.detach())
    return sum(done[1:], done[0])


def _squares(networks: list[Perceptron]) -> Tensor:
    """Sum of the squares of all weights. A weight's gradient is that of its own square alone."""
    return torch.stack([weight.square().sum() for n in networks for weight in n.weights]).sum()


def _state(
    optimiser: torch.optim.Adam, tensors: list[Tensor], history: list[Tensor]
) -> dict[str, Tensor]:
    """All that the steps to come depend on, and what is returned of those that are done."""
    state = {"history": torch.stack(history)}
    for place, tensor in enumerate(tensors):
        state[f"parameter{place}"] = tensor
        for moment in MOMENTS:
            state[f"{moment}{place}"] = optimiser.state[tensor][moment]
    return state


def _resume(
    checkpoints: Checkpoints, optimiser: torch.optim.Adam, tensors: list[Tensor]
) -> list[Tensor]:
    """Take up the newest checkpoint, if there is one; return the history up to it."""
    state = checkpoints.latest()
    if state is None:
        return []
    history = state["history"].to(tensors[0].device)
    moments = {}
    for place, tensor in enumerate(tensors):
        with torch.no_grad():
            tensor.copy_(state[f"parameter{place}"])
        moments[place] = {moment: state[f"{moment}{place}"] for moment in MOMENTS}
        moments[place]["step"] = torch.tensor(float(len(history)))
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": moments, "param_groups": groups})
    return list(history)


def _clip(tensors: list[Tensor], largest: float) -> None:
    """Scale the gradient of each model whose norm exceeds the largest; the others keep theirs."""
    gradients = [tensor.grad for tensor in tensors if tensor.grad is not None]
    squares = torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients])
    scale = (largest / squares.sum(0).sqrt().clamp_min(1e-30)).clamp_max(1.0)
    for gradient in gradients:
        gradient.mul_(scale.reshape(-1, *[1] * (gradient.dim() - 1)))


def _require_finite(
    history: list[Tensor], tensors: list[Tensor], name: Callable[[int], str]
) -> None:
    """Refuse losses, or parameters after the last of them, that are not finite."""
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


def history_csv(
    history: Float[Tensor, "epoch term model"],
    terms: Sequence[str],
    folds: int,
    parameters: MetricParameters | DecodersParameters,
) -> str:
    """Loss terms and learning rate by epoch and fold, as a table for `dvc plots`.

    Args:
        history: what `train` returned for the models in the order (member, fold).
        terms: their names.
        folds: number of folds; the mean over members is written.
        parameters: of the training. The rate is that of the metric, or of the decoder if decoders
            are trained alone; all models have the same.
    """
    by_fold = history.unflatten(-1, (-1, folds)).mean(2).tolist()
    rates = learning_rates(parameters.schedule, parameters.learning_rate, parameters.epochs)
    lines = [",".join(("epoch", "fold", *terms, "learning_rate"))]
    for epoch, values in enumerate(by_fold):
        for fold in range(folds):
            numbers = ",".join(f"{n:.6g}" for n in (*(term[fold] for term in values), rates[epoch]))
            lines.append(f"{epoch},{fold},{numbers}")
    return "\n".join(lines) + "\n"
