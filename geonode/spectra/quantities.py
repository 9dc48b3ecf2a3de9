"""Quantities that spectra are of, and their conversion where it is exact.

Absorbance is -log10 of transmittance (IUPAC Gold Book), and both may be percentages.
"""

import logging
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from geonode.errors import SpectraError
from geonode.spectra.table import Spectra
from geonode.terminal import printable

_LOG = logging.getLogger(__name__)

WORDS = {
    "absorbance": {"absorbance", "abs", "od"},
    "transmittance": {"transmittance", "transmission"},
    "reflectance": {"reflectance", "reflection"},
    "fluorescence": {"fluorescence", "emission"},
    "Kubelka-Munk": {"munk"},
}
"""Words for quantities."""

OF_PERCENT = {"t": "transmittance", "r": "reflectance"}
"""Letters for quantities beside a percent sign."""

OTHERS = {"log", "coefficient", "derivative", "difference", "normalized", "normalised"}
"""Words by which a text names another quantity, as log(1/R)."""

THOUSANDTHS = {"mau", "mabs"}
"""Units of absorbances a thousand times as large."""

UNSAID = "signal"
"""Name of a quantity that neither a file nor an option gives."""

LARGEST_SHARE = 2.0
"""Largest transmittance; larger ones are percentages that are not called so."""


def quantity_of(text: str | None) -> str | None:
    """Quantity that a text such as "%T" or "Absorbance (AU)" names; None: none, or several."""
    lower = (text or "").lower().replace("percent", "%").replace("optical density", "od")
    words, is_percent = {*re.findall("[a-z]+", lower)}, "%" in lower
    quantities = {name for name, own in WORDS.items() if own & words}
    if is_percent and not quantities:
        quantities = {name for letter, name in OF_PERCENT.items() if letter in words}
    if len(quantities) != 1 or OTHERS & words:
        return None
    (name,) = quantities
    if name == "absorbance" and THOUSANDTHS & words:
        return "milliabsorbance"
    return f"percent {name}" if is_percent and name in OF_PERCENT.values() else name


def one_quantity(quantities: Iterable[str | None]) -> str | None:
    """The quantity of spectra of which each tells its own, or nothing.

    Raises:
        SpectraError: there are several.
    """
    several = sorted({*quantities} - {None}, key=str)
    if len(several) > 1:
        raise SpectraError(f"found spectra of {several[0]} and {several[1]}, expected one quantity")
    return several[0] if several else None


def signal_of(asked: str, unit: str, in_file: str | None) -> str:
    """Name of the signal: as asked for, unless that is nothing or contradicts the file."""
    own = quantity_of(f"{asked} {unit}")
    if in_file is None or own == in_file or (own is None and asked != UNSAID):
        return asked
    if own is not None:
        _LOG.warning("spectra: found %s in the file, which is taken in place of %s", in_file, own)
    return in_file


def require_quantity(file: Path, labels: dict[str, str], quantity: str | None) -> str | None:
    """Quantity of a series, if spectra are of another one that is converted exactly.

    Args:
        file: of the spectra.
        labels: of the series.
        quantity: of the spectra; None: unknown, which may be that of the series.

    Raises:
        SpectraError: it is another one.
    """
    expected = quantity_of(f"{labels['signal'].partition(',')[0]} {labels['signal_unit']}")
    if expected is None or quantity in (None, expected):
        return None
    pair = {one.removeprefix("percent ") for one in (expected, str(quantity))}
    if len(pair) > 1 and pair != {"absorbance", "transmittance"}:
        raise SpectraError(
            f"{file}: found spectra of {quantity}, expected {expected} as calibrated; export that"
        )
    return expected


def in_quantity(file: Path, labels: dict[str, str], spectra: Spectra) -> Spectra:
    """Spectra in the quantity of a series, with a note if they were converted.

    Raises:
        SpectraError: as `require_quantity`, or there is no absorbance of a transmittance.
    """
    quantity, expected = spectra.quantity, require_quantity(file, labels, spectra.quantity)
    if expected is None or quantity is None:
        return spectra
    values = 10**-spectra.values if quantity == "absorbance" else spectra.values
    share = values / 100 if quantity.startswith("percent") else values
    smallest = 0.0 if expected == "absorbance" else -np.inf
    wrong = np.argwhere(~((share > smallest) & (share <= LARGEST_SHARE)))
    if wrong.size:
        place, at = wrong[0]
        raise SpectraError(
            f"{file}: spectrum {spectra.names[place]!r}: found a {quantity} of "
            f"{spectra.values[place, at]:g}, which is no {expected}; correct it, or its name"
        )
    if expected == "absorbance":
        share = -np.log10(share)
    values = 100 * share if expected.startswith("percent") else share
    note = f"{quantity} converted to {expected}"
    _LOG.warning("%s: %s", printable(str(file)), note)
    return replace(spectra, values=values, quantity=expected, converted=note)
