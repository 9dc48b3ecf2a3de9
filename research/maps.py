"""Pixels a second of concentration maps, from Zarr to Zarr and without reading and writing.

python -m research.maps --side 288 --device cpu
python -m research.maps --substances 3
"""

import tempfile
import time
from itertools import cycle
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer
import xarray

from geonode.calibration.pixels import MixturePixels
from geonode.compute.device import all_alike, resolve
from geonode.compute.threads import in_threads, one_thread
from geonode.config import PrecisionParameters
from geonode.estimation.curve import Curve
from geonode.estimation.image import Image
from geonode.estimation.maps import CurvePixels, Maps, Pixels
from geonode.estimation.posterior import CPU
from geonode.learning.folds import leave_one_out
from geonode.mixtures.mixture import MixtureCalibration
from geonode.spectra.mixture_series import MixtureSeries
from geonode.spectra.preprocessing import Preprocessing
from geonode.spectra.series import read_series
from stages.paths import SPECTRA

TURNS = 3
CHUNK = 64
NOISE = 0.002
COMPARED = 4096
"""Pixels that are estimated on the CPU too."""

SAMPLES = 50


@one_thread()
def main(
    side: Annotated[int, typer.Option(help="Pixels of a side of the image.")] = 288,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    substances: Annotated[int, typer.Option(help="Several: simulated mixtures of them.")] = 1,
) -> None:
    """Print the rates of maps of the series of the pipeline or of mixtures, turn by turn."""
    pixels: Pixels = _of_pipeline() if substances == 1 else _of_mixtures(substances)
    place, series = resolve(device, PrecisionParameters()).reference, pixels.series
    random = np.random.default_rng(0)
    levels = random.integers(0, len(series.signal), (side, side))
    noise = NOISE * random.normal(size=(side, side, len(series.axis)))
    signal = (series.signal[levels] + noise).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "image.zarr"
        units = {"wavelength": ("wavelength", series.axis, {"units": "nm"})}
        chunks = {"signal": {"chunks": (CHUNK, CHUNK, len(series.axis))}}
        data = xarray.Dataset({"signal": (("y", "x", "wavelength"), signal)}, units)
        data.to_zarr(store, encoding=chunks, zarr_format=3, consolidated=False)
        image = Image.open(store)
        assert image is not None
        maps = Maps(pixels, image, "float64", place)
        for turn in range(TURNS):
            start = time.perf_counter()
            maps.write(Path(folder) / f"{turn}.zarr", maps.pixels_at_once(maps.threads))
            _say("from Zarr to Zarr", side * side, start)
        size = maps.pixels_at_once(maps.threads)
    turns, rows = cycle([pixels.on(one) for one in all_alike(place)]), signal.reshape(side**2, -1)
    blocks = [rows[at : at + size] for at in range(0, len(rows), size)]

    def estimated(block: np.ndarray) -> None:
        next(turns)(block)

    for _ in range(TURNS):
        start = time.perf_counter()
        in_threads(estimated, blocks)
        _say(f"estimates alone, {maps.threads} threads", len(rows), start)
    if place.type != "cpu":
        found, expected = (pixels.on(one)(rows[:COMPARED])[0] for one in (place, CPU))
        apart = np.abs(found - expected).max(axis=1) / np.abs(expected).max(axis=1)
        each = ", ".join(
            f"{name} {one:.1e}" for name, one in zip(pixels.layers, apart, strict=True)
        )
        typer.echo(f"largest differences to the CPU, over the largest of a layer: {each}")


def _of_pipeline() -> CurvePixels:
    series = read_series(SPECTRA)
    whole = leave_one_out(len(series.concentrations))[-1]
    return CurvePixels(Curve.of(series, whole, one_scan=True), series)


def _of_mixtures(substances: int) -> MixturePixels:
    """Samples whose response saturates, with the noise of the pixels."""
    random, axis = np.random.default_rng(0), np.linspace(200.0, 800.0, 601)
    amounts = random.uniform(0, 10, (SAMPLES, substances))
    centres = np.linspace(300, 700, substances)[:, None]
    signal = amounts / (10 + 0.3 * amounts) @ np.exp(-(((axis - centres) / 80) ** 2))
    signal += NOISE * random.normal(size=signal.shape)
    named = [f"s{place}" for place in range(SAMPLES)], tuple("abcdef"[:substances])
    labels = {"signal": "signal", "signal_unit": "1", "axis": "wavelength", "axis_unit": "nm"}
    units = ("1",) * substances
    series = MixtureSeries(*named, units, amounts, axis, signal, labels, Preprocessing())
    return MixturePixels(MixtureCalibration.of(signal, amounts), series)


def _say(name: str, pixels: int, start: float) -> None:
    typer.echo(f"{name}: {pixels / (time.perf_counter() - start):,.0f} pixels a second")


if __name__ == "__main__":
    typer.run(main)
