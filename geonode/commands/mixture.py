"""Lines on the screen about several substances."""

from typing import TYPE_CHECKING

from geonode.commands.common import MOST_LINES, aligned

if TYPE_CHECKING:
    from geonode.calibration.mixture_file import MixtureFile
    from geonode.report.table import Table


def shown_errors(found: "MixtureFile") -> list[str]:
    """Errors of the methods, one line a substance."""
    from geonode.calibration.mixture_file import METHODS  # noqa: PLC0415

    errors, shown = found.calibration.rmsep, ("combined", "preprocessed_pls", "reweighted_pls")
    rows = [["substance", *(f"RMSEP {METHODS[key]}" for key in shown), "best method"]]
    for place, name in enumerate(found.series.named):
        numbers = [f"{errors[key][place]:.3g}" for key in shown]
        rows.append([name, *numbers, METHODS[found.calibration.verdict[place]]])
    return aligned(rows)


def shown_mixtures(table: "Table") -> list[str]:
    """Estimated amounts of the table of unknowns, one line a spectrum."""
    rows = [["file", "spectrum", *table.columns[4::3], "remark"]]
    for file, name, fits, remark, *numbers in table.rows[:MOST_LINES]:
        amounts = [
            f"{amount:.4g} ({low:.4g} to {high:.4g})" if fits else "-"
            for amount, low, high in zip(*(numbers[at::3] for at in range(3)), strict=True)
        ]
        rows.append([str(file), str(name), *amounts, str(remark)])
    left = len(table.rows) - MOST_LINES
    return [*aligned(rows), *[f"and {left} more, in the table of unknowns"] * (left > 0)]
