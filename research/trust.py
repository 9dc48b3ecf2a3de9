"""Trials of intervals and of the choice of a method on simulated levels, series and samples.

`python -m research.trust simulated` leaves every level of new simulated series out, by the number
of levels. `choices` does so before anything is calibrated, and compares with the best method of a
series with hindsight; `series FOLDER...` does the same with measured series. `unknowns` calibrates
simulated series with all levels, and compares on new unknowns between them. `mixtures` calibrates
simulated mixtures and estimates their unknowns, with `--each` by class of difficulty, and with a
folder of tables of samples in rows, whose columns `y_NAME` are known amounts, leaves compositions
of each out. `samples` does the same with every amount by itself.

All of them use as many cores as OMP_NUM_THREADS allows.
"""

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
import torch
import typer
from sklearn.cross_decomposition import PLSRegression
from sklearn.model_selection import PredefinedSplit, cross_val_predict

from geonode.calibration.fit import Calibration
from geonode.calibration.intervals import are_covered, is_determined
from geonode.calibration.methods import CALIBRATIONS
from geonode.compute.processes import finished, processes_for
from geonode.estimation.posterior import mass_of_level
from geonode.learning.folds import leave_one_out
from geonode.mixtures.mixture import NAMES, MixtureCalibration
from geonode.parameters_file import read_parameters
from geonode.posterior.prior import PROBABILITIES, packaged_prior
from geonode.progress import Progress, bar, silent
from geonode.reading.folder import parameters_of_folder
from geonode.reading.series_file import read_series_csv
from geonode.spectra.series import Series
from research.draws import Draws
from research.mixture_classes import CLASSES
from research.mixture_classes import simulate as simulate_class
from research.simulated_mixtures import simulate_mixtures
from research.simulated_series import simulate
from research.simulated_sets import LEVELS, Batch, batches_of, left_out
from stages.paths import PARAMETERS

Job = TypeVar("Job")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def rows_of(
    words: str,
    work: Callable[[Job, Progress], list[dict[str, Any]]],
    jobs: Sequence[Job],
    device: str = "cpu",
) -> pd.DataFrame:
    """Rows that a function of a module gives for every job, on all cores, of a kind of device.

    The bar with these words has a step for every job.
    """
    rows: list[dict[str, Any]] = []
    with bar(words, len(jobs)) as report:
        for _, found in finished(work, jobs, processes_for(len(jobs), device), silent):
            rows += found
            report(1)
    return pd.DataFrame(rows)


UNKNOWNS = 20
"""Of every simulated mixture or series."""


class Trial(NamedTuple):
    """Samples to calibrate with, and unknowns whose amounts are known here."""

    facts: dict[str, Any]  # columns of all rows of the trial
    amounts: np.ndarray
    spectra: np.ndarray
    """Amounts and spectra of the samples."""
    true: np.ndarray
    unknowns: np.ndarray
    """Amounts and spectra of the unknowns."""

    @classmethod
    def without(
        cls, facts: dict[str, Any], amounts: np.ndarray, spectra: np.ndarray, out: np.ndarray
    ) -> "Trial":
        """All of some samples but those that are true in a mask, which are the unknowns."""
        return cls(facts, amounts[~out], spectra[~out], amounts[out], spectra[out])


@app.command()
def simulated(
    levels: Annotated[int, typer.Option(help="Left-out levels of each number of levels.")] = 1200,
    seed: Annotated[int, typer.Option(help="Seed; 1000 made the package.")] = 50_000,
) -> None:
    """Shares of simulated levels within sets of a level, and of spectra in 90% intervals."""
    batches = batches_of(packaged_prior(), LEVELS, levels, seed)
    table = rows_of("leaving levels out", held, batches)
    shares = table.groupby(["levels", "inside"]).agg("mean").unstack()
    typer.echo(shares.round(3).to_string())
    typer.echo(f"{len(table)} levels")


