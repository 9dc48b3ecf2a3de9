"""Style of all figures, and their writing as reproducible PNG, without pyplot.

Figures do not depend on the reader's matplotlib settings: the same numbers give the same bytes.
Colours are those of Okabe and Ito, Color Universal Design (2008), for colour-blind readers.
"""

from pathlib import Path

from matplotlib import style
from matplotlib.figure import Figure

from geonode.storage.atomic import replacing

MEASURED, MODEL, SECOND = "#000000", "#D55E00", "#0072B2"  # black, vermillion, blue

DPI = 110

_STYLE = {
    "figure.dpi": DPI,
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.1,
    "text.parse_math": False,  # names from a table are no formulas
}

styled = style.context(["default", _STYLE])
"""Decorator of functions that draw; also a context manager."""


@styled
def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, whole or not at all.

    Raises:
        ArtifactError: the operating system refuses.
    """
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", metadata={"Software": None})
