"""Lines on the screen about several substances."""

from typing import TYPE_CHECKING

from geonode.commands.common import MOST_LINES, aligned

if TYPE_CHECKING:
    from geonode.calibration.mixture_file import MixtureFile


def shown_errors(found: "MixtureFile") -> list[str]:
    """Errors of the methods, one line a substance."""
    from geonode.calibration.mixture_file import METHODS  # noqa: PLC0415

    errors, shown = found.calibration.rmsep, ("combined", "pls", "pls2")
    rows = [["substance", *(f"RMSEP {METHODS[key]}" for key in shown), "best method"]]
    for place, name in enumerate(found.series.named):
        numbers = [f"{errors[key][place]:.3g}" for key in shown]
        rows.append([name, *numbers, METHODS[found.calibration.verdict[place]]])
    return aligned(rows)


def shown_mixtures(found: "MixtureFile") -> list[str]:
    """Estimated amounts, one line an unknown spectrum."""
    unknowns = [one for _, of_file in found.unknowns for one in of_file]
    rows = [["spectrum", *found.series.named, "remark"]]
    for one in unknowns[:MOST_LINES]:
        amounts = [
            f"{amount:.4g} ({low:.4g} to {high:.4g})" if one.fits else "-"
            for amount, low, high in one.numbers
        ]
        rows.append([one.name, *amounts, one.remark])
    left = len(unknowns) - MOST_LINES
    return [*aligned(rows), *[f"and {left} more, in the table of unknowns"] * (left > 0)]
