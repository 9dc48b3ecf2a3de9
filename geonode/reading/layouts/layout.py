"""What layouts of a table share.

A layout is a class with a `name` for people, `fit` (whether a table is laid out so, and why or why
not), and `long`: values by spectrum and wavelength of one that is, and all texts about the spectra.
They are grouped by spectrum: a damaged axis of a wide table has to be seen before values are sorted
by it, and one row a value would need three times the memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from geonode.errors import SpectraError
from geonode.reading.headers import wavelength


@dataclass(frozen=True)
class Asked:
    """Wishes with which a table is read."""

    series: bool = False
    """Whether its spectra should be named by concentrations rather than by names."""
    target: str | None = None
    """Which amount to take where a table gives several; None: the only one."""
    called: str = "signal"
    """Name of a spectrum to which the table gives none."""


class LayoutFit(NamedTuple):
    """Whether a layout fits a table, and why or why not, for people."""

    fits: bool
    reason: str


def axis_of(
    texts: Sequence[str], places: Sequence[str], unit: str
) -> tuple[Float[np.ndarray, "wavelength"], str]:
    """Spectral axis and its unit.

    Args:
        texts: cells of the axis, with or without a unit.
        places: where each stands, for messages.
        unit: unit in the name of the axis; "1" if it has none.

    Raises:
        SpectraError: a cell is no finite number, or has another unit.
    """
    axis = np.empty(len(texts))
    for at, (text, place) in enumerate(zip(texts, places, strict=True)):
        found, own = wavelength(text) or (np.nan, None)
        if not np.isfinite(found):
            raise SpectraError(
                f"{place}: found {text[:40]!r} on the axis, expected a finite number, such as 400 "
                "or 400 nm"
            )
        if own is not None and unit not in ("1", own):
            raise SpectraError(
                f"{place}: found units {unit} and {own} on one axis, expected one; convert it first"
            )
        axis[at], unit = found, own or unit
    return axis, unit
