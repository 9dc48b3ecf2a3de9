"""Tables of a calibration of several substances."""

from geonode import __version__
from geonode.calibration.calibration_file import CalibrationFile
from geonode.calibration.one_substance import PROPOSALS
from geonode.calibration.several_substances import METHODS, SeveralSubstances
from geonode.mixtures.mixture import NAMES
from geonode.mixtures.next_compositions import propose_mixtures
from geonode.storage.table import Cell, Column, Table
from geonode.wording import listed


def mixture_tables(file: CalibrationFile[SeveralSubstances], results: list[Table]) -> list[Table]:
    """All tables, the summary first, with those of results among them."""
    model = file.model
    made = [_mixture_summary(file), errors_table(model), _left_out_samples(model)]
    return [*made, *results, _pure_spectra(model), _next_mixtures(model)]


def errors_table(model: SeveralSubstances) -> Table:
    """Errors of all methods, the combined one first, by substance."""
    found, design = model.calibration, model.calibration.design
    ends, amounts = found.left_out_intervals, model.series.amounts
    inside = ((ends[..., 0] <= amounts) & (amounts <= ends[..., 1])).sum(axis=0)
    columns = [
        Column("substance", model.series.named),
        *(Column(f"RMSEP, {name}", found.rmsep[key]) for key, name in METHODS.items()),
        Column("best method", [NAMES[key] for key in found.verdict]),
        Column("its weight", found.weights.max(axis=0)),
        Column("RMSEP of the range", model.of_range),
        Column("inside the intervals", [f"{count} of {len(design.amounts)}" for count in inside]),
        Column("lowest", design.low),
        Column("highest", design.high),
    ]
    return Table("errors", "Errors of samples whose composition was left out", columns)


def _mixture_summary(file: CalibrationFile[SeveralSubstances]) -> Table:
    series = file.series
    low, high = series.axis[[0, -1]].tolist()
    facts: list[tuple[str, Cell]] = [
        ("verdict", file.model.sentence),
        ("file", file.source),
        ("samples", len(series.samples)),
        ("compositions", int(file.model.calibration.design.compositions)),
        ("substances", listed(series.named)),
        ("wavelengths", len(series.axis)),
        ("axis", f"{low:.10g} to {high:.10g} {series.labels['axis_unit']}".removesuffix(" 1")),
        ("made by", f"geonode {__version__} calibrate"),
    ]
    return Table.of_facts("summary", "Summary", facts)


def _left_out_samples(model: SeveralSubstances) -> Table:
    found, series = model.calibration, model.series
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


def _pure_spectra(model: SeveralSubstances) -> Table:
    columns = [Column(model.series.axis_label, model.series.axis)]
    for place, name in enumerate(model.series.named):
        columns.append(Column(f"d signal / d {name}", model.pure[:, place]))
        columns.append(Column("± 90%", model.pure_half_widths[:, place]))
    title = "Spectra of the substances: change of the signal per amount"
    return Table("pure", title, columns)


def _next_mixtures(model: SeveralSubstances) -> Table:
    found = propose_mixtures(model.calibration.forward, PROPOSALS)
    amounts = zip(*(one.amounts for one in found), strict=True)
    columns = [Column(*one) for one in zip(model.series.named, amounts, strict=True)]
    errors = [one.expected_error for one in found]
    signal_unit = model.series.labels["signal_unit"]
    columns.append(Column("expected error there", errors, signal_unit))
    columns.append(Column("gain, share of the error", [one.gain for one in found]))
    return Table("next", "Mixtures to prepare next", columns)
