"""Learn the prior of the package again, from simulated series alone. It takes hours on a CPU."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from geonode.errors import GeonodeError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    out: Annotated[Path, typer.Option(help="File to write.")] = Path(
        "geonode/posterior/prior.safetensors"
    ),
    device: Annotated[
        Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where to learn.")
    ] = "auto",
    steps: Annotated[int, typer.Option(min=1, help="Steps of Adam.")] = 3500,
    networks: Annotated[int, typer.Option(min=1, help="Networks that are averaged.")] = 3,
    width: Annotated[int, typer.Option(min=1, help="Width of their layers.")] = 32,
    seed: Annotated[int, typer.Option(min=0, help="Seed of series and networks.")] = 0,
    levels: Annotated[
        int,
        typer.Option(min=20, help="Left-out levels to calibrate on, of every number of levels."),
    ] = 640,
) -> None:
    """Learn the weights of smoothers on simulated series, and calibrate intervals.

    The new file is part of the package: look at `make ablation` before it is kept.
    """
    from dataclasses import asdict

    import numpy as np
    import torch

    from geonode.config import PrecisionParameters
    from geonode.devices.device import resolve
    from geonode.posterior.prior import PROBABILITIES, Prior
    from geonode.prior.calibration import LEVELS, calibrated
    from geonode.prior.learning import LearningParameters, learn_rule
    from geonode.progress import bar

    try:
        where = resolve(device, PrecisionParameters(training="float32", geometry="auto"))
        parameters = LearningParameters(seed, networks, width, steps)
        with bar("learning weights", steps) as report:
            rule, history = learn_rule(parameters, where.place, report)
        provenance = {
            "command": "make prior",
            "learned_on": "simulated series alone",
            **{name: str(value) for name, value in asdict(parameters).items()},
            "device": str(where.describe()["name"]),
            "calibration_levels": str(levels),
        }
        counts = np.array([float(number - 1) for number in LEVELS])
        widths = np.ones((len(counts), 2, len(PROBABILITIES)))
        plain = Prior(rule.to(torch.device("cpu")), counts, widths, provenance)
        with bar("calibrating", len(LEVELS) * levels) as report:
            calibrated(plain, levels, seed + 1000, report).write(out)
    except GeonodeError as error:
        typer.secho(f"error: {error}", err=True, fg=typer.colors.RED)
        raise typer.Exit(2) from error
    recent = float(np.mean(history[-100:]))
    typer.echo(f"error of the last series: {np.exp(recent):.3f} of that before learning -> {out}")


if __name__ == "__main__":
    app()
