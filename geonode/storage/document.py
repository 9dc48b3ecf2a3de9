"""Small text files: sealed JSON between stages, plain JSON and text for users and for DVC."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from geonode.errors import ArtifactError, CorruptArtifactError, MissingArtifactError
from geonode.storage.atomic import write_bytes
from geonode.storage.seal import UNSEALED, read_sealed, seal

_AFTER_SEAL = '"\n}\n'  # the checksum is the last key, so the file ends with its digits and this
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_SEAL_AT = -len(UNSEALED + _AFTER_SEAL)


def encode_json(path: Path, content: dict[str, Any]) -> bytes:
    """Indented UTF-8 JSON that keeps the order of keys and ends with a newline.

    Args:
        path: path of the file, for the message.
        content: content that JSON can express, without NaN and infinity.

    Raises:
        ArtifactError: `content` holds something that JSON cannot express.
    """
    try:
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        return f"{text}\n".encode()
    except (TypeError, ValueError) as error:
        raise ArtifactError(f"{path}: cannot be written as JSON: {error}") from error


def write_document(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON object sealed by a last key `checksum`, atomically.

    Raises:
        ArtifactError: `content` has a key `checksum` or is not JSON, or the file cannot be written.
    """
    if "checksum" in content:
        raise ArtifactError(f"{path}: key 'checksum' is taken by the seal; use another name")
    write_bytes(path, seal(encode_json(path, {**content, "checksum": UNSEALED}), _SEAL_AT))


def read_document(path: Path) -> dict[str, Any]:
    """Read a file of `write_document`, without the checksum.

    Raises:
        MissingArtifactError: there is no such file.
        CorruptArtifactError: any byte has changed since it was written.
        ArtifactError: it cannot be read.
    """
    try:
        content: dict[str, Any] = json.loads(
            read_sealed(path, _SEAL_AT), parse_constant=_finite, parse_float=_finite
        )
        del content["checksum"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        reason = f"is sealed but holds no JSON object of finite numbers ({error!r:.80})"
        raise CorruptArtifactError(path, reason) from error
    return content


def write_metrics(path: Path, content: dict[str, Any]) -> None:
    """Write plain JSON for `dvc metrics`, atomically; NaN and infinity become null.

    Args:
        path: the file.
        content: argument of `plain`.

    Raises:
        ArtifactError: `content` is not JSON otherwise, or the file cannot be written.
    """
    write_bytes(path, encode_json(path, plain(content)))


def read_metrics(path: Path) -> dict[str, Any]:
    """Read what `write_metrics` wrote.

    Raises:
        MissingArtifactError: there is no such file.
        ArtifactError: it holds no JSON object.
    """
    if not path.is_file():
        raise MissingArtifactError(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ArtifactError(f"{path}: is no JSON: {error}; run `dvc repro`") from error
    if not isinstance(content, dict):
        raise ArtifactError(f"{path}: found no JSON object, expected one; run `dvc repro`")
    return content


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically, newlines as they are.

    Raises:
        ArtifactError: the file cannot be written.
    """
    write_bytes(path, text.encode())


def cell(text: str) -> str:
    """CSV cell of a text that no spreadsheet takes for a formula; numbers stay as they are.

    Texts that begin like a formula get an apostrophe: OWASP, CSV Injection.
    """
    try:
        float(text)
    except ValueError:
        return f"'{text}" if text.lstrip("'").startswith(_FORMULA) else text
    return text


def text_of(cell_: str) -> str:
    """Inverse of `cell`."""
    return cell_[1:] if cell_[:1] == "'" and cell(cell_[1:]) == cell_ else cell_


def _finite(text: str) -> float:
    """Finite number of a JSON text.

    Raises:
        ValueError: it is NaN or infinite.
    """
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"found {text[:40]}")
    return number


def plain(value: Any) -> Any:
    """Value converted to types of JSON; NaN and infinity become null.

    Args:
        value: nested mappings and sequences; NumPy scalars and arrays become numbers and lists.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
