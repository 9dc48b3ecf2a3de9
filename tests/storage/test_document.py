import json

import numpy as np
import pytest

from geonode.errors import ArtifactError
from geonode.storage.document import read_json, write_json, write_text


def test_json_has_null_for_nan_and_infinity(tmp_path):
    file = tmp_path / "metrics" / "validate.json"
    content = {
        "nested": {"inf": [np.inf, -np.inf, 1.5, float("nan")]},
        "numbers": [np.float32(0.5), np.float32("nan"), np.int64(3), np.bool_(True)],
        "array": np.array([[1.0, np.nan]]),
        "pair": (1, "text"),
    }
    expected = {
        "nested": {"inf": [None, None, 1.5, None]},
        "numbers": [0.5, None, 3, True],
        "array": [[1.0, None]],
        "pair": [1, "text"],
    }
    write_json(file, content)
    assert json.loads(file.read_text(), parse_constant=pytest.fail) == expected
    assert file.read_bytes().endswith(b"}\n")
    with pytest.raises(ArtifactError, match="cannot be written as JSON"):
        write_json(file, {"r2": object()})
    assert read_json(file) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "not found"),
        ("{", "contains no JSON"),
        ("[" * 10**5, "contains no JSON"),
        ("[]", "found no"),
    ],
)
def test_what_is_no_json_object_is_refused(tmp_path, text, message):
    if text is not None:
        write_text(tmp_path / "validate.json", text)
    with pytest.raises(ArtifactError, match=rf"validate\.json: {message}.*run `dvc repro`"):
        read_json(tmp_path / "validate.json")
