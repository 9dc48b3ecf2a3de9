"""Pixels a second of concentration maps, from Zarr to Zarr and without reading and writing.

python -m benchmarks.maps --side 288 --device cpu
"""

import tempfile
import time
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer
import xarray

from geonode.compute.device import resolve
from geonode.compute.threads import one_thread
from geonode.config import PrecisionParameters
from geonode.estimation.curve import Curve
from geonode.estimation.image import Image
from geonode.estimation.maps import Maps
from geonode.estimation.posterior import Law
from geonode.learning.folds import leave_one_out
from geonode.machine import usable_cores
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
    signal = series.signal[levels] + NOISE * random.normal(size=(side, side, len(series.axis)))
    law, rows = Law(curve, place), signal.reshape(side * side, -1)
    blocks = range(0, len(rows), law.spectra_at_once)
    with one_thread():
        for _ in range(TURNS):
            start = time.perf_counter()
            for at in blocks:
                law.summaries(rows[at : at + law.spectra_at_once])
            _say("estimates alone, one thread", len(rows), start)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "image.zarr"
        units = {"wavelength": ("wavelength", series.axis, {"units": "nm"})}
        values = {"signal": (("y", "x", "wavelength"), signal.astype("float32"))}
        chunks = {"signal": {"chunks": (CHUNK, CHUNK, len(series.axis))}}
        data = xarray.Dataset(values, units)
        data.to_zarr(store, encoding=chunks, zarr_format=3, consolidated=False)
        image, cores = Image.open(store), usable_cores()
        assert image is not None
        for turn in range(TURNS):
            start = time.perf_counter()
            maps = Maps(curve, series, image, "float64", place)
            maps.write(Path(folder) / f"{turn}.zarr", image.pixels_at_once(cores), cores=cores)
            _say("from Zarr to Zarr", len(rows), start)


def _say(name: str, pixels: int, start: float) -> None:
    typer.echo(f"{name}: {pixels / (time.perf_counter() - start):,.0f} pixels a second")


if __name__ == "__main__":
    typer.run(main)
