"""Seconds that a user waits for commands, in the folder of the pipeline.

`python -m research.felt` prints medians of five turns with quartiles, and what the seconds of every
stage are spent on.
"""

import subprocess
import tempfile
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import torch
import typer

from geonode.storage.record import Record
from research.draws import Draws
from research.simulated_series import simulate
from stages.paths import PIPELINE, RECORDS
from stages.performance.timing import Quartiles

SIX, ESTIMATE = "data/examples/acetophenone.csv", "geonode -q estimate --calibration"
COMMANDS = {
    "dvc repro -f validate": "dvc repro -f validate",
    "a second dvc repro validate": "dvc repro validate",
    "geonode calibrate, six levels": f"geonode -q calibrate {SIX} --overwrite --out PAGE",
    "geonode estimate --calibration": f"{ESTIMATE} PAGE/calibration.safetensors {SIX}",
    "geonode panel, 40 series": "geonode -q panel SERIES --preset fast --overwrite --out PAGE.csv",
    "geonode --help": "geonode --help",
}
SERIES, WAVELENGTHS, SEED = 40, 601, 70_000
"""Simulated series of a panel, of 4 to 15 levels."""


def main(turns: Annotated[int, typer.Option(min=1, help="Runs of every command.")] = 5) -> None:
    """Run every command some times; those that follow use what the first ones have written."""
    with tempfile.TemporaryDirectory() as folder:
        _simulated(Path(folder) / "series")
        for name, command in COMMANDS.items():
            placed = command.replace("PAGE", f"{folder}/page").replace("SERIES", f"{folder}/series")
            given = placed.split()
            _seconds(given)  # compiles, fills caches
            found = Quartiles.of([_seconds(given) for _ in range(turns)])
            typer.echo(f"{name}: {found} s")
    for name in PIPELINE:
        one = Record.read(RECORDS / f"{name}.json")
        imports, start = one.imports or 0.0, one.device_start or 0.0
        parts = f"imports {imports:.2f}, start of the device {start:.2f}"
        typer.echo(f"{name}: {parts}, computation {one.seconds - imports - start:.2f} s")


def _simulated(folder: Path) -> None:
    """Write the series of a panel, each as a table of columns."""
    folder.mkdir()
    axis = np.linspace(200, 800, WAVELENGTHS)
    for number in range(SERIES):
        draws = Draws.of(SEED + number, torch.device("cpu"))
        levels, spectra = (
            part[0].numpy() for part in simulate(draws, 1, 4 + number % 12, len(axis))
        )
        table = pd.DataFrame(spectra.T, pd.Index(axis, name="wavelength_nm"), 60 * levels)
        table.to_csv(folder / f"{number}.csv")


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode not in (0, 1):  # 1: a misfit
        raise typer.BadParameter(f"{' '.join(command)} failed: {run.stderr.strip()}")
    return time.perf_counter() - start


if __name__ == "__main__":
    typer.run(main)
