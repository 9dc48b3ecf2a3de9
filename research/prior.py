"""Learn the prior of the package again, from simulated series alone. It takes hours on a CPU."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
import typer

from geonode.compute.device import resolve
from geonode.config import PrecisionParameters
from geonode.machine import usable_cores
from geonode.posterior.prior import packaged_prior
from geonode.progress import bar
from geonode.terminal import OneLineCommand
from research.rule_learning import LearningParameters, learn_rule
from research.simulated_sets import LEVELS, calibrated

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(cls=OneLineCommand)
def main(
    out: Annotated[Path, typer.Option(help="File to write.")] = Path(
        "geonode/posterior/prior.safetensors"
    ),
    device: Annotated[
        Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Device to learn on.")
    ] = "auto",
    steps: Annotated[int, typer.Option(min=1, help="Steps of Adam.")] = 3500,
    networks: Annotated[int, typer.Option(min=1, help="Number of networks to average.")] = 3,
    width: Annotated[int, typer.Option(min=1, help="Units of their layers.")] = 32,
    seed: Annotated[int, typer.Option(min=0, help="Seed of series and networks.")] = 0,
    levels: Annotated[
        int,
        typer.Option(min=20, help="Left-out levels to calibrate on, of every number of levels."),
    ] = 2400,
    learn: Annotated[
        bool,
        typer.Option(
            "--learn/--only-calibrate",
            help="Learn the rule of weights again, or calibrate the packaged one.",
        ),
    ] = True,
) -> None:
    """Learn the weights of smoothers on simulated series, and calibrate intervals and sets.

    The new file is part of the package: check it with `make ablation` before keeping it.
    """
    where = resolve(device, PrecisionParameters(training="float32", geometry="auto"))
    parameters = LearningParameters(seed, networks, width, steps)
    prior = packaged_prior()
    if learn:
        with bar("learning weights", steps) as report:
            rule, history = learn_rule(parameters, where.place, report)
        recent = float(np.mean(history[-100:]))
        typer.echo(f"error of the last series: {np.exp(recent):.3f} of that before learning")
        provenance = {
            "command": "make prior",
            "learned_on": "simulated series alone",
            **{name: str(value) for name, value in asdict(parameters).items()},
            "device": str(where.describe()["name"]),
        }
        prior = replace(prior, rule=rule.to(torch.device("cpu")), provenance=provenance)
    with bar("calibrating", len(LEVELS) * levels) as report:
        found = calibrated(prior, levels, seed + 1000, report, usable_cores())
    provenance = prior.provenance | {"calibration_levels": str(levels)}
    replace(found, provenance=provenance).write(out)


if __name__ == "__main__":
    app()
