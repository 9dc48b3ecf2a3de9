"""Parameters from YAML, or of the package, with presets applied and values of the command line."""

import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from geonode.config import MEANT, PRESETS, Parameters
from geonode.errors import ParameterError

LARGEST_YAML = 2**19
"""Largest number of characters of a file, and of its values with aliases expanded."""


def parse_yaml(text: str) -> Any:
    """Value of a YAML 1.2 text, as DVC reads it: 1e-3 is a number.

    Raises:
        YAMLError: the text is no YAML, or too large for a file of parameters.
    """
    if len(text) > LARGEST_YAML:
        raise YAMLError(f"found {len(text)} characters, expected at most {LARGEST_YAML}")
    try:
        value = YAML(typ="safe", pure=True).load(text)
    except YAMLError:
        raise
    except RecursionError as error:
        raise YAMLError("found lists or mappings too deep in each other; make them flat") from error
    except Exception as error:  # an invalid number or date raises errors of many types
        raise YAMLError(f"found a value that is none of its kind: {error}") from error
    _refuse_expanded(value)
    return value


def _refuse_expanded(value: Any) -> None:
    """Refuse aliases that expand too far or without end, and integers beyond all floats."""
    size, left = 0, [value]
    while left:
        item = left.pop()
        size += len(item) + 1 if isinstance(item, str | bytes) else 1
        if isinstance(item, int) and abs(item) > 1e308:
            raise YAMLError("found an integer of more than 308 digits, expected a number")
        if isinstance(item, dict):
            left += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set):
            left += item
        if size + len(left) > 2 * LARGEST_YAML:
            raise YAMLError(
                f"found aliases that stand for more than {2 * LARGEST_YAML} characters; write the "
                "values without aliases"
            )


def read_parameters(path: Path, overrides: dict[str, Any] | None = None) -> Parameters:
    """Read and check a parameter file; keys that it lacks have their defaults.

    Args:
        path: a YAML file.
        overrides: values by dotted key, such as `{"decoders.epochs": 10}`, that replace those of
            the file and of its preset. A preset among them replaces values of the file too.

    Raises:
        ParameterError: the file is missing or no YAML mapping, a key is unknown, or a value is of
            the wrong type or out of range, or contradicts the preset; the message names file, key,
            what was found and what was expected.
    """
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(str(path), "file", str(error), "a readable YAML file") from error
    except YAMLError as error:
        raise ParameterError(str(path), "file", " ".join(str(error).split()), "YAML") from error
    if not isinstance(content, dict):
        raise ParameterError(str(path), "file", type(content).__name__, "a mapping of blocks")
    return _checked(content, str(path), overrides or {})


def default_parameters(overrides: dict[str, Any]) -> Parameters:
    """The defaults of the package, with some values replaced.

    Args:
        overrides: as of `read_parameters`; `preset` is one of them.

    Raises:
        ParameterError: a value is of the wrong type or out of range.
    """
    return _checked({}, "command line", overrides)


def _checked(content: dict[str, Any], source: str, overrides: dict[str, Any]) -> Parameters:
    """Parameters of a mapping, where its preset replaces defaults, and `overrides` all others."""
    preset = overrides.get("preset", content.get("preset", "standard"))
    chosen = PRESETS.get(preset, {}) if isinstance(preset, str) else {}
    if "preset" not in overrides:
        default = Parameters().model_dump(mode="json")
        usual = {key: (None, _value(default, key)) for key in chosen}
        chosen = {key: chosen[key] for key in chosen if _value(content, key) in usual[key]}
    for key, value in (chosen | overrides).items():
        *blocks, last = key.split(".")
        node = content
        for block in blocks:
            node = node.setdefault(block, {})
            if not isinstance(node, dict):
                raise ParameterError(source, block, node, "a mapping of parameters")
        node[last] = value
    for key in MEANT.get(preset, ()) if isinstance(preset, str) else ():
        found, expected = _value(content, key), PRESETS[preset][key]
        if found != expected:
            where = "command line" if key in overrides else source
            said = f"{expected!r}, as preset {preset} means; take another preset or leave it out"
            raise ParameterError(where, key, found, said)
    try:
        return Parameters.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "file"
        said = r"Value error, |Input should be |String should have "  # by pydantic, before it
        expected, found = re.sub(said, "", first["msg"]), first["input"]
        if first["type"] == "extra_forbidden":
            expected = "no such key"
        if first["type"] == "value_error":  # values of a block that contradict each other
            found = {name: value for name, value in found.items() if name in expected}
        whole, parts = f"{key}.", [f"{override}." for override in overrides]
        by_hand = any(whole.startswith(part) or part.startswith(whole) for part in parts)
        raise ParameterError("command line" if by_hand else source, key, found, expected) from error


def _value(content: Any, key: str) -> Any:
    """Value of a dotted key; None if there is none."""
    for part in key.split("."):
        content = content.get(part) if isinstance(content, dict) else None
    return content