def held(batch: Batch, _: Progress) -> list[dict[str, Any]]:
    """Whether every level of a batch is in its sets, and the share of its spectrum in intervals."""
    found = left_out(batch)
    inside = np.array([one.inside for one in found])
    masses = batch.prior.mass_of_sets(batch.levels - 1, inside)
    widths = batch.prior.intervals(batch.levels - 1, inside)[:, PROBABILITIES.index(0.9)]
    return [
        {
            **{"levels": batch.levels, "inside": one.inside},
            "spectra": np.mean(one.ratios <= width),
            **{f"{p}": one.more_likely < mass_of_level(mass, p) for p in PROBABILITIES},
        }
        for one, mass, width in zip(found, masses, widths, strict=True)
    ]


@app.command()
def choices(
    levels: Annotated[int, typer.Option(help="Left-out levels of each number of levels.")] = 300,
    seed: Annotated[int, typer.Option(help="Seed; 1000 made the package.")] = 60_000,
) -> None:
    """Errors and intervals of simulated levels, left out before anything is calibrated."""
    # The longest first, so that no core waits for one of them at the end.
    batches = batches_of(packaged_prior(), LEVELS[1:-1], levels, seed)[::-1]
    named = [(f"{b.seed} {place}", one) for b in batches for place, one in enumerate(b.simulated())]
    work = [trial for name, one in named for trial in without_levels(name, one)]
    show_nested(rows_of("calibrating without levels", calibrated, work))


@app.command()
def unknowns(
    levels: Annotated[int, typer.Option(help="Levels of the series of each number of them.")] = 600,
    seed: Annotated[int, typer.Option(help="Seed; 1000 made the package.")] = 62_000,
) -> None:
    """Errors and intervals of new unknowns between the levels of simulated series."""
    work = []
    for batch in batches_of(packaged_prior(), LEVELS[:-1], levels, seed)[::-1]:
        draws, size = Draws.of(batch.seed, torch.device("cpu")), (batch.series, batch.levels)
        found = simulate(draws, *size, errors=batch.errors, unknowns=UNKNOWNS)
        for place, (amounts, spectra) in enumerate(zip(*map(np.asarray, found), strict=True)):
            facts = {"series": f"{batch.seed} {place}", "levels": batch.levels, "inside": True}
            facts["span"] = float(np.ptp(amounts))
            out = np.arange(len(amounts)) >= batch.levels
            work.append(Trial.without(facts, amounts, spectra, out))
    show_nested(rows_of("calibrating", calibrated, work))


@app.command()
def series(
    folders: Annotated[list[Path], typer.Argument(help="Folders of files, one a series.")],
    most: Annotated[int, typer.Option(help="Largest number of levels; the smallest is 5.")] = 16,
) -> None:
    """Errors and intervals of measured levels, left out before anything is calibrated."""
    named = [one for folder in folders for one in measured(folder).items()]
    named.sort(key=lambda one: -len(one[1].concentrations))
    work = [
        trial
        for name, one in named
        if 5 <= len(one.concentrations) <= most
        for trial in without_levels(name, one)
    ]
    show_nested(rows_of("calibrating without levels", calibrated, work), by_series=True)


def measured(folder: Path) -> dict[str, Series]:
    """Series of a folder by name, read as the parameters of the project say."""
    files = parameters_of_folder(folder, read_parameters(PARAMETERS).spectra)
    return {name: read_series_csv(own) for name, own in files.items()}


def without_levels(name: str, series: Series) -> list[Trial]:
    """A trial for every level of a series, which is its unknown."""
    levels = series.concentrations
    facts = {"series": name, "levels": len(levels), "span": float(np.ptp(levels))}
    return [
        Trial.without(
            facts | {"inside": fold.is_inside(fold.index)},
            levels,
            series.signal,
            np.arange(len(levels)) == fold.index,
        )
        for fold in leave_one_out(len(levels))[:-1]
    ]


