"""Seconds that a user waits for commands, in the folder of the pipeline.

`python -m benchmarks.felt` prints medians of five turns with quartiles.
"""

import subprocess
import tempfile
import time
from typing import Annotated

import typer

from benchmarks.performance.timing import Quartiles

SIX, ESTIMATE = "data/examples/acetophenone.csv", "geonode -q estimate --calibration"
COMMANDS = {
    "dvc repro -f validate": "dvc repro -f validate",
    "a second dvc repro validate": "dvc repro validate",
    "geonode calibrate, six levels": f"geonode -q calibrate {SIX} --overwrite --out PAGE",
    "geonode estimate --calibration": f"{ESTIMATE} PAGE/calibration.safetensors {SIX}",
    "geonode --help": "geonode --help",
}


def main(turns: Annotated[int, typer.Option(min=1, help="Runs of every command.")] = 5) -> None:
    """Run every command some times; those that follow use what the first ones have written."""
    with tempfile.TemporaryDirectory() as folder:
        for name, command in COMMANDS.items():
            given = command.replace("PAGE", folder + "/page").split()
            subprocess.run(given, capture_output=True, check=False)  # compiles, fills caches
            found = Quartiles.of([_seconds(given) for _ in range(turns)])
            typer.echo(f"{name}: {found.median:.2f} s ({found.q25:.2f} to {found.q75:.2f})")


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    if subprocess.run(command, capture_output=True, check=False).returncode > 1:  # 1: a misfit
        raise typer.BadParameter(f"{' '.join(command)} failed")
    return time.perf_counter() - start


if __name__ == "__main__":
    typer.run(main)
