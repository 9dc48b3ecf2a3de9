"""Milliseconds a target of the posterior over metrics, for a series of 10 levels x 601 wavelengths.

python -m research.posterior --device cuda
"""

from functools import partial
from typing import Literal

import numpy as np
import torch
import typer

from geonode.compute.device import resolve
from geonode.compute.threads import one_thread
from geonode.config import PrecisionParameters
from geonode.learning.folds import leave_one_out
from geonode.learning.posterior_decoder import PosteriorDecoders
from geonode.posterior.prior import packaged_prior
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series
from stages.performance.timing import time_calls

LEVELS, WAVELENGTHS, NOISE, TURNS = 10, 601, 0.003, 5
TARGETS = (1, 32, 512)


@one_thread()
def main(device: Literal["auto", "cpu", "cuda"] = "auto") -> None:
    """Print medians, and how far the device is from the CPU."""
    chosen, series = resolve(device, PrecisionParameters()), _series()
    *folds, whole = leave_one_out(LEVELS)
    here = PosteriorDecoders(packaged_prior(chosen.reference))
    low, high = series.concentrations[[0, -1]].tolist()
    for count in TARGETS:
        at = np.linspace(low, high, count)
        work = partial(here.predict, whole, series, at, None)
        seconds = time_calls(work, TURNS, chosen.synchronise).median
        typer.echo(f"{count} targets of one fold: {1e3 * seconds / count:.3f} ms each")
    left_out = partial(here.predict_left_out, folds, series, None)
    seconds = time_calls(left_out, TURNS, chosen.synchronise).median
    typer.echo(f"{LEVELS} levels left out: {1e3 * seconds / LEVELS:.3f} ms each")
    on_cpu = PosteriorDecoders(packaged_prior(torch.device("cpu")))
    found, expected = (one.predict(whole, series, at, None).spectra for one in (here, on_cpu))
    away = np.abs(found - expected).max() / np.abs(expected).max()
    typer.echo(f"spectra differ from those of the CPU by {away:.1e} of the largest value at most")


def _series() -> Series:
    """Four bands that saturate, with noise."""
    random = np.random.default_rng(0)
    axis, levels = np.linspace(400, 1000, WAVELENGTHS), np.sort(random.uniform(1, 100, LEVELS))
    signal = NOISE * random.normal(size=(LEVELS, WAVELENGTHS))
    for centre, width, half in random.uniform((420, 20, 5), (980, 90, 80), (4, 3)):
        signal += (levels / (levels + half))[:, None] * np.exp(-(((axis - centre) / width) ** 2))
    names = ("signal", "signal_unit", "axis", "axis_unit", "concentration_unit")
    labels = dict.fromkeys(names, "1")
    return Series.of_levels(levels, axis, signal, Chart.of("linear", None, levels), labels)


if __name__ == "__main__":
    typer.run(main)