def calibrated(trial: Trial, _: Progress) -> list[dict[str, Any]]:
    """Rows of errors, relative to the span of a series, and of coverage."""
    found, spectra = Calibration.fit(trial.spectra, trial.amounts), trial.unknowns
    middle, ends = found.estimate(spectra)
    estimates = {key: one.estimates(spectra) for key, one in found.fitted.items()}
    sets = [[(low, high)] for low, high in ends.tolist()]
    if found.curve is not None:
        of_geonode = found.by_geonode(spectra)
        estimates["geonode"] = of_geonode.mode
        sets = of_geonode.sets if found.method == "geonode" else sets
    # Nothing calibrates farther beyond the levels, and the combination estimates nothing there.
    low, high = found.concentrations.min(), found.concentrations.max()
    estimates = {key: one.clip(2 * low - high, 2 * high - low) for key, one in estimates.items()}
    estimates["auto"] = middle
    columns = {key: (one - trial.true) / trial.facts["span"] for key, one in estimates.items()}
    columns["covered"] = are_covered(trial.true, sets)
    columns["determined"] = is_determined(middle, ends, found.concentrations)
    facts = {"geonode alone": found.method == "geonode", "no use": found.verdict.chosen is None}
    return pd.DataFrame(columns).assign(**trial.facts, **facts).to_dict("records")


def show_nested(table: pd.DataFrame, by_series: bool = False) -> None:
    """Root mean square errors over that of the best method with hindsight, and coverage of sets."""
    methods = [key for key in [*CALIBRATIONS, "geonode"] if key in table]
    groups = ["levels", "series"]
    parts = {} if table["inside"].all() else {"all levels": table}
    for name, rows in (parts | {"between the ends": table[table["inside"]]}).items():
        errors = rows.groupby(groups)[[*methods, "auto"]].agg(rms).clip(lower=1e-4)
        ratios = errors[["auto", "pls", "geonode"]].div(errors[methods].min(axis=1), axis=0)
        typer.echo(f"{name}, {len(ratios)} series: RMSEP over the best method with hindsight")
        if by_series:
            typer.echo(ratios.assign(best=errors[methods].idxmin(axis=1)).round(3).to_string())
        shown = ratios.groupby("levels").agg(geometric_mean)
        shown.loc["all"], shown.loc["worst"] = ratios.agg(geometric_mean), ratios.max()
        each = np.random.default_rng(0).integers(len(ratios), size=(1000, len(ratios)))
        means = np.exp(np.log(ratios.to_numpy())[each].mean(axis=1))
        shown.loc["2.5%"], shown.loc["97.5%"] = np.quantile(means, [0.025, 0.975], axis=0)
        typer.echo(
            shown.assign(RMSEP=errors["auto"].groupby("levels").agg(geometric_mean))
            .round(3)
            .to_string()
        )
    typer.echo(
        "90% sets cover, estimates are determined, none can be used, geonode alone estimates:"
    )
    kept = ["covered", "determined", "no use", "geonode alone"]
    typer.echo(table.groupby(["levels", "inside"])[kept].mean().unstack().round(3).to_string())
    typer.echo(table.groupby("inside")[kept].mean().round(3).to_string())


@app.command()
def samples(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder of CSV files with columns y_NAME.")
    ] = None,
    each: Annotated[int, typer.Option(help="Simulated calibrations of every class.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the first calibration.")] = 85_000,
    parts: Annotated[int, typer.Option(help="Most parts, left out in turn.")] = 10,
) -> None:
    """RMSEP over that of PLS of 1 to 20 components, and coverage of 90% intervals, by amount."""
    work = trials_of_samples(folder, each, seed, parts, fewest=1)
    if not work:
        raise typer.BadParameter("found no amounts, expected a folder with some, or --each")
    table = rows_of("calibrating samples", estimated_samples, work)
    groups = ["kind", "set", "substance"]
    errors = table.groupby(groups)[["auto", "PLS"]].agg(rms)
    ratios = (errors["auto"] / errors["PLS"]).rename("ratio").to_frame()
    ratios = ratios.join(table.groupby(groups)["covered"].mean())
    measured = ratios.index.get_level_values("set") == MEASURED
    typer.echo("RMSEP / PLS with inner five-fold, and coverage of intervals:")
    if measured.any():
        typer.echo(ratios[measured].round(3).to_string())
    for name, part in ("measured", ratios[measured]), ("simulated", ratios[~measured]):
        if len(part):
            shown = part.groupby("kind").agg({"ratio": geometric_mean, "covered": "mean"})
            shown.loc["all"] = geometric_mean(part["ratio"]), part["covered"].mean()
            typer.echo(f"{name}, {len(part)} amounts, worst {part['ratio'].max():.2f}:")
            typer.echo(shown.round(3).to_string())


