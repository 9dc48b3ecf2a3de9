"""Timers of what a user waits for, of maps and of the posterior.

`python -m research.timing commands` (or maps, posterior), where the pipeline is.
"""

import subprocess
import tempfile
import time
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pandas as pd
import torch
import typer
import xarray

from geonode.calibration.calibration_file import CalibrationFile
from geonode.compute.device import all_alike, resolve
from geonode.compute.threads import in_threads, one_thread
from geonode.config import CalibrateParameters, PrecisionParameters
from geonode.estimation.image import Image
from geonode.estimation.maps import Maps
from geonode.learning.folds import leave_one_out
from geonode.learning.posterior_decoder import PosteriorDecoders
from geonode.posterior.prior import packaged_prior
from geonode.spectra.series import Series, read_series
from geonode.storage.record import Record
from research.draws import Draws
from research.simulated_series import simulate
from stages.paths import PIPELINE, RECORDS, SPECTRA
from stages.performance.timing import time_calls

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

Turns = Annotated[int, typer.Option(min=1, help="Timed runs of each case.")]
Where = Literal["auto", "cpu", "cuda"]

SIX, ESTIMATE = "data/examples/acetophenone.csv", "geonode -q estimate --calibration"
COMMANDS = {
    "dvc repro -f validate": "dvc repro -f validate",
    "a second dvc repro validate": "dvc repro validate",
    "geonode calibrate, six levels": f"geonode -q calibrate {SIX} --overwrite --out PAGE",
    "geonode estimate --calibration": f"{ESTIMATE} PAGE/calibration.safetensors {SIX}",
    "geonode panel, 40 series": "geonode -q panel SERIES --preset fast --overwrite --out PAGE.csv",
    "geonode --help": "geonode --help",
}
SERIES, SEED = 40, 70_000
"""Simulated series of a panel, of 4 to 15 levels."""

AXIS = np.linspace(200.0, 800.0, 601)

CHUNK, SAMPLES = 64, 50
NOISE = {"maps": 0.002, "others": 0.003}
COMPARED = 4096
"""Pixels that are estimated on the CPU too."""

LEVELS, TARGETS = 10, (1, 32, 512)


def run(command: list[str]) -> None:
    """Run a command of exit status 0, or 1, which is a misfit."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise typer.BadParameter(f"{' '.join(command)} failed: {done.stderr.strip()}")


@app.command()
def commands(turns: Turns = 5) -> None:
    """Seconds that a user waits for commands: medians with quartiles.

    Commands use what the ones before them have written. Then what the seconds of every stage are
    spent on.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "series").mkdir()
        for number in range(SERIES):
            draws = Draws.of(SEED + number, torch.device("cpu"))
            found = simulate(draws, 1, 4 + number % 12, len(AXIS))
            levels, spectra = (part[0].numpy() for part in found)
            table = pd.DataFrame(spectra.T, pd.Index(AXIS, name="wavelength_nm"), 60 * levels)
            table.to_csv(f"{folder}/series/{number}.csv", float_format="%.6g")
        for name, command in COMMANDS.items():
            placed = command.replace("PAGE", f"{folder}/page").replace("SERIES", f"{folder}/series")
            seconds = time_calls(partial(run, placed.split()), turns, lambda: None)
            typer.echo(f"{name}: {seconds} s")
    for stage in PIPELINE:
        record = Record.read(RECORDS / f"{stage}.json")
        imports, start = record.imports or 0.0, record.device_start or 0.0
        parts = f"imports {imports:.2f}, start of the device {start:.2f}"
        typer.echo(f"{stage}: {parts}, computation {record.seconds - imports - start:.2f} s")


