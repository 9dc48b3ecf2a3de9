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
from research.simulated_sets import BATCH, LEVELS, Batch, batches_of, left_out
from stages.paths import PARAMETERS

Job = TypeVar("Job")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def rows_of(
    words: str,
    work: Callable[[Job, Progress], list[dict[str, Any]]],
    jobs: Sequence[Job],
    steps: int | None = None,
) -> pd.DataFrame:
    """Rows that a function of a module gives for every job, on all cores.

    The bar with these words has a step for every job, if nothing else is given.
    """
    rows: list[dict[str, Any]] = []
    with bar(words, len(jobs) if steps is None else steps) as report:
        for _, found in finished(work, jobs, processes_for(len(jobs), "cpu"), report):
            rows += found
    return pd.DataFrame(rows)


UNKNOWNS = 20
"""Of every simulated mixture or series."""


@app.command()
def simulated(
    levels: Annotated[int, typer.Option(help="Left-out levels of each number of levels.")] = 1200,
    seed: Annotated[int, typer.Option(help="Seed; 1000 made the package.")] = 50_000,
) -> None:
    """Shares of simulated levels within sets of a level, and of spectra in 90% intervals."""
    batches = batches_of(packaged_prior(), LEVELS, levels, seed)
    table = rows_of("leaving levels out", held, batches, len(batches) * BATCH)
    shares = table.groupby(["levels", "inside"]).agg("mean").unstack()
    typer.echo(shares.round(3).to_string())
    typer.echo(f"{len(table)} levels")


def held(batch: Batch, report: Progress = silent) -> list[dict[str, Any]]:
    """Whether every level of a batch is in its sets, and the share of its spectrum in intervals."""
    found = left_out(batch, report)
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
    words, steps = "calibrating without levels", len(batches) * BATCH
    show_nested(rows_of(words, without_simulated, batches, steps))


@app.command()
def unknowns(
    levels: Annotated[int, typer.Option(help="Levels of the series of each number of them.")] = 600,
    seed: Annotated[int, typer.Option(help="Seed; 1000 made the package.")] = 62_000,
) -> None:
    """Errors and intervals of new unknowns between the levels of simulated series."""
    batches = batches_of(packaged_prior(), LEVELS[:-1], levels, seed)[::-1]
    steps = sum(batch.series for batch in batches)
    show_nested(rows_of("calibrating", of_unknowns, batches, steps))


@app.command()
def series(
    folders: Annotated[list[Path], typer.Argument(help="Folders of files, one a series.")],
    most: Annotated[int, typer.Option(help="Largest number of levels; the smallest is 5.")] = 16,
) -> None:
    """Errors and intervals of measured levels, left out before anything is calibrated."""
    common, work = read_parameters(PARAMETERS).spectra, []
    for folder in folders:
        for name, own in parameters_of_folder(folder, common).items():
            one = read_series_csv(own)
            if 5 <= len(one.concentrations) <= most:
                work.append((name, one))
    work.sort(key=lambda one: -len(one[1].concentrations))
    steps = sum(len(one.concentrations) for _, one in work)
    show_nested(rows_of("calibrating without levels", without_each, work, steps), by_series=True)


def without_simulated(batch: Batch, report: Progress = silent) -> list[dict[str, Any]]:
    """Rows of `without_each` of all series of a batch."""
    each = [(f"{batch.seed} {place}", one) for place, one in enumerate(batch.simulated())]
    return [row for one in each for row in without_each(one, report)]


def without_each(named: tuple[str, Series], report: Progress = silent) -> list[dict[str, Any]]:
    """Errors over the range by what is calibrated without each level, and coverage of sets."""
    name, series = named
    levels, spectra, rows = series.concentrations, series.signal, []
    for fold in leave_one_out(len(levels))[:-1]:
        kept, out = fold.training, [fold.index]
        found = Calibration.fit(spectra[kept], levels[kept])
        facts = {"series": name, "levels": len(levels), "inside": fold.is_inside(fold.index)}
        rows += estimated(found, levels[out], spectra[out], float(np.ptp(levels)), facts)
        report(1)
    return rows


