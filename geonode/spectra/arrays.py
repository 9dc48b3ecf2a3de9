"""Arrays that users pass, as numbers to compute with; all others are refused in one line."""

from numbers import Real
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from geonode.errors import SpectraError

MOST_VALUES = 50_000_000
"""Numbers of all spectra together: 400 MB."""

LARGEST_NUMBER, SMALLEST_NUMBER = 1e30, 1e-30
"""Sizes whose fourth powers can be summed even in single precision."""


def real_array(given: Any, name: str, **dims: int | None) -> Float[np.ndarray, "..."]:
    """Contiguous array of finite double-precision numbers in the byte order of this machine.

    Args:
        given: anything array-like: lists, tables of pandas, views in any order.
        name: of the argument, for messages.
        dims: lengths of its dimensions; None: any.

    Raises:
        SpectraError: as `plain_array`, or it is empty or has other dimensions, what is no real
            number, or numbers that are not finite or of no usual size.
    """
    found = plain_array(given, name)
    what = f"an array of {found.dtype.type.__name__} and shape {found.shape}"
    is_shaped = found.size and found.ndim == len(dims)
    sizes = zip(dims.values(), found.shape, strict=False)
    if found.dtype.kind in "fiu" and is_shaped and all(one in (None, size) for one, size in sizes):
        found = np.ascontiguousarray(found, dtype=np.float64)
        if np.isfinite(found).all():
            try:
                require_size(found)
            except SpectraError as error:
                raise SpectraError(f"{name}: {error}") from error
            return found
        what = f"NaN or infinity at {np.argwhere(~np.isfinite(found))[0].tolist()}"
    shape = ", ".join(f"{dim}s" if size is None else f"{size} {dim}s" for dim, size in dims.items())
    raise SpectraError(f"{name}: found {what}, expected finite numbers: {shape}")


def plain_array(given: Any, name: str) -> Shaped[np.ndarray, "..."]:
    """Array without masked values, texts, dates and truth values, which NumPy takes for numbers.

    Raises:
        SpectraError: there are some, or rows of different lengths, or integers beyond all floats.
    """
    try:
        found = np.asarray(given)
        if found.dtype.kind == "O" and all(isinstance(one, Real) for one in found.flat):
            found = found.astype(np.float64)  # nullable columns of pandas
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise SpectraError(f"{name}: found no numbers ({error}), expected an array") from error
    is_text = found.dtype.kind == "O" and any(isinstance(one, str) for one in found.flat)
    if np.ma.is_masked(given) or is_text or found.dtype.kind in "bmMSU":
        what = "masked values" if np.ma.is_masked(given) else "texts, dates or truth values"
        raise SpectraError(f"{name}: found {what}, expected finite numbers")
    return found


def require_values(count: int) -> None:
    """Refuse more than `MOST_VALUES` numbers.

    Raises:
        SpectraError: there are more.
    """
    if count > MOST_VALUES:
        raise SpectraError(
            f"found {count} values, expected at most {MOST_VALUES}; read the spectra from several "
            "files"
        )


def require_size(numbers: Float[np.ndarray, "..."]) -> None:
    """Refuse numbers that would overflow or vanish in computations; NaN passes.

    Raises:
        SpectraError: a number is infinite or larger than `LARGEST_NUMBER`, or all are smaller than
            `SMALLEST_NUMBER` and not all zero.
    """
    sizes = np.abs(numbers)
    wrong = numbers[sizes > LARGEST_NUMBER]
    if wrong.size:
        raise SpectraError(
            f"found {wrong[0]}, expected finite numbers of at most {LARGEST_NUMBER:g}; "
            "change the unit, or empty the cell if nothing was measured"
        )
    if 0 < (largest := np.nanmax(sizes, initial=0.0)) < SMALLEST_NUMBER:
        raise SpectraError(
            f"found no number larger than {largest:g}, expected some above {SMALLEST_NUMBER:g}; "
            "change the unit"
        )
