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
import typer

from geonode.calibration.combination import combined_left_out
from geonode.calibration.intervals import ErrorLaw, is_determined
from geonode.calibration.methods import fitted, keys_for
from geonode.calibration.precision import OF_COMBINATION, OF_METHOD, PrecisionProfile
from geonode.estimation.curve import Curve
from geonode.estimation.posterior import Estimates, estimate
from geonode.learning.folds import leave_one_out
from geonode.posterior.prior import packaged_prior
from geonode.progress import Progress
from geonode.spectra.series import Series
from research.simulated_sets import LEVELS, batches_of
from research.trust import measured, rows_of

METHODS = ("geonode", "combined", "pls", "pcr")


def main(
    folder: Annotated[Path | None, typer.Argument(help="Folder of measured series.")] = None,
    levels: Annotated[int, typer.Option(help="Left-out levels of each number of levels.")] = 120,
    seed: Annotated[int, typer.Option(help="Seed of the first batch.")] = 90_000,
) -> None:
    """Print medians and 90% quantiles by class."""
    work: list[tuple[str | int, Series]] = []  # with the class of each
    if folder:
        work += measured(folder).items()
    else:
        for batch in batches_of(packaged_prior(), LEVELS, levels, seed):
            work += [(batch.levels, one) for one in batch.simulated()]
    table = rows_of("leaving levels out", left_out, work)
    for method in METHODS:
        by_class = table.groupby(["class", "inside"])[method]
        shown = by_class.quantile([0.5, 0.9]).unstack().join(by_class.count().rename("levels"))
        shown["share"] = shown["levels"] / by_class.size()
        typer.echo(f"{method}:\n{shown.round(2).to_string()}")
        typer.echo(table.groupby("inside")[method].quantile([0.5, 0.9]).unstack().round(2))


def left_out(work: tuple[str | int, Series], _: Progress) -> list[dict[str, Any]]:
    """Ratios of all levels of a series of a class, NaN where there is no number."""
    name, series = work
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
