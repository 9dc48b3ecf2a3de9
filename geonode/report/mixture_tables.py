"""Tables of a calibration of several substances."""

from geonode import __version__
from geonode.calibration.calibrated_file import PROPOSALS
from geonode.calibration.mixture_file import METHODS, MixtureFile
from geonode.mixtures.mixture import NAMES
from geonode.mixtures.next_compositions import propose_mixtures
from geonode.storage.table import Cell, Column, Table
from geonode.wording import listed


def mixture_tables(file: MixtureFile, results: list[Table]) -> list[Table]:
    """All tables, the summary first, with those of results among them."""
    made = [_mixture_summary(file), errors_table(file), _left_out_samples(file)]
    return [*made, *results, _pure_spectra(file), _next_mixtures(file)]


def errors_table(file: MixtureFile) -> Table:
    """Errors of all methods, the combined one first, by substance."""
    found, design = file.calibration, file.calibration.design
    ends, amounts = found.left_out_intervals, file.series.amounts
    inside = ((ends[..., 0] <= amounts) & (amounts <= ends[..., 1])).sum(axis=0)
    columns = [
        Column("substance", file.series.named),
        *(Column(f"RMSEP, {name}", found.rmsep[key]) for key, name in METHODS.items()),
        Column("best method", [NAMES[key] for key in found.verdict]),
        Column("its weight", found.weights.max(axis=0)),
        Column("RMSEP of the range", file.of_range),
        Column("inside the intervals", [f"{count} of {len(design.amounts)}" for count in inside]),
        Column("lowest", design.low),
        Column("highest", design.high),
    ]
    return Table("errors", "Errors of samples whose composition was left out", columns)


def _mixture_summary(file: MixtureFile) -> Table:
    series = file.series
    low, high = series.axis[[0, -1]].tolist()
    facts: list[tuple[str, Cell]] = [
        ("verdict", file.sentence),
        ("file", file.source),
        ("samples", len(series.samples)),
        ("compositions", int(file.calibration.design.compositions)),
        ("substances", listed(series.named)),
        ("wavelengths", len(series.axis)),
        ("axis", f"{low:.10g} to {high:.10g} {series.labels['axis_unit']}".removesuffix(" 1")),
        ("made by", f"geonode {__version__} calibrate"),
    ]
    return Table.of_facts("summary", "Summary", facts)


def _left_out_samples(file: MixtureFile) -> Table:
    found, series = file.calibration, file.series
    columns = [Column("sample", series.samples)]
    for place, (name, unit) in enumerate(zip(series.substances, series.units, strict=True)):
        numbers = {
            "measured": series.amounts[:, place],
            "estimated": found.left_out["combined"][:, place],
            "low90": found.left_out_intervals[:, place, 0],
            "high90": found.left_out_intervals[:, place, 1],
            "by geonode": found.left_out["geonode"][:, place],
            "by PLS": found.left_out["pls"][:, place],
            "by PLS2": found.left_out["pls2"][:, place],
        }
        columns += [
            Column(f"{name} {what}", values, unit, group=name) for what, values in numbers.items()
        ]
    return Table("left_out", "Samples, estimated without their composition", columns)


def _pure_spectra(file: MixtureFile) -> Table:
    columns = [Column(file.series.axis_label, file.series.axis)]
    for place, name in enumerate(file.series.named):
        columns.append(Column(f"d signal / d {name}", file.pure[:, place]))
        columns.append(Column("± 90%", file.pure_half_widths[:, place]))
    title = "Spectra of the substances: change of the signal per amount"
    return Table("pure", title, columns)


def _next_mixtures(file: MixtureFile) -> Table:
    found = propose_mixtures(file.calibration.forward, PROPOSALS)
    amounts = zip(*(one.amounts for one in found), strict=True)
    columns = [Column(*one) for one in zip(file.series.named, amounts, strict=True)]
    errors = [one.expected_error for one in found]
    signal_unit = file.series.labels["signal_unit"]
    columns.append(Column("expected error there", errors, signal_unit))
    columns.append(Column("gain, share of the error", [one.gain for one in found]))
    return Table("next", "Mixtures to prepare next", columns)
