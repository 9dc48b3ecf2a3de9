"""Lines on the screen about a calibration and its results."""

from typing import TYPE_CHECKING, Any

from geonode.commands.common import MOST_SHOWN
from geonode.terminal import aligned, refuse, tell

if TYPE_CHECKING:
    from geonode.calibration.calibration_file import CalibrationFile
    from geonode.calibration.several_substances import SeveralSubstances
    from geonode.report.table import Table


def tell_checks(found: "CalibrationFile[Any]") -> bool:
    """Say how controls and validation came out, failed ones in red; whether one failed."""
    for control in found.controls:
        (tell if control.passed else refuse)(control.sentence(found.unit))
    for judged in found.validations:
        (refuse if judged.fails else tell)(judged.sentence(found.unit))
    passed = [control.passed for control in found.controls]
    return not all(passed) or any(judged.fails for judged in found.validations)


def shown_errors(model: "SeveralSubstances") -> list[str]:
    """Errors of the methods, one line a substance."""
    from geonode.calibration.several_substances import COMPARED  # noqa: PLC0415

    errors, shown = model.calibration.rmsep, ("combined", "pls", "pls2")
    rows = [["substance", *(f"RMSEP {COMPARED[key]}" for key in shown), "best method"]]
    for place, name in enumerate(model.series.named):
        numbers = [f"{errors[key][place]:.3g}" for key in shown]
        rows.append([name, *numbers, COMPARED[model.calibration.verdict[place]]])
    return aligned(rows)


def shown_unknowns(found: "CalibrationFile[Any]", table: "Table") -> list[str]:
    """The first estimates of the table of unknowns, one line a spectrum, with their remarks."""
    from geonode.estimation.tables import cell_text  # noqa: PLC0415

    shown, remark = table.rows[:MOST_SHOWN], table.columns.index("remark")
    left = len(table.rows) - MOST_SHOWN
    more = [f"and {left} more; --out writes all of them"] * (left > 0)
    if found.series.is_of_one:
        cells = [(*row[:6], row[remark]) for row in [table.columns, *shown]]
        return [*aligned([[cell_text(one) for one in row] for row in cells]), *more]
    rows = [["file", "spectrum", *found.series.named, "remark"]]
    each = [(name, one) for name, estimates in found.unknowns for one in estimates]
    for (name, one), row in zip(each, shown, strict=False):
        amounts = [
            f"{amount:.4g} ({low:.4g} to {high:.4g})" if one.fits else "-"
            for amount, low, high in one.numbers
        ]
        rows.append([name, one.name, *amounts, str(row[remark])])
    return [*aligned(rows), *more]
