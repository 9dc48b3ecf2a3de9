"""Tables of a calibration of several substances."""

import numpy as np

from geonode import __version__
from geonode.calibration.calibrated_file import PROPOSALS
from geonode.calibration.mixture_file import METHODS, MixtureFile
from geonode.mixtures.mixture import NAMES
from geonode.mixtures.next_compositions import propose_mixtures
from geonode.report.table import Cell, Table
from geonode.spectra.series import labelled
from geonode.wording import listed

OTHERS = {
    "geonode": "by geonode",
    "preprocessed_pls": "by PLS on preprocessings",
    "reweighted_pls": "by reweighted PLS",
}
"""Methods whose estimates of samples are tabulated."""


def mixture_tables(file: MixtureFile, results: list[Table]) -> list[Table]:
    """All tables, the summary first, with those of results among them."""
    of_surface = [_pure(file), *_next(file)] if file.calibration.surface else []
    return [_summary(file), _errors(file), _left_out(file), *results, *of_surface]


def _summary(file: MixtureFile) -> Table:
    series, design = file.series, file.calibration.design
    low, high = series.axis[[0, -1]].tolist()
    rows: list[list[Cell]] = [
        ["verdict", file.sentence],
        ["file", file.source],
        ["samples", float(len(series.samples))],
        ["compositions", float(design.compositions)],
        ["substances", listed(series.named)],
        ["wavelengths", float(len(series.axis))],
        ["axis", f"{low:.10g} to {high:.10g} {series.labels['axis_unit']}".removesuffix(" 1")],
        ["made by", f"geonode {__version__} calibrate"],
    ]
    return Table("summary", "Summary", ["what", "value"], rows)


def _errors(file: MixtureFile) -> Table:
    found, rows = file.calibration, []
    ends, amounts = found.left_out_intervals, file.series.amounts
    held = ((ends[..., 0] <= amounts) & (amounts <= ends[..., 1])).sum(axis=0)
    tried = {key: one for key, one in METHODS.items() if key in found.rmsep}
    columns = ["substance", *(f"RMSEP, {one}" for one in tried.values()), "best method"]
    columns += ["its weight", "RMSEP of the range", "inside the intervals", "lowest", "highest"]
    for place, name in enumerate(file.series.named):
        errors = [float(found.rmsep[key][place]) for key in tried]
        low, high = float(found.design.low[place]), float(found.design.high[place])
        weight, relative = found.weights[:, place].max(), file.of_range[place]
        best = NAMES[found.verdict[place]]
        inside = f"{held[place]} of {len(found.design.amounts)}"
        row: list[Cell] = [name, *errors, best, float(weight), float(relative), inside, low, high]
        rows.append(row)
    return Table("errors", "Errors of samples whose composition was left out", columns, rows)


def _left_out(file: MixtureFile) -> Table:
    found, columns = file.calibration, ["sample"]
    others = {key: what for key, what in OTHERS.items() if key in found.left_out}
    for name, unit in zip(file.series.substances, file.series.units, strict=True):
        of_one = ("measured", "estimated", "low90", "high90", *others.values())
        columns += [labelled(f"{name} {what}", unit) for what in of_one]
    ends = found.left_out_intervals
    by_others = [found.left_out[key] for key in others]
    each = [file.series.amounts, found.left_out["combined"], ends[..., 0], ends[..., 1], *by_others]
    values = np.stack(each, axis=2).reshape(len(ends), -1)
    rows: list[list[Cell]] = [
        [name, *row] for name, row in zip(file.series.samples, values.tolist(), strict=True)
    ]
    return Table("left_out", "Samples, estimated without their composition", columns, rows)


def _pure(file: MixtureFile) -> Table:
    columns, numbers = [file.series.axis_label], [file.series.axis]
    for place, name in enumerate(file.series.named):
        columns += [f"d signal / d {name}", "± 90%"]
        numbers += [file.pure[:, place], file.pure_half_widths[:, place]]
    rows = [list(row) for row in np.column_stack(numbers).tolist()]
    return Table(
        "pure", "Spectra of the substances: change of the signal per amount", columns, rows
    )


def _next(file: MixtureFile) -> list[Table]:
    signal = labelled("expected error there", file.series.labels["signal_unit"])
    columns = [*file.series.named, signal, "gain, share of the error"]
    if (surface := file.calibration.surface) is None:
        return []
    found = propose_mixtures(surface, PROPOSALS)
    rows: list[list[Cell]] = [[*one.amounts, one.expected_error, one.gain] for one in found]
    return [Table("next", "Mixtures to prepare next", columns, rows)]
