"""Ratios of errors to the standard errors of precision profiles, on levels that are left out.

`python -m research.information` simulates series of several numbers of levels; with a folder it
takes the measured series in it. Every level is left out, its standard error comes from the curve of
the others at its estimate, and the factor of the profile from the errors of the others, which are
left out too. The same is done for PLS by its law of errors. Of a normal error the median ratio is
.67 and the 90% quantile 1.64. Estimates that are ambiguous, fit nowhere or are beyond the other
levels have no standard error: "share" is of those that have one.
"""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import torch
import typer

from geonode.calibration.intervals import ErrorLaw
from geonode.calibration.methods import fitted
from geonode.calibration.precision import TYPICAL, PrecisionProfile
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


def main(
    folder: Annotated[Path | None, typer.Argument(help="Of measured series.")] = None,
    levels: Annotated[int, typer.Option(help="Left-out ones of every number of levels.")] = 120,
    seed: Annotated[int, typer.Option(help="Of the first batch.")] = 90_000,
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
    for method in ("geonode", "pls"):
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
    """Ratios of all levels of a series, NaN where there is no standard error."""
    known, folds = series.concentrations, leave_one_out(len(series.concentrations))[:-1]
    curves = [Curve.of(series, fold) for fold in folds]
    each = zip(curves, series.signal, strict=True)
    estimates = Estimates.joined([estimate(curve, signal[None]) for curve, signal in each])
    place = np.arange(len(known))
    pls = fitted("pls", known, series.signal, place)
    rows = []
    for fold, curve in zip(folds, curves, strict=True):
        at, kept = fold.index, fold.training
        profile = PrecisionProfile.of_curve(curve, known[kept], estimates.mode[kept])
        law = ErrorLaw.of(
            known[kept], (pls.left_out - known)[kept], pls.leverages[kept], place[kept]
        )
        clear = estimates.fits[at] and not estimates.disconnected[at]
        ours = profile.at(estimates.mode[[at]])[0] if clear else np.nan
        other = TYPICAL * law.deviations(pls.left_out[[at]], pls.leverages[[at]])[0, 0]
        errors = np.abs(np.array([estimates.mode[at], pls.left_out[at]]) - known[at])
        geonode, other = errors / [ours, other]
        inside = fold.is_inside(at)
        rows.append({"class": name, "inside": inside, "geonode": geonode, "pls": other})
    return rows


if __name__ == "__main__":
    typer.run(main)
