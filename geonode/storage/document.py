"""Small files for stages, users and DVC: JSON and text."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from geonode.errors import ArtifactError
from geonode.storage.atomic import write_bytes
from geonode.storage.seal import readable, require_file


def encode_json(path: Path, content: dict[str, Any]) -> bytes:
    """Indented UTF-8 JSON that keeps the order of keys and ends with a newline.

    NaN and infinity are no JSON; the path is for the message.

    Raises:
        ArtifactError: `content` contains something that JSON cannot express.
    """
    try:
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        return f"{text}\n".encode()
    except (TypeError, ValueError) as error:
        raise ArtifactError(f"{path}: cannot be written as JSON: {error}") from error


def write_json(path: Path, content: dict[str, Any], digits: int | None = None) -> None:
    """Write JSON, atomically; NaN and infinity become null.

    The content and the significant digits of numbers (None: all) are arguments of `plain`.

    Raises:
        ArtifactError: `content` is not JSON otherwise, or the file cannot be written.
    """
    write_bytes(path, encode_json(path, plain(content, digits)))


def read_json(path: Path) -> dict[str, Any]:
    """Read what `write_json` wrote.

    Raises:
        MissingArtifactError: there is no such file.
        ArtifactError: it contains no JSON object.
    """
    with readable(path):
        text = require_file(path).read_bytes()
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path}: contains no JSON: {error}; run `dvc repro`") from error
    if not isinstance(content, dict):
        raise ArtifactError(f"{path}: found no JSON object, expected one; run `dvc repro`")
    return content


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically, newlines as they are.

    Raises:
        ArtifactError: the file cannot be written.
    """
    write_bytes(path, text.encode())


def plain(value: Any, digits: int | None = None) -> Any:
    """Value converted to types of JSON; NaN and infinity become null.

    Mappings and sequences may be nested; scalars and arrays of NumPy become numbers and lists.
    Numbers that are not whole are rounded to some significant digits, if these are given.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: plain(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, digits) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, float) and digits is not None:
        return float(f"{value:.{digits}g}")
    return value