@app.command()
@one_thread()
def maps(
    side: Annotated[int, typer.Option(help="Side of the image (pixels).")] = 288,
    device: Where = "auto",
    substances: Annotated[
        int, typer.Option(help="Substances; of several, mixtures are simulated.")
    ] = 1,
    turns: Turns = 3,
) -> None:
    """Pixels a second of maps, from Zarr to Zarr and without reading and writing, turn by turn."""
    own, method = read_series(SPECTRA), "geonode"
    if substances > 1:
        own, method = _mixtures(substances), "auto"
    pixels = CalibrationFile.of("series", own, CalibrateParameters(method=method)).model
    place, series = resolve(device, PrecisionParameters()).reference, pixels.series
    random = np.random.default_rng(0)
    levels = random.integers(0, len(series.signal), (side, side))
    noise = NOISE["maps"] * random.normal(size=(side, side, len(series.axis)))
    signal = (series.signal[levels] + noise).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "image.zarr"
        units = {"wavelength": ("wavelength", series.axis, {"units": "nm"})}
        chunks = {"signal": {"chunks": (CHUNK, CHUNK, len(series.axis))}}
        data = xarray.Dataset({"signal": (("y", "x", "wavelength"), signal)}, units)
        data.to_zarr(store, encoding=chunks, zarr_format=3, consolidated=False)
        image = Image.open(store)
        assert image is not None
        written = Maps(pixels, image, "float64", place)
        for turn in range(turns):
            start = time.perf_counter()
            written.write(Path(folder) / f"{turn}.zarr", written.pixels_at_once(written.threads))
            _say("from Zarr to Zarr", side * side, start)
        size = written.pixels_at_once(written.threads)
    places, rows = cycle([pixels.on(one) for one in all_alike(place)]), signal.reshape(side**2, -1)
    blocks = [rows[at : at + size] for at in range(0, len(rows), size)]

    def estimated(block: np.ndarray) -> None:
        next(places)(block)

    for _ in range(turns):
        start = time.perf_counter()
        in_threads(estimated, blocks)
        _say(f"estimates alone, {written.threads} threads", len(rows), start)
    if place.type != "cpu":
        both = (place, torch.device("cpu"))
        found, expected = (pixels.on(one)(rows[:COMPARED])[0] for one in both)
        apart = np.abs(found - expected).max(axis=1) / np.abs(expected).max(axis=1)
        each = (f"{name} {one:.1e}" for name, one in zip(pixels.layers, apart, strict=True))
        typer.echo(
            f"largest differences to the CPU, over the largest of a layer: {', '.join(each)}"
        )


def _mixtures(substances: int) -> Series:
    """Samples whose response saturates, with the noise of the pixels."""
    random = np.random.default_rng(0)
    amounts = random.uniform(0, 10, (SAMPLES, substances))
    centres = np.linspace(300, 700, substances)[:, None]
    signal = amounts / (10 + 0.3 * amounts) @ np.exp(-(((AXIS - centres) / 80) ** 2))
    signal += NOISE["maps"] * random.normal(size=signal.shape)
    labels = {"signal": "signal", "signal_unit": "1", "axis": "wavelength", "axis_unit": "nm"}
    labels["concentration_unit"] = "1"
    names, units = tuple("abcdef"[:substances]), ("1",) * substances
    samples = tuple(f"s{place}" for place in range(SAMPLES))
    return Series(amounts, AXIS, signal, labels, names, units, samples)


def _say(name: str, pixels: int, start: float) -> None:
    typer.echo(f"{name}: {pixels / (time.perf_counter() - start):,.0f} pixels a second")


@app.command()
@one_thread()
def posterior(device: Where = "auto", turns: Turns = 5) -> None:
    """Milliseconds a target of the posterior of 10 levels x 601, and its distance to the CPU."""
    chosen, random = resolve(device, PrecisionParameters()), np.random.default_rng(0)
    axis, levels = np.linspace(400, 1000, len(AXIS)), np.sort(random.uniform(1, 100, LEVELS))
    signal = NOISE["others"] * random.normal(size=(LEVELS, len(axis)))
    for centre, width, half in random.uniform((420, 20, 5), (980, 90, 80), (4, 3)):
        signal += (levels / (levels + half))[:, None] * np.exp(-(((axis - centre) / width) ** 2))
    series = Series.of_rows(levels, signal, axis, LEVELS)
    *folds, whole = leave_one_out(LEVELS)
    here = PosteriorDecoders(packaged_prior(chosen.reference))
    for count in TARGETS:
        at = np.linspace(levels[0], levels[-1], count)
        work = partial(here.predict, whole, series, at, None)
        seconds = time_calls(work, turns, chosen.synchronise).median
        typer.echo(f"{count} targets of one fold: {1e3 * seconds / count:.3f} ms each")
    left_out = partial(here.predict_left_out, folds, series, None)
    seconds = time_calls(left_out, turns, chosen.synchronise).median
    typer.echo(f"{LEVELS} levels left out: {1e3 * seconds / LEVELS:.3f} ms each")
    on_cpu = PosteriorDecoders(packaged_prior(torch.device("cpu")))
    found, expected = (one.predict(whole, series, at, None).spectra for one in (here, on_cpu))
    away = np.abs(found - expected).max() / np.abs(expected).max()
    typer.echo(f"spectra differ from those of the CPU by {away:.1e} of the largest value at most")


if __name__ == "__main__":
    app()
