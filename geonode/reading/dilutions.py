"""Factors by which samples were diluted before they were measured."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from geonode.errors import ParameterError, SpectraError
from geonode.reading.files import read_format
from geonode.reading.refusals import errors_naming
from geonode.reading.sheet import THOUSANDS, Cells, plain_name, to_number

DILUTION = "dilution"

LARGEST = 1e12
"""Dilution; by its reciprocal a sample may be concentrated."""

FACTOR_EXPECTED = (
    f"a number above 0, up to {LARGEST:g}, without marks of thousands, such as 10 for 1 part in 10"
)


def factor_of(text: str) -> float:
    """Dilution that a text is; 0: it is none, or may be thousands, as 1,000 is."""
    found = None if THOUSANDS.fullmatch(text.strip()) else to_number(text.strip(), None)
    return found if found is not None and 1 / LARGEST <= found <= LARGEST else 0.0


def factors_of(path: Path) -> dict[str, float]:
    """Dilutions of a table by name, which is in its first column; an empty cell is 1.

    Raises:
        SpectraError: it cannot be read, has no column of dilutions, names a sample twice, or a cell
            is no dilution.
        ParameterError: there is no such file.
    """
    if not path.is_file():
        raise ParameterError("options", "--dilution", str(path), f"{FACTOR_EXPECTED}, or a table")
    with errors_naming(path):
        grid = read_format(path, of_names=True)
        header = [one.strip().lower() for one in grid.header] if isinstance(grid, Cells) else []
        if not isinstance(grid, Cells) or header[1:].count(DILUTION) != 1:
            found = ", ".join(map(repr, header[:5])) or "spectra"
            raise SpectraError(f"found {found}, expected columns of names and one {DILUTION!r}")
        factors: dict[str, float] = {}
        for row, cells in grid.rows:
            text = cells[header.index(DILUTION)].strip()
            text = text.replace(",", ".") if grid.decimal == "," else text
            factor = factor_of(text) if text else 1.0
            name = plain_name(cells[0])
            if not factor or name in factors:
                said = f"{name!r} again" if factor else f"{text!r}, expected {FACTOR_EXPECTED}"
                raise SpectraError(f"row {row}: found {said}")
            factors[name] = factor
        return factors


def require_every(path: Path, factors: dict[str, float], samples: Iterable[Sequence[str]]) -> None:
    """Refuse a table of dilutions without one of a sample, which may have several names.

    Raises:
        SpectraError: naming the sample.
    """
    for names in samples:
        if factors.keys().isdisjoint(names):
            found = f"{path}: found no dilution of {names[0]!r}"
            raise SpectraError(f"{found}, expected one of every spectrum, 1 if it was not diluted")
