"""What a user waits for: every command as a whole process, and the computations inside.

`python -m benchmarks.waiting [SERIES]` prints the tables of docs/performance.md: medians with
quartiles of `--repeats` turns, on the device at hand, in a clone of this repository in a temporary
folder. SERIES is a folder of series for `geonode panel`, beside one of simulated series. The first
run of the pipeline, in which modules and kernels are compiled, is not counted.
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
import xarray

from benchmarks.performance.timing import Quartiles
from geonode.evaluation.panel_table import mean_ratio, read_table, row_of
from geonode.posterior.draws import Draws
from geonode.posterior.simulated_series import simulate
from geonode.spectra.reading import to_csv
from geonode.spectra.table import SpectraTable
from geonode.storage.atomic import remove

ROOT = Path(__file__).parents[1]
PYTHON = sys.executable
DVC = (PYTHON, "-m", "dvc")
GEONODE = (PYTHON, "-m", "geonode.cli")
PANEL = "panel.csv"
SIDES = 96, 288
"""Sides of two images in pixels. Their times differ by that of the additional pixels."""

LARGE = 10_000
"""Side of the image that is extrapolated to."""

SIMULATED, LEVELS, WAVELENGTHS = 40, range(4, 16), 601
"""Simulated series, their numbers of levels and wavelengths."""

IMPORTED = ("torch", "csv", "csv", *("torch",) * 5)
"""Imported by the stages probe, generate, spectra, metric and so on to validate."""

COMPUTATIONS = {
    "grid of 2,000 x 601 from its series (ms)": ("christoffel", "evaluation_ms"),
    "the same from the network on (ms)": ("christoffel", "ms"),
    "geodesics with all features from known stations (ms)": ("geodesics", "ms"),
    "the integration between the stations (ms)": ("geodesics", "integration_ms"),
    "an epoch of training, 6 folds x 9,015 rows (ms)": ("training", "epoch_ms"),
}


@dataclass(frozen=True)
class Clone:
    """Clone of this repository whose commands are timed.

    Attributes:
        folder: folder of the clone.
        repeats: number of turns.
    """

    folder: Path
    repeats: int

    def run(self, *command: str) -> float:
        """Seconds of a command, which must end well."""
        own = {"DVC_NO_ANALYTICS": "1", "GEONODE_CACHE": f"{self.folder}/models"}
        # Python keeps what it compiles, unless it is told not to, as in some containers.
        inherited = {k: value for k, value in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        start = time.perf_counter()
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=inherited | own,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.perf_counter() - start
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr}")
        return seconds

    def timed(self, *command: str, fresh: tuple[str, ...] = ()) -> Quartiles:
        """Quartiles of a command; `fresh` names what is removed before every turn."""
        seconds = []
        for _ in range(self.repeats):
            for path in map(self.folder.joinpath, fresh):
                remove(path)
            seconds.append(self.run(*command))
        return Quartiles.of(seconds)

    def waits(self) -> Iterator[tuple[str, Quartiles]]:
        """Times of the commands that need no series of the user, by what they do."""
        yield "import of torch", self.timed(PYTHON, "-c", "import torch")
        yield "as many stages that only import torch", self.timed(*self._idle(), "repro", "-f")
        self.run(*DVC, "repro", "-f", "validate")
        yield "`dvc repro -f validate`", self.timed(*DVC, "repro", "-f", "validate")
        yield "a second `dvc repro validate`", self.timed(*DVC, "repro", "validate")
        yield from self.maps()
        example = str(ROOT / "data" / "examples" / "acetophenone.csv")
        calibrate = (*GEONODE, "calibrate", example, "--overwrite")
        yield "`geonode calibrate acetophenone.csv`", self.timed(*calibrate)
        yield "`dvc repro -f validate`, `preset: fast`", self.changed("preset: standard", "fast")
        if torch.cuda.is_available():
            yield "`dvc repro -f validate`, `device: cpu`", self.changed("device: auto", "cpu")

    def changed(self, line: str, value: str) -> Quartiles:
        """Time of the pipeline with another value in a line of its parameters."""
        parameters, key = self.folder / "params.yaml", line.partition(" ")[0]
        parameters.write_text(parameters.read_text().replace(line, f"{key} {value}", 1))
        self.run(*DVC, "repro", "-f", "validate")
        found = self.timed(*DVC, "repro", "-f", "validate")
        self.run("git", "checkout", "-q", "params.yaml")
        return found

    def _idle(self) -> tuple[str, ...]:
        """DVC in a new pipeline whose stages import what those up to `validate` import."""
        folder = self.folder / "idle"
        folder.mkdir()
        stages = {}
        for place, imported in enumerate(IMPORTED):
            code = f"import {imported}, pathlib; pathlib.Path('{place}').touch()"
            stages[f"stage{place}"] = {
                "cmd": f'{PYTHON} -c "{code}"',
                "deps": [str(place - 1)] if place else [],
                "outs": [str(place)],
            }
        (folder / "dvc.yaml").write_text(json.dumps({"stages": stages}))  # JSON is YAML as well
        dvc = (*DVC, "--cd", str(folder))
        self.run(*dvc, "init", "--no-scm")
        return dvc

    def panels(self, series: Path) -> Iterator[tuple[str, Quartiles]]:
        """Times and errors of panels, and the time of one more with its models in the store."""
        panel = (*GEONODE, "panel", str(series.absolute()), "--out", PANEL, "--preset")
        called = f"`geonode panel` of {len(list(series.glob('*.csv')))} series"
        for preset in ("fast", "standard"):
            both = (PANEL, "models")
            yield f"{called}, `{preset}`", self.timed(*panel, preset, fresh=both)
            yield "its RMSE over that of the best baseline, geometric mean", self._mean_ratio()
        again = self.timed(*panel, "standard", fresh=(PANEL,))
        yield "the same, of models in the store", again

    def simulated(self) -> Path:
        """Folder of simulated series, always the same."""
        folder = self.folder / "simulated"
        folder.mkdir()
        axis = np.linspace(200.0, 800.0, WAVELENGTHS)
        for place in range(SIMULATED):
            levels = LEVELS[place * len(LEVELS) // SIMULATED]
            draws = Draws.of(place, torch.device("cpu"))
            found = simulate(draws, 1, levels, WAVELENGTHS)
            scans = list(found.spectra[0, :, None].numpy())
            table = SpectraTable(
                axis, "wavelength", "nm", found.concentrations[0].numpy(), scans, np.empty(0)
            )
            (folder / f"series{place:02}.csv").write_text(to_csv(table))
        return folder

    def _mean_ratio(self) -> Quartiles:
        """Error of the panel relative to the best baseline of every series."""
        stored = read_table(self.folder / PANEL)
        rows = {name: row for name, found in stored.items() if (row := row_of(found)) is not None}
        ratio = float(mean_ratio(rows).rpartition(" ")[2])
        return Quartiles(ratio, ratio, ratio)

    def maps(self) -> Iterator[tuple[str, Quartiles]]:
        """Times of the maps of a small image, and those of a large one by extrapolation."""
        small, large = (self.timed(*self._map(side), fresh=("map.zarr",)) for side in SIDES)
        yield f"maps of {SIDES[1]} x {SIDES[1]} pixels", large
        pixels = SIDES[1] ** 2 - SIDES[0] ** 2
        hours = (large.median - small.median) / pixels * LARGE**2 / 3600
        called = f"maps of {LARGE:,} x {LARGE:,} pixels, extrapolated (hours)"
        yield called, Quartiles(hours, hours, hours)

    def _map(self, side: int) -> tuple[str, ...]:
        """Command that maps an image of measured spectra with noise; the image is written."""
        stored = xarray.open_zarr(self.folder / "data" / "spectra.zarr", consolidated=False)
        signal, axis = stored.signal.values, stored.wavelength.values
        random = np.random.default_rng(0)
        spectra = signal[random.integers(len(signal), size=(side, side))]
        spectra = spectra + random.normal(0, 0.001, spectra.shape)
        image = xarray.DataArray(
            spectra, dims=("y", "x", "wavelength"), coords={"wavelength": axis}, name="image"
        )
        image.wavelength.attrs["units"] = "nm"
        path = self.folder / f"image{side}.zarr"
        image.to_dataset().chunk(y=48, x=48).to_zarr(path, mode="w", consolidated=False)
        return (*GEONODE, "estimate", str(path), "--out", "map.zarr")

    def computations(self) -> Iterator[tuple[str, Quartiles]]:
        """Times of the computations inside, by the stage `benchmark`."""
        self.run(PYTHON, "-m", "stages.benchmark")
        found = json.loads((self.folder / "metrics" / "benchmark.json").read_text())
        for called, (block, key) in COMPUTATIONS.items():
            parts = (found[block][key + end] for end in ("", "_q25", "_q75"))
            yield called, Quartiles(*parts)


def main(
    series: Annotated[Path | None, typer.Argument(help="Folder of series.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Turns of every command.")] = 5,
) -> None:
    """Print the tables of docs/performance.md."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(("git", "clone", "-q", str(ROOT), folder), check=True)
        clone = Clone(Path(folder), repeats)
        folders = [clone.simulated(), *([] if series is None else [series])]
        panels = map(clone.panels, folders)  # last: they may take hours
        for name, found in itertools.chain(clone.waits(), clone.computations(), *panels):
            typer.echo(f"| {name} | {found.median:.4g} ({found.q25:.4g} to {found.q75:.4g}) |")


if __name__ == "__main__":
    typer.run(main)
