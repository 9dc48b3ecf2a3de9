"""`geonode calibrate` of 50 levels x 700 by all cores against one, quiet and beside a busy process.

`python -m research.threads` fails where all cores are slower than one, or too slow beside others.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from stages.performance.timing import Quartiles

LEVELS, WAVELENGTHS, NOISE = 50, 700, 0.003
BUSY = "import numpy\na = numpy.ones((600, 600))\nwhile True: a = numpy.tanh(a @ a)"
MOST = {0: 1.0, 1: 1.2}
"""Largest ratio of the times, by the number of busy processes."""


def main(turns: Annotated[int, typer.Option(min=1, help="Calibrations by either.")] = 5) -> None:
    """Print seconds by all cores and by one, and their ratio; exit status 1 if it is too large."""
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "spectra.csv"
        table.write_text(spectra().to_csv(float_format="%.6g"), encoding="utf-8")
        for busy, most in MOST.items():
            one = os.environ | {"OMP_NUM_THREADS": "1"}
            others = [subprocess.Popen([sys.executable, "-c", BUSY], env=one) for _ in range(busy)]
            try:
                pairs = [(_seconds(table, None), _seconds(table, "1")) for _ in range(turns)]
            finally:
                for other in others:
                    other.kill()
            ratio = Quartiles.of([several / alone for several, alone in pairs])
            cores, alone = (Quartiles.of([*seconds]) for seconds in zip(*pairs, strict=True))
            typer.echo(
                f"{busy} busy processes: all cores {cores} s, one {alone} s, ratio "
                f"{ratio}, expected at most {most}"
            )
            failed |= ratio.median > most
    raise typer.Exit(failed)


def spectra() -> pd.DataFrame:
    """A band that moves and one that comes and goes, with noise: wavelengths by levels."""
    levels, axis = np.linspace(0, 60, LEVELS), 200 + np.arange(WAVELENGTHS)
    moving = np.exp(-(((axis[:, None] - 400 - levels) / 60) ** 2)) * (0.3 + levels / 60)
    other = 0.4 * np.exp(-(((axis[:, None] - 600) / 80) ** 2)) * np.sin(levels / 20)
    noise = NOISE * np.random.default_rng(0).normal(size=moving.shape)
    return pd.DataFrame(moving + other + noise, pd.Index(axis, name="wavelength_nm"), levels)


def _seconds(table: Path, threads: str | None) -> float:
    """Seconds of the command; None: as it is typed."""
    given = {} if threads is None else {"OMP_NUM_THREADS": threads}
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"} | given
    command = [sys.executable, "-m", "geonode.cli", "-q", "calibrate", str(table), "--overwrite"]
    command += ["--out", str(table.with_name("page"))]
    start = time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    typer.run(main)