def of_unknowns(batch: Batch, report: Progress = silent) -> list[dict[str, Any]]:
    """Errors of new unknowns of all series of a batch, and coverage of sets."""
    draws, rows = Draws.of(batch.seed, torch.device("cpu")), []
    simulated = simulate(draws, batch.series, batch.levels, errors=batch.errors, unknowns=UNKNOWNS)
    each = zip(*(part.numpy() for part in simulated), strict=True)
    for place, (levels, spectra) in enumerate(each):
        known, new = slice(batch.levels), slice(batch.levels, None)
        found = Calibration.fit(spectra[known], levels[known])
        facts = {"series": f"{batch.seed} {place}", "levels": batch.levels, "inside": True}
        rows += estimated(found, levels[new], spectra[new], float(np.ptp(levels)), facts)
        report(1)
    return rows


def estimated(
    found: Calibration, levels: np.ndarray, spectra: np.ndarray, span: float, facts: dict[str, Any]
) -> list[dict[str, Any]]:
    """Rows of errors, relative to a span, and of coverage, for spectra not calibrated with."""
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
    columns = {key: (one - levels) / span for key, one in (estimates | {"auto": middle}).items()}
    columns["covered"] = are_covered(levels, sets)
    columns["determined"] = is_determined(middle, ends, found.concentrations)
    facts |= {"geonode alone": found.method == "geonode", "no use": found.verdict.chosen is None}
    return pd.DataFrame(columns).assign(**facts).to_dict("records")


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
    work = folds_of_samples(folder, each, seed, parts, fewest=1)
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
    work = [MixtureFold.of(seed + number) for number in range(count)]
    work += folds_of_samples(folder, each, seed, parts, fewest=2)
    work = [fold for fold in work if only in ("", fold.kind)]
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
        kinds = [one.kind for one in work if one.number == MEASURED]
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
    squares = []
    for count in range(1, 1 + max(1, min(20, len(spectra) - 2 - np.bincount(folds).max()))):
        errors = [
            PLSRegression(count, scale=False)
            .fit(spectra[~out], targets[~out])
            .predict(spectra[out])
            .reshape(out.sum(), -1)
            - targets[out].reshape(out.sum(), -1)
            for out in (folds == fold for fold in range(folds.max() + 1))
        ]
        squares.append(np.sum(np.concatenate(errors) ** 2))
    return PLSRegression(1 + int(np.argmin(squares)), scale=False).fit(spectra, targets)


def rms(errors: pd.Series) -> float:
    """Root mean square."""
    return float(np.sqrt((errors**2).mean()))


def geometric_mean(values: pd.Series) -> float:
    """Geometric mean of positive numbers."""
    return float(np.exp(np.log(values).mean()))


class MixtureFold(NamedTuple):
    """Samples, and unknowns of known amounts."""

    kind: str  # "simulated", a class of these, or the name of the table
    number: int  # its seed, or `MEASURED`
    amounts: np.ndarray
    spectra: np.ndarray
    """Amounts and spectra of the samples."""
    true: np.ndarray
    unknowns: np.ndarray
    """Amounts and spectra of the unknowns."""

    @classmethod
    def of(cls, seed: int) -> "MixtureFold":
        """Simulated calibration of 2 to 5 substances and 10 to 90 samples."""
        random = np.random.default_rng(seed)
        substances = int(random.choice([2, 2, 3, 3, 4, 5]))
        most = 45 if random.random() < 0.75 else 90
        samples = int(random.integers(max(10, 3 * substances + 2), most))
        draws = Draws.of(seed, torch.device("cpu"))
        found = simulate_mixtures(draws, substances, samples, UNKNOWNS)
        return cls("simulated", seed, *found)

    @classmethod
    def of_table(
        cls, name: str, table: pd.DataFrame, names: list[str], parts: int
    ) -> list["MixtureFold"]:
        """Folds of a measured table, by compositions."""
        amounts, spectra = table[names].to_numpy(float), table.drop(columns=names).to_numpy(float)
        _, composition = np.unique(amounts, axis=0, return_inverse=True)
        shuffled = np.random.default_rng(0).permutation(composition.max() + 1)
        part = shuffled[composition] % min(parts, len(shuffled))
        outs = [part == number for number in range(part.max() + 1)]
        return [cls(name, MEASURED, amounts[~o], spectra[~o], amounts[o], spectra[o]) for o in outs]


