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

from geonode.calibration.calibration_file import CalibrationFile
from geonode.compute.device import all_alike, resolve
from geonode.compute.threads import in_threads, one_thread
from geonode.config import CalibrateParameters, PrecisionParameters
from geonode.estimation.image import Image
from geonode.estimation.maps import Maps
from geonode.estimation.posterior import CPU
from geonode.spectra.series import Series, read_series
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
    own, method = read_series(SPECTRA), "geonode"
    if substances > 1:
        own, method = _mixtures(substances), "auto"
    pixels = CalibrationFile.of("series", own, CalibrateParameters(method=method)).model
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


def _mixtures(substances: int) -> Series:
    """Samples whose response saturates, with the noise of the pixels."""
    random, axis = np.random.default_rng(0), np.linspace(200.0, 800.0, 601)
    amounts = random.uniform(0, 10, (SAMPLES, substances))
    centres = np.linspace(300, 700, substances)[:, None]
    signal = amounts / (10 + 0.3 * amounts) @ np.exp(-(((axis - centres) / 80) ** 2))
    signal += NOISE * random.normal(size=signal.shape)
    labels = {"signal": "signal", "signal_unit": "1", "axis": "wavelength", "axis_unit": "nm"}
    labels["concentration_unit"] = "1"
    names, units = tuple("abcdef"[:substances]), ("1",) * substances
    samples = tuple(f"s{place}" for place in range(SAMPLES))
    return Series(amounts, axis, signal, labels, names, units, samples)


def _say(name: str, pixels: int, start: float) -> None:
    typer.echo(f"{name}: {pixels / (time.perf_counter() - start):,.0f} pixels a second")


if __name__ == "__main__":
    typer.run(main)
