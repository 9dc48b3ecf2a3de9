import json

import numpy as np
import pytest

from geonode.errors import ArtifactError, CorruptArtifactError
from geonode.storage import document
from geonode.storage.document import (
    cell,
    read_document,
    read_metrics,
    text_of,
    write_document,
    write_metrics,
    write_text,
)
from geonode.storage.seal import UNSEALED, seal
from tests.storage.damage import assert_damage_is_found

CONTENT = {
    "device": "cpu",
    "name": "Gerät 1 µm",
    "cores": 2,
    "fraction": 0.1,
    "nested": {"checksum": "00000000", "absent": None},
    "list": [1, 2.5, True],
}


def test_a_document_is_plain_json_with_the_checksum_last(tmp_path):
    file = tmp_path / "new/device.json"
    for content in ({}, CONTENT):
        write_document(file, content)
        read = read_document(file)
        assert (read, list(read)) == (content, list(content))
    text = file.read_text(encoding="utf-8")
    assert list(json.loads(text)) == [*CONTENT, "checksum"]
    assert text.startswith('{\n  "device": "cpu",\n  "name": "Gerät 1 µm",\n')
    assert text.endswith('"\n}\n')


def test_a_flipped_bit_in_any_byte_and_another_length_are_found(tmp_path):
    file = tmp_path / "device.json"
    write_document(file, CONTENT)
    assert_damage_is_found(file, read_document)
    assert read_document(file) == CONTENT


@pytest.mark.parametrize(
    "text", ["[", '["a"', '{"a": NaN', '{"a": 1e999', '{"a": -Infinity', "[" * 10**5, "\ud800"]
)
def test_a_document_that_is_no_object_of_finite_numbers_is_refused_though_sealed(tmp_path, text):
    path = tmp_path / "a.json"
    whole = f'{text},\n  "checksum": "{UNSEALED}"\n}}\n'
    path.write_bytes(seal(whole.encode("utf-8", "surrogatepass"), document._SEAL_AT))
    with pytest.raises(CorruptArtifactError, match="is sealed but holds no JSON object of finite"):
        read_document(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"checksum": 1}, "key 'checksum' is taken by the seal"),
        ({"value": float("nan")}, "cannot be written as JSON"),
        ({"value": object()}, "cannot be written as JSON"),
    ],
)
def test_content_that_cannot_be_sealed_is_refused(tmp_path, content, message):
    with pytest.raises(ArtifactError, match=rf"device\.json: {message}"):
        write_document(tmp_path / "device.json", content)
    assert not list(tmp_path.iterdir())


def test_metrics_have_null_for_nan_and_infinity(tmp_path):
    file = tmp_path / "metrics" / "validate.json"
    content = {
        "r2": float("nan"),
        "nested": {"inf": [np.inf, -np.inf, 1.5]},
        "float32": np.float32(0.5),
        "nan32": np.float32("nan"),
        "count": np.int64(3),
        "flag": np.bool_(True),
        "array": np.array([[1.0, np.nan]]),
        "pair": (1, "text"),
    }
    expected = {
        "r2": None,
        "nested": {"inf": [None, None, 1.5]},
        "float32": 0.5,
        "nan32": None,
        "count": 3,
        "flag": True,
        "array": [[1.0, None]],
        "pair": [1, "text"],
    }
    write_metrics(file, content)
    assert json.loads(file.read_text(), parse_constant=pytest.fail) == expected
    assert file.read_bytes().endswith(b"}\n")
    with pytest.raises(ArtifactError, match="cannot be written as JSON"):
        write_metrics(file, {"r2": object()})
    assert read_metrics(file) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "not found"), ("{", "is no JSON"), ("[]", "found no JSON object")],
)
def test_metrics_that_are_none_are_refused(tmp_path, text, message):
    if text is not None:
        write_text(tmp_path / "validate.json", text)
    with pytest.raises(ArtifactError, match=rf"validate\.json: {message}.*run `dvc repro`"):
        read_metrics(tmp_path / "validate.json")


def test_text_is_written_as_it_is(tmp_path):
    write_text(tmp_path / "plots" / "parity.csv", "µ\r\n1\n")
    assert (tmp_path / "plots" / "parity.csv").read_bytes() == b"\xc2\xb5\r\n1\n"


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd|'/C calc'!A0", "-x", "@SUM(A1)", "\tx", "\r=x", "\n=x", "＝1", "'=1"]
)
def test_a_cell_is_no_formula_and_gives_its_text_back(text):
    assert cell(text)[0] == "'"
    assert text_of(cell(text)) == text


@pytest.mark.parametrize("text", ["", "a=b", "-5", "+1e-3", "10 ppb", "'quoted'", "it's"])
def test_other_cells_stay_as_they_are(text):
    assert cell(text) == text_of(text) == text
