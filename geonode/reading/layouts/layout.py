"""What layouts of a table share.

A layout is a class with a `name` for people, `fit` (whether a table is laid out so, and why or why
not), and `sheet` (the spectra of a table that is).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from geonode.errors import SpectraError
from geonode.reading.headers import concentration_header, wavelength


@dataclass(frozen=True)
class Asked:
    """Wishes with which a table is read.

    Attributes:
        series: whether its spectra should be named by concentrations rather than by names.
        target: which amount to take where a table gives several; None: the only one.
        called: name of a spectrum to which the table gives none.
    """

    series: bool = False
    target: str | None = None
    called: str = "signal"


class Fit(NamedTuple):
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


def amount_name(header: str) -> str:
    """Name of an amount without its unit, and without the `y_` of multivariate tables."""
    bare = concentration_header(header)[0].strip()
    return bare[2:] if is_marked_amount(bare) else bare


def is_marked_amount(header: str) -> bool:
    """Whether a header is that of an amount, as `y_protein` is."""
    return len(header) > 2 and header[:2].lower() in ("y_", "y.", "y:")