def folds_of_samples(
    folder: Path | None, each: int, seed: int, parts: int, fewest: int
) -> list[MixtureFold]:
    """Simulated calibrations of every class, and folds of the tables of a folder.

    Args:
        folder: of CSV.
        each: calibrations of every class.
        seed: of the first one.
        parts: most parts of compositions of a table.
        fewest: amounts of a table.
    """
    work = []
    for one, number in product(CLASSES, range(each)):
        work.append(MixtureFold(one, seed + number, *simulate_class(one, seed + number)))
    for file in sorted(folder.glob("*.csv")) if folder else []:
        table = pd.read_csv(file)
        names = [name for name in table if name.startswith("y_")]
        if len(names) >= fewest:
            work += MixtureFold.of_table(file.stem, table, names, parts)
    return work


def estimated_samples(fold: MixtureFold, report: Progress = silent) -> list[dict[str, Any]]:
    """Errors of every amount by itself, and whether its interval covers it."""
    rows = []
    inner = np.random.default_rng(0).permutation(len(fold.amounts)) % 5
    for substance, (known, true) in enumerate(zip(fold.amounts.T, fold.true.T, strict=True)):
        found, ends = Calibration.fit(fold.spectra, known).estimate(fold.unknowns)
        pls = chosen_pls(fold.spectra, known, inner).predict(fold.unknowns).ravel()
        inside = (ends[:, 0] <= true) & (true <= ends[:, 1])
        for auto, other, covered in zip(found - true, pls - true, inside, strict=True):
            facts = {"kind": fold.kind, "set": fold.number, "substance": substance}
            rows.append(facts | {"auto": auto, "PLS": other, "covered": covered})
    report(1)
    return rows


def estimated_mixtures(fold: MixtureFold, report: Progress = silent) -> list[dict[str, Any]]:
    """Errors over the range by every method, and coverage of regions, of every amount."""
    start = perf_counter()
    calibration = MixtureCalibration.of(fold.spectra, fold.amounts)
    seconds = perf_counter() - start
    found = calibration.estimate(fold.unknowns)
    low, high = np.moveaxis(found.intervals, -1, 0)
    joint, one = found.holds(fold.true), (low <= fold.true) & (fold.true <= high)
    estimates = calibration.by_method(fold.unknowns) | {"combined": found.amounts}
    scale = fold.amounts.std(axis=0)
    targets = (fold.amounts - fold.amounts.mean(axis=0)) / scale
    single = [chosen_pls(fold.spectra, one, calibration.design.folds) for one in targets.T]
    models = {
        "PLS of all": single,
        "PLS2 of all": [chosen_pls(fold.spectra, targets, calibration.design.folds)],
    }
    for key, fits in models.items():
        by_column = [fit.predict(fold.unknowns).reshape(len(fold.unknowns), -1) for fit in fits]
        estimates[key] = fold.amounts.mean(axis=0) + scale * np.concatenate(by_column, axis=1)
    ranges, rows = calibration.design.ranges, []
    for unknown, substance in np.ndindex(*fold.true.shape):
        at = unknown, substance
        facts = {"kind": fold.kind, "set": fold.number, "substance": substance}
        facts |= {"substances": len(ranges), "seconds": seconds, "fits": found.fits[unknown]}
        facts["compositions"] = calibration.design.compositions
        errors = {key: (e[at] - fold.true[at]) / ranges[substance] for key, e in estimates.items()}
        rows.append(facts | {"joint": joint[unknown], "one": one[at]} | errors)
    report(1)
    return rows


if __name__ == "__main__":
    app()