MEASURED = -1
PLAIN = ["PLS of all", "PLS2 of all"]
"""Methods that others are compared with: fits to all samples, not means of fits to most."""


@app.command()
def mixtures(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder of CSV files with two columns y_NAME or more.")
    ] = None,
    count: Annotated[
        int, typer.Option(help="Simulated calibrations of substances that interact.")
    ] = 200,
    each: Annotated[int, typer.Option(help="Simulated calibrations of every class.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the first calibration.")] = 80_000,
    parts: Annotated[int, typer.Option(help="Most parts, left out in turn.")] = 20,
    only: Annotated[str, typer.Option(help="Class to simulate; all if empty.")] = "",
) -> None:
    """RMSEP over that of the better of PLS and PLS2, and coverage of 90% regions."""
    work = [simulated_mixtures(seed + number) for number in range(count)]
    work += trials_of_samples(folder, each, seed, parts, fewest=2)
    work = [trial for trial in work if only in ("", trial.facts["kind"])]
    table = rows_of("calibrating mixtures", estimated_mixtures, work)
    methods = [*NAMES, "combined"]
    errors = table.groupby(["kind", "set", "substance"])[[*methods, *PLAIN]].agg(rms)
    errors = errors[methods].div(errors[PLAIN].min(axis=1), axis=0)
    by_kind = errors.groupby("kind")
    shown = by_kind["combined"].agg(
        sets="size", combined=geometric_mean, q90=lambda e: e.quantile(0.9), worst="max"
    )
    held = table.groupby("kind")[["joint", "one", "fits"]].mean()
    shown = shown.join(by_kind[[*NAMES]].agg(geometric_mean)).join(held)
    typer.echo("RMSEP / the better of PLS and PLS2 of all samples, by substance; regions cover:")
    typer.echo(shown.round(3).to_string())
    whole = errors["combined"]
    typer.echo(
        f"all {len(whole)}: geometric mean {geometric_mean(whole):.3f}, 90% quantile "
        f"{whole.quantile(0.9):.3f}, worst {whole.max():.2f}"
    )
    if folder:
        kinds = [one.facts["kind"] for one in work if one.facts["set"] == MEASURED]
        typer.echo("combined, by substance:")
        typer.echo(whole.loc[[*dict.fromkeys(kinds)], MEASURED].unstack().round(3).to_string())
    typer.echo("90% regions cover, by number of compositions and of substances:")
    parts_of = pd.cut(table["compositions"], [0, 12, 16, 20, 25, 35, 60, 300])
    for groups in (parts_of, table["substances"]):
        held = table.groupby(groups, observed=True)[["joint", "one"]].mean()
        typer.echo(held.round(3).T.to_string())
    typer.echo(f"{len(table)} estimates; seconds of a fit at most {table['seconds'].max():.1f}")


def chosen_pls(spectra: np.ndarray, targets: np.ndarray, folds: np.ndarray) -> PLSRegression:
    """PLS of 1 to 20 components, the number with the smallest errors of folds left out."""
    most = max(1, min(20, len(spectra) - 2 - np.bincount(folds).max()))

    def error(count: int) -> float:
        model, split = PLSRegression(count, scale=False), PredefinedSplit(folds)
        found = cross_val_predict(model, spectra, targets, cv=split)
        return float(np.sum((found.reshape(targets.shape) - targets) ** 2))

    count = min(range(1, 1 + most), key=error)
    return PLSRegression(count, scale=False).fit(spectra, targets)


def rms(errors: pd.Series) -> float:
    """Root mean square."""
    return float(np.sqrt((errors**2).mean()))


def geometric_mean(values: pd.Series) -> float:
    """Geometric mean of positive numbers."""
    return float(np.exp(np.log(values).mean()))


def simulated_mixtures(seed: int) -> Trial:
    """Simulated calibration of 2 to 5 substances and 10 to 90 samples."""
    random = np.random.default_rng(seed)
    substances = int(random.choice([2, 2, 3, 3, 4, 5]))
    most = 45 if random.random() < 0.75 else 90
    samples = int(random.integers(max(10, 3 * substances + 2), most))
    draws = Draws.of(seed, torch.device("cpu"))
    found = simulate_mixtures(draws, substances, samples, UNKNOWNS)
    return Trial({"kind": "simulated", "set": seed}, *found)


