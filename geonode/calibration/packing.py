"""Values as JSON and arrays, and back, as the annotations of classes declare them.

Data classes, named tuples, dictionaries, lists and tuples become `{name of the type: items}`. What
is unpacked says nothing of itself: its type, and those of all its parts, are those of the
annotations. Arrays have the declared type and as many dimensions, and sizes of one name are equal
in an object, those of `SHARED` everywhere. No array is larger than what is stored of it. Numbers
are finite, but for `INFINITE`; none is NaN. Whole numbers are places and counts: none is negative,
or larger than the number of all values.
"""

import dataclasses
from collections.abc import Iterable
from inspect import isabstract
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch
from jaxtyping import AbstractArray, Shaped

from geonode.mixtures.design import MOST_COMPOSITIONS, MOST_SUBSTANCES
from geonode.mixtures.surface import MOST_KEPT
from geonode.parameter_types import PreprocessStep
from geonode.spectra.table import MOST_LEVELS, MOST_SAMPLES
from geonode.terminal import printable

ONE_SIZE = ("wavelength", "substance")
"""Dimensions that have one size in all of a calibration."""

LARGEST_SIZES = {
    **{"sample": MOST_SAMPLES, "composition": MOST_COMPOSITIONS},
    **dict.fromkeys(("concentration", "level"), MOST_LEVELS),
    **{"substance": MOST_SUBSTANCES, "smoother": MOST_KEPT},
}
"""Largest sizes of dimensions by which the work of an estimate grows faster than its file."""

INFINITE = ("kappa", "lowest", "sizes", "sets")
"""Fields that may be infinite: a linear chart, a line without weights, components that are not
there, and intervals that nothing bounds."""

NUMBERS = ("float64", "int64", "bool")
"""Types of arrays."""

Stored = dict[str, Shaped[np.ndarray, "..."]]


def fields_of(kind: Any) -> list[str]:
    """Names of the fields of a data class or a named tuple; none of anything else."""
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return [*getattr(kind, "_fields", ())]


