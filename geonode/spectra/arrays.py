"""Arrays that users pass, as numbers to compute with; all others are refused in one line."""

from numbers import Real
from typing import Any

import numpy as np
from jaxtyping import Float

from geonode.errors import SpectraError
from geonode.spectra.sheet import require_size

KINDS = {"b": "truth values", "c": "complex numbers", "O": "objects", "S": "texts", "U": "texts"}
"""What arrays have instead of real numbers, by the kind of their type."""


def real_array(given: Any, name: str, *dims: str) -> Float[np.ndarray, "..."]:
    """Contiguous array of finite double-precision numbers in the byte order of this machine.

    Args:
        given: anything array-like: lists, tables of pandas, views in any order.
        name: of the argument, for messages.
        dims: names of its dimensions.

    Raises:
        SpectraError: it has masked values, other dimensions, what is no real number, or numbers
            that are not finite or of no usual size.
    """
    expected = f"expected finite numbers ({', '.join(dims)})"
    refuse_disguised(given, name)
    try:
        found = np.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged, or a tensor elsewhere
        raise SpectraError(f"{name}: found no array ({error}), {expected}") from error
    if found.dtype.kind == "O" and all(isinstance(one, Real) for one in found.flat):
        found = found.astype(np.float64)  # nullable columns of pandas
    if found.dtype.kind not in "fiu":
        kind = KINDS.get(found.dtype.kind, str(found.dtype))
        raise SpectraError(f"{name}: found {kind}, {expected}")
    if found.ndim != len(dims):
        raise SpectraError(f"{name}: found an array of shape {found.shape}, {expected}")
    found = np.ascontiguousarray(found, dtype=np.float64)
    if not np.isfinite(found).all():
        at = ", ".join(map(str, np.argwhere(~np.isfinite(found))[0]))
        raise SpectraError(f"{name}: found NaN or infinity at [{at}], {expected}")
    try:
        require_size(found)
    except SpectraError as error:
        raise SpectraError(f"{name}: {error}") from error
    return found


def refuse_disguised(given: Any, name: str) -> None:
    """Refuse what scikit-learn takes for numbers: masked values, texts and truth values.

    Raises:
        SpectraError: there are some.
    """
    try:
        found = np.asarray(given)
    except (TypeError, ValueError, RuntimeError):  # as scikit-learn and `real_array` say
        return
    what = "masked values" if np.ma.is_masked(given) else KINDS.get(found.dtype.kind, "")
    if what == "objects" and any(isinstance(one, str) for one in found.flat):
        what = "texts"
    if what in ("masked values", "texts", "truth values"):
        raise SpectraError(f"{name}: found {what}, expected finite numbers")