def trials_of_samples(
    folder: Path | None, each: int, seed: int, parts: int, fewest: int
) -> list[Trial]:
    """Simulated calibrations of every class, and of tables of a folder without some compositions.

    Args:
        folder: of CSV.
        each: calibrations of every class.
        seed: of the first one.
        parts: most parts of compositions of a table.
        fewest: amounts of a table.
    """
    work = []
    for kind, number in product(CLASSES, range(seed, seed + each)):
        work.append(Trial({"kind": kind, "set": number}, *simulate_class(kind, number)))
    for file in sorted(folder.glob("*.csv")) if folder else []:
        table = pd.read_csv(file)
        names = [name for name in table if name.startswith("y_")]
        if len(names) < fewest:
            continue
        amounts, spectra = table[names].to_numpy(float), table.drop(columns=names).to_numpy(float)
        _, composition = np.unique(amounts, axis=0, return_inverse=True)
        shuffled = np.random.default_rng(0).permutation(composition.max() + 1)
        part = shuffled[composition] % min(parts, len(shuffled))
        facts = {"kind": file.stem, "set": MEASURED}
        work += [
            Trial.without(facts, amounts, spectra, part == number)
            for number in range(part.max() + 1)
        ]
    return work


def estimated_samples(trial: Trial, _: Progress) -> list[dict[str, Any]]:
    """Errors of every amount by itself, and whether its interval covers it."""
    rows = []
    inner = np.random.default_rng(0).permutation(len(trial.amounts)) % 5
    for substance, (known, true) in enumerate(zip(trial.amounts.T, trial.true.T, strict=True)):
        found, ends = Calibration.fit(trial.spectra, known).estimate(trial.unknowns)
        pls = chosen_pls(trial.spectra, known, inner).predict(trial.unknowns).ravel()
        inside = (ends[:, 0] <= true) & (true <= ends[:, 1])
        for auto, other, covered in zip(found - true, pls - true, inside, strict=True):
            errors = {"auto": auto, "PLS": other, "covered": covered}
            rows.append(trial.facts | {"substance": substance} | errors)
    return rows


def estimated_mixtures(trial: Trial, _: Progress) -> list[dict[str, Any]]:
    """Errors over the range by every method, and coverage of regions, of every amount."""
    start = perf_counter()
    calibration = MixtureCalibration.of(trial.spectra, trial.amounts)
    seconds = perf_counter() - start
    found = calibration.estimate(trial.unknowns)
    low, high = np.moveaxis(found.intervals, -1, 0)
    joint, one = found.holds(trial.true), (low <= trial.true) & (trial.true <= high)
    estimates = calibration.by_method(trial.unknowns) | {"combined": found.amounts}
    scale = trial.amounts.std(axis=0)
    targets = (trial.amounts - trial.amounts.mean(axis=0)) / scale
    single = [chosen_pls(trial.spectra, one, calibration.design.folds) for one in targets.T]
    models = {
        "PLS of all": single,
        "PLS2 of all": [chosen_pls(trial.spectra, targets, calibration.design.folds)],
    }
    for key, fits in models.items():
        by_column = [fit.predict(trial.unknowns).reshape(len(trial.unknowns), -1) for fit in fits]
        estimates[key] = trial.amounts.mean(axis=0) + scale * np.concatenate(by_column, axis=1)
    ranges, rows = calibration.design.ranges, []
    for unknown, substance in np.ndindex(*trial.true.shape):
        at = unknown, substance
        facts = trial.facts | {"substance": substance}
        facts |= {"substances": len(ranges), "seconds": seconds, "fits": found.fits[unknown]}
        facts["compositions"] = calibration.design.compositions
        errors = {key: (e[at] - trial.true[at]) / ranges[substance] for key, e in estimates.items()}
        rows.append(facts | {"joint": joint[unknown], "one": one[at]} | errors)
    return rows


if __name__ == "__main__":
    app()
