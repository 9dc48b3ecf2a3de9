"""One training loop for independent models trained side by side.

Losses, gradients, clipping and the state of Adam are per model; the models share nothing but the
clock. Which models are side by side is chosen for speed and memory and changes no result beyond
rounding.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from geonode.errors import TrainingError
from geonode.progress import Report, silent

FINITE_CHECK_EPOCHS = 50


def train(
    groups: Sequence[tuple[list[Shaped[Tensor, "model ..."]], float]],
    loss: Callable[[], Float[Tensor, "term model"]],
    *,
    epochs: int,
    gradient_clip: float,
    name: Callable[[int], str] = "model {}".format,
    report: Report = silent,
) -> Float[Tensor, "epoch term model"]:
    """Minimise the sum of the loss terms of every model with Adam under a cosine schedule.

    Args:
        groups: tensors, each with the leading model dimension, and their first learning rate.
        loss: the terms for the present parameters; a model's terms depend on its own alone.
        epochs: steps; the learning rate falls to zero over them as a half cosine.
        gradient_clip: largest Euclidean norm of the gradient of one model.
        name: of a model, by its place along the model dimension, for the message of an error.
        report: told of every step of every model.

    Returns:
        The terms before every step, on the CPU.

    Raises:
        TrainingError: a loss is not finite; the message names epoch and model.
    """
    tensors = [tensor for group, _ in groups for tensor in group]
    optimiser = torch.optim.Adam(
        [{"params": group, "lr": rate} for group, rate in groups],
        fused=tensors[0].device.type != "mps",
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    history: list[Tensor] = []
    for epoch in range(epochs):
        optimiser.zero_grad()
        terms = loss()
        terms.sum().backward()
        _clip(tensors, gradient_clip)
        optimiser.step()
        schedule.step()
        history.append(terms.detach())
        if (epoch + 1) % FINITE_CHECK_EPOCHS == 0 or epoch + 1 == epochs:
            _require_finite(history, name)
        report(terms.shape[1])
    return torch.stack(history).cpu()


def _clip(tensors: list[Tensor], largest: float) -> None:
    """Scale the gradient of each model whose norm exceeds the largest; the others keep theirs."""
    gradients = [tensor.grad for tensor in tensors if tensor.grad is not None]
    squares = torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients])
    scale = (largest / squares.sum(0).sqrt().clamp_min(1e-30)).clamp_max(1.0)
    for gradient in gradients:
        gradient.mul_(scale.reshape(-1, *[1] * (gradient.dim() - 1)))


def _require_finite(history: list[Tensor], name: Callable[[int], str]) -> None:
    recent = torch.stack(history[-FINITE_CHECK_EPOCHS:])
    if not torch.isfinite(recent).all():
        epoch, _, model = torch.nonzero(~torch.isfinite(recent))[0].tolist()
        raise TrainingError(
            f"the loss of {name(model)} is not finite at epoch "
            f"{len(history) - len(recent) + epoch}; lower the learning rate"
        )


def history_csv(
    history: Float[Tensor, "epoch term model"], terms: Sequence[str], folds: int
) -> str:
    """Loss terms by epoch and fold, mean over members, as a table for `dvc plots`."""
    by_fold = history.unflatten(-1, (-1, folds)).mean(2).tolist()
    lines = [",".join(("epoch", "fold", *terms))]
    for epoch, values in enumerate(by_fold):
        for fold in range(folds):
            numbers = ",".join(f"{term[fold]:.6g}" for term in values)
            lines.append(f"{epoch},{fold},{numbers}")
    return "\n".join(lines) + "\n"
