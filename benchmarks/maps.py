"""Pixels a second of concentration maps, from Zarr to Zarr and without reading and writing.

python -m benchmarks.maps --side 288 --device cpu
"""

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer
import xarray

from geonode.compute.device import one_thread, resolve
from geonode.config import PrecisionParameters
from geonode.estimation.curve import Curve
from geonode.estimation.image import Image
from geonode.estimation.maps import CurvePixels, Maps
from geonode.estimation.posterior import Law
from geonode.learning.folds import leave_one_out
from geonode.spectra.series import read_series
from stages.paths import SPECTRA

TURNS = 3
CHUNK = 64
NOISE = 0.002


def main(
    side: Annotated[int, typer.Option(help="Pixels of a side of the image.")] = 288,
    device: Literal["auto", "cpu", "cuda"] = "auto",
) -> None:
    """Print the rates of maps of the series of the pipeline, each turn by itself."""
    series, place = read_series(SPECTRA), resolve(device, PrecisionParameters()).reference
    whole = leave_one_out(len(series.concentrations))[-1]
    curve = Curve.of(series, whole, one_scan=True)
    random = np.random.default_rng(0)
    levels = random.integers(0, len(series.concentrations), (side, side))
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
        maps = Maps(CurvePixels(curve, series), image, "float64", place)
        for turn in range(TURNS):
            start = time.perf_counter()
            maps.write(Path(folder) / f"{turn}.zarr", maps.pixels_at_once(maps.threads))
            _say("from Zarr to Zarr", side * side, start)
    law, rows = Law(curve, place), signal.reshape(side * side, -1)
    size = law.spectra_at_once
    blocks = [rows[at : at + size] for at in range(0, len(rows), size)]
    with one_thread(), ThreadPoolExecutor(maps.threads) as threads:
        for _ in range(TURNS):
            start = time.perf_counter()
            [*threads.map(law.summaries, blocks)]
            _say(f"estimates alone, {maps.threads} threads", len(rows), start)


def _say(name: str, pixels: int, start: float) -> None:
    typer.echo(f"{name}: {pixels / (time.perf_counter() - start):,.0f} pixels a second")


if __name__ == "__main__":
    typer.run(main)
