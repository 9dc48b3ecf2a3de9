"""Ratios of errors to the standard errors of precision profiles, on levels that are left out.

`python -m research.information` simulates series of several numbers of levels; with a folder it
takes the measured series in it. Every level is left out, its standard error is that of the profile
at its estimate, and the errors behind the profile are those of the others, which are left out too:
of geonode, of the combination, of PLS and of PCR. Of a normal error the median ratio is .67 and the
90% quantile 1.64. Only estimates count that are given as numbers: they fit, are determined, lie
between the other levels, and are not ambiguous if they are geonode's; "share" is theirs. Levels at
the ends were estimated by extrapolation, and stand apart.
"""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import torch
import typer

from geonode.calibration.combination import combined_left_out
from geonode.calibration.intervals import ErrorLaw, is_determined
from geonode.calibration.methods import fitted, keys_for
from geonode.calibration.precision import OF_COMBINATION, OF_METHOD, PrecisionProfile
from geonode.compute.processes import finished, processes_for
from geonode.estimation.curve import Curve
from geonode.estimation.posterior import Estimates, estimate
from geonode.learning.folds import leave_one_out
from geonode.parameters_file import read_parameters
from geonode.posterior.prior import packaged_prior
from geonode.progress import Progress, bar, silent
from geonode.reading.folder import parameters_of_folder
from geonode.reading.series_file import read_series_csv
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series
from research.draws import Draws
from research.simulated_series import simulate
from research.simulated_sets import LABELS, LEVELS, Batch
from research.trust import AT_ONCE, batches_of
from stages.paths import PARAMETERS

METHODS = ("geonode", "combined", "pls", "pcr")


def main(
    folder: Annotated[Path | None, typer.Argument(help="Folder of measured series.")] = None,
    levels: Annotated[int, typer.Option(help="Left-out levels of each number of levels.")] = 120,
    seed: Annotated[int, typer.Option(help="Seed of the first batch.")] = 90_000,
) -> None:
    """Print medians and 90% quantiles by class."""
    rows: list[dict[str, Any]] = []
    if folder:
        files = parameters_of_folder(folder, read_parameters(PARAMETERS).spectra)
        with bar("leaving levels out", len(files)) as report:
            for name, own in files.items():
                rows += left_out(read_series_csv(own), name)
                report(1)
    else:
        batches = batches_of(packaged_prior(), LEVELS, levels, seed)
        with bar("leaving levels out", len(batches) * AT_ONCE) as report:
            for _, found in finished(of_batch, batches, processes_for(8, "cpu"), report):
                rows += found
    table = pd.DataFrame(rows)
    for method in METHODS:
        by_class = table.groupby(["class", "inside"])[method]
        shown = by_class.quantile([0.5, 0.9]).unstack().join(by_class.count().rename("levels"))
        shown["share"] = shown["levels"] / by_class.size()
        typer.echo(f"{method}:\n{shown.round(2).to_string()}")
        typer.echo(table.groupby("inside")[method].quantile([0.5, 0.9]).unstack().round(2))


def of_batch(batch: Batch, report: Progress = silent) -> list[dict[str, Any]]:
    """Ratios of all levels of simulated series; their number is the class."""
    draws, found = Draws.of(batch.seed, torch.device("cpu")), []
    simulated = simulate(draws, batch.series, batch.levels, errors=batch.errors)
    for known, spectra in zip(*(part.numpy() for part in simulated), strict=True):
        axis = np.arange(spectra.shape[1], dtype=np.float64)
        one = Series.of_levels(known, axis, spectra, Chart.of("linear", None, known), LABELS)
        found += left_out(one, batch.levels)
        report(batch.levels)
    return found


def left_out(series: Series, name: str | int) -> list[dict[str, Any]]:
    """Ratios of all levels of a series, NaN where there is no number."""
    known, folds = series.concentrations, leave_one_out(len(series.concentrations))[:-1]
    place = np.arange(len(known))
    curves = [Curve.of(series, fold) for fold in folds]
    each = zip(curves, series.signal, strict=True)
    by_geonode = Estimates.joined([estimate(curve, signal[None]) for curve, signal in each])
    fits = {
        key: fitted(key, known, series.signal, place)
        for key in keys_for(place, preprocessed=bool(series.preprocessing.steps))
    }
    estimates = {key: one.left_out for key, one in fits.items()} | {"geonode": by_geonode.mode}
    leverages = {key: one.leverages for key, one in fits.items()}
    combined = combined_left_out(known, estimates, leverages, place)
    estimates["combined"], leverages["combined"] = combined
    rows = []
    for fold, curve in zip(folds, curves, strict=True):
        at, kept = [fold.index], list(fold.training)
        row: dict[str, Any] = {"class": name, "inside": fold.is_inside(fold.index)}
        for method in METHODS:
            here, others = estimates[method][at], estimates[method][kept]
            if method == "geonode":
                parts = by_geonode.sets[fold.index]
                ends = np.array([[parts[0][0], parts[-1][1]]])
                profile = PrecisionProfile.of_curve(curve, known[kept], others)
                error = profile.at(here) if len(parts) == 1 else np.full(1, np.nan)
            else:
                own, out = leverages[method][kept], leverages[method][at]
                law = ErrorLaw.of(known[kept], others - known[kept], own, place[kept])
                share = OF_COMBINATION if method == "combined" else OF_METHOD
                ends, error = law.intervals(here, out), share * law.deviations(here, out)[0]
            is_number = by_geonode.fits[at] & is_determined(here, ends, known[kept])
            is_number &= (known[kept].min() <= here) & (here <= known[kept].max())
            row[method] = np.where(is_number, np.abs(here - known[at]) / error, np.nan)[0]
        rows.append(row)
    return rows


if __name__ == "__main__":
    typer.run(main)
