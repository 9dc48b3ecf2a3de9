import json

import numpy as np
import pytest

from geonode.errors import ArtifactError, CorruptArtifactError, MissingArtifactError
from geonode.storage.document import (
    cell,
    read_document,
    text_of,
    write_document,
    write_metrics,
    write_text,
)
from tests.storage.damage import DAMAGES, contents, flip_every_byte

CONTENT = {
    "device": "cpu",
    "name": "Gerät 1 µm",
    "cores": 2,
    "fraction": 0.1,
    "nested": {"checksum": "00000000", "absent": None},
    "list": [1, 2.5, True],
}


def test_round_trip(tmp_path):
    write_document(tmp_path / "new" / "device.json", CONTENT)
    read = read_document(tmp_path / "new" / "device.json")
    assert read == CONTENT
    assert list(read) == list(CONTENT)


def test_the_file_is_plain_json_with_the_checksum_last(tmp_path):
    write_document(tmp_path / "device.json", CONTENT)
    text = (tmp_path / "device.json").read_text(encoding="utf-8")
    assert list(json.loads(text)) == [*CONTENT, "checksum"]
    assert text.startswith('{\n  "device": "cpu",\n  "name": "Gerät 1 µm",\n')
    assert text.endswith('"\n}\n')


def test_an_empty_document(tmp_path):
    write_document(tmp_path / "empty.json", {})
    assert read_document(tmp_path / "empty.json") == {}


def test_the_same_content_gives_the_same_bytes(tmp_path):
    for name in ("a.json", "b.json"):
        write_document(tmp_path / name, CONTENT)
    first, second = contents(tmp_path).values()
    assert first == second


def test_a_flipped_bit_in_any_byte_is_found(tmp_path):
    file = tmp_path / "device.json"
    write_document(file, CONTENT)
    for offset in flip_every_byte(file):
        with pytest.raises(CorruptArtifactError):
            read_document(file)
            pytest.fail(f"byte {offset}")
    assert read_document(file) == CONTENT


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_of_another_length_is_found(tmp_path, damage):
    write_document(tmp_path / "device.json", CONTENT)
    damage(tmp_path / "device.json")
    with pytest.raises(CorruptArtifactError, match=r"device\.json: the file fails its checksum"):
        read_document(tmp_path / "device.json")


def test_a_missing_file(tmp_path):
    with pytest.raises(MissingArtifactError):
        read_document(tmp_path / "device.json")


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
    write_metrics(
        file,
        {
            "r2": float("nan"),
            "nested": {"inf": [np.inf, -np.inf, 1.5]},
            "float32": np.float32(0.5),
            "nan32": np.float32("nan"),
            "count": np.int64(3),
            "flag": np.bool_(True),
            "array": np.array([[1.0, np.nan]]),
            "pair": (1, "text"),
        },
    )
    assert json.loads(file.read_text(), parse_constant=pytest.fail) == {
        "r2": None,
        "nested": {"inf": [None, None, 1.5]},
        "float32": 0.5,
        "nan32": None,
        "count": 3,
        "flag": True,
        "array": [[1.0, None]],
        "pair": [1, "text"],
    }
    assert file.read_bytes().endswith(b"}\n")


def test_metrics_that_are_no_json_leave_the_older_file(tmp_path):
    file = tmp_path / "validate.json"
    write_metrics(file, {"r2": 1.0})
    with pytest.raises(ArtifactError, match="cannot be written as JSON"):
        write_metrics(file, {"r2": object()})
    assert json.loads(file.read_text()) == {"r2": 1.0}


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
