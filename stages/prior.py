"""Learn the prior of the package again, from simulated series alone. It takes hours on a CPU."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from geonode.errors import GeonodeError

if TYPE_CHECKING:
    from geonode.devices.device import Device
    from geonode.prior.learning import LearningParameters

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
    networks: Annotated[int, typer.Option(min=1, help="Number of networks to average.")] = 3,
    width: Annotated[int, typer.Option(min=1, help="Width of their layers.")] = 32,
    seed: Annotated[int, typer.Option(min=0, help="Seed of series and networks.")] = 0,
    levels: Annotated[
        int,
        typer.Option(min=20, help="Left-out levels to calibrate on, of every number of levels."),
    ] = 640,
) -> None:
    """Learn the weights of smoothers on simulated series, and calibrate intervals.

    The new file is part of the package: check it with `make ablation` before keeping it.
    """
    import numpy as np

    from geonode.config import PrecisionParameters
    from geonode.devices.device import resolve
    from geonode.prior.learning import LearningParameters

    try:
        where = resolve(device, PrecisionParameters(training="float32", geometry="auto"))
        parameters = LearningParameters(seed, networks, width, steps)
        history = _write_prior(out, parameters, where, levels)
    except GeonodeError as error:
        typer.secho(f"error: {error}", err=True, fg=typer.colors.RED)
        raise typer.Exit(2) from error
    recent = float(np.mean(history[-100:]))
    typer.echo(f"error of the last series: {np.exp(recent):.3f} of that before learning -> {out}")


def _write_prior(
    out: Path, parameters: "LearningParameters", device: "Device", levels: int
) -> list[float]:
    """Learn, calibrate and write the prior; return the losses of the learning."""
    from dataclasses import asdict

    import numpy as np
    import torch

    from geonode.posterior.prior import PROBABILITIES, Prior
    from geonode.prior.calibration import LEVELS, calibrated
    from geonode.prior.learning import learn_rule
    from geonode.progress import bar

    with bar("learning weights", parameters.steps) as report:
        rule, history = learn_rule(parameters, device.place, report)
    provenance = {
        "command": "make prior",
        "learned_on": "simulated series alone",
        **{name: str(value) for name, value in asdict(parameters).items()},
        "device": str(device.describe()["name"]),
        "calibration_levels": str(levels),
    }
    counts = np.array([float(number - 1) for number in LEVELS])
    widths = np.ones((len(counts), 2, len(PROBABILITIES)))
    plain = Prior(rule.to(torch.device("cpu")), counts, widths, provenance)
    with bar("calibrating", len(LEVELS) * levels) as report:
        calibrated(plain, levels, parameters.seed + 1000, report).write(out)
    return history


if __name__ == "__main__":
    app()