def as_stored(value: Any, arrays: Stored, name: str = "") -> Any:
    """A value as JSON, in which finite arrays are named by their place and added to `arrays`."""

    def all_of(items: Any) -> dict[str, Any]:
        return {str(key): as_stored(one, arrays, f"{name}.{key}".strip(".")) for key, one in items}

    if isinstance(value, np.ndarray):
        if np.isfinite(value).all() and value.size:
            arrays[name] = value
            return {"array": name}
        return {"values": value.tolist(), "shape": value.shape}
    if isinstance(value, PreprocessStep):
        return {"step": value.model_dump(exclude_unset=True)}
    items: Iterable[Any]
    if isinstance(value, torch.Tensor):
        items = [("data", value.numpy())]
    elif names := fields_of(type(value)):
        items = ((one, getattr(value, one)) for one in names)
    elif isinstance(value, dict | list | tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
    else:
        return value.item() if isinstance(value, np.generic) else value
    return {type(value).__name__: all_of(items)}


class Unpacking:
    """Unpacking of one calibration.

    Args:
        arrays: the stored ones.
        most: number of all values that are stored.
    """

    def __init__(self, arrays: Stored, most: int) -> None:
        self._arrays, self._most = arrays, most
        self._shared: dict[str, int] = {}

    def unpacked(self, stored: Any, kind: Any) -> Any:
        """Value that `as_stored` was given.

        Args:
            stored: what came of it.
            kind: its type, or those of the items of a dictionary by their keys.

        Raises:
            ArithmeticError, LookupError, TypeError, ValueError: it is something else.
        """
        return self._value(stored, kind, {}, False)

    def _value(self, stored: Any, kind: Any, sizes: dict[str, int], infinite: bool) -> Any:
        """Value of a type; `sizes` are those of the dimensions of the object around it."""
        origin, parts = get_origin(kind), get_args(kind)
        if origin in (Union, UnionType):
            kinds = [one for one in parts if one is not NoneType and stored is not None]
            kind, *others = kinds or [parts[parts.index(NoneType)]]
            kind = next((one for one in others if one.__name__ in stored), kind)
            return self._value(stored, kind, sizes, infinite)
        if isabstract(kind):
            (kind,) = [one for one in kind.__subclasses__() if one.__name__ in stored]
        if kind in (float, int, bool, str, NoneType):
            return self._one(stored, kind, infinite)
        if origin in (dict, list, tuple):
            return self._several(stored[origin.__name__], origin, parts, sizes, infinite)
        if isinstance(kind, type) and issubclass(kind, AbstractArray):
            return self._array(stored, kind, sizes, infinite)
        return self._object(stored, kind)

    def _one(self, stored: Any, kind: Any, infinite: bool) -> Any:
        """Text, number, truth value or nothing."""
        if type(stored) is not kind and (kind, type(stored)) != (float, int):
            raise TypeError(kind)
        if kind is float:
            _require(stored, infinite)
        if kind is int and not 0 <= stored <= self._most:
            raise ValueError(stored)
        return printable(stored) if kind is str else stored

    def _several(
        self, items: Any, origin: Any, parts: Any, sizes: dict[str, int], infinite: bool
    ) -> Any:
        """Dictionary, list or tuple."""
        fixed = origin is tuple and parts[-1] is not ...
        kinds = parts if fixed else [parts[-1 if origin is dict else 0]] * len(items)
        each = zip(items.values(), kinds, strict=True)
        found = [self._value(one, kind, sizes, infinite) for one, kind in each]
        return origin(zip(map(printable, items), found, strict=True) if origin is dict else found)

    def _object(self, stored: dict[str, Any], kind: Any) -> Any:
        """Instance of a class, or a dictionary of declared items."""
        if kind is PreprocessStep:
            return PreprocessStep.model_validate(stored["step"])
        name, hints = "dict", kind
        if not isinstance(kind, dict):
            name, every = kind.__name__, get_type_hints(kind)
            hints = {field: every[field] for field in fields_of(kind)}
        items, sizes = stored[name], dict[str, int]()
        if {*items} != {*hints}:
            raise KeyError(name)
        found = {
            field: self._value(items[field], one, sizes, field in INFINITE)
            for field, one in hints.items()
        }
        return found if hints is kind else kind(**found)

    def _array(
        self, stored: dict[str, Any], kind: Any, sizes: dict[str, int], infinite: bool
    ) -> Any:
        """Array of a declared type and shape."""
        is_tensor = kind.array_type is torch.Tensor
        stored = stored["Tensor"]["data"] if is_tensor else stored
        if "array" in stored:
            found = self._arrays[stored["array"]]
        else:
            found = np.asarray(stored["values"])
            if found.dtype.kind not in "fiub":
                raise TypeError(found.dtype)
            found = found.astype(next(one for one in NUMBERS if one in kind.dtypes))
            found = found.reshape(stored["shape"])
        if str(found.dtype) not in {*NUMBERS} & {*kind.dtypes}:
            raise TypeError(found.dtype)
        for name, size in zip(kind.dim_str.split(), found.shape, strict=True):
            known = self._shared if name in ONE_SIZE else sizes
            expected = int(name) if name.isdigit() else known.setdefault(name, size)
            if size != expected or size > min(self._most, LARGEST_SIZES.get(name, size)):
                raise ValueError(name)
        if found.dtype.kind == "f":
            _require(found, infinite)
        elif found.size and not 0 <= found.min() <= found.max() <= self._most:
            raise ValueError("places")
        return torch.from_numpy(found) if is_tensor else found


def _require(found: Any, infinite: bool) -> None:
    """Refuse NaN and, unless it is allowed, infinity."""
    if np.isnan(found).any() or (np.isinf(found).any() and not infinite):
        raise ValueError("NaN")
