import json
from copy import deepcopy
from functools import cache, reduce
from pathlib import Path

import pytest

from geonode.config import PRESETS, Parameters
from geonode.errors import ParameterError
from geonode.parameters_file import default_parameters, parse_yaml, read_parameters

FILE = Path(__file__).parents[1] / "params.yaml"
DELETED = object()


@cache
def content():
    return parse_yaml(FILE.read_text(encoding="utf-8"))


def write_parameters(file, changes):
    """Write the parameters of the repository with some values replaced, by dotted key."""
    written = deepcopy(content())
    for key, value in changes.items():
        *blocks, last = key.split(".")
        node = reduce(dict.__getitem__, blocks, written)
        node[last] = value
        if value is DELETED:
            del node[last]
    # JSON is YAML, but for what is no number
    file.write_text(json.dumps(written).replace("NaN", ".nan"), encoding="utf-8")


@pytest.fixture
def read(tmp_path):
    """Read the repository's parameters with some values replaced, from a file `params.yaml`."""

    def read_changed(changes, overrides=None):
        write_parameters(tmp_path / "params.yaml", changes)
        return read_parameters(tmp_path / "params.yaml", overrides)

    return read_changed


def test_the_file_of_the_repository_holds_the_defaults():
    parameters = read_parameters(FILE)
    # Nothing is lost or converted on the way.
    assert parameters.model_dump(by_alias=True, mode="json") == content()
    # DVC needs a file to watch, which has no rows.
    assert content()["spectra"]["concentrations"] == "data/concentrations.csv"
    assert default_parameters({"spectra.concentrations": "data/concentrations.csv"}) == parameters


@pytest.mark.parametrize(
    ("preset", "overrides", "expected"),
    [
        ("standard", {}, (2, 1, 2)),
        ("thorough", {}, (2, 16, None)),
        ("fast", {"preset": "thorough"}, (16, 16, None)),
        ("thorough", {"metric.members": 1}, (1, 16, None)),
        ("thorough", {"preset": "thorough", "metric.members": 5}, (5, 16, None)),
    ],
)
def test_a_preset_replaces_defaults_and_on_the_command_line_the_file(
    read, preset, overrides, expected
):
    changes = {"metric.members": 2, "decoders.kind": "path", "inner.members": DELETED}
    found = read(changes | {"preset": preset}, overrides)
    assert (found.metric.members, found.decoders.members, found.inner.levels) == expected
    assert found.decoders.kind == "path"
    assert found.inner.members == (1 if found.preset == "standard" else 4)


@pytest.mark.parametrize("name", ["fast", "thorough", "published"])
def test_a_preset_changes_something_in_its_blocks(name):
    assert {key.split(".")[0] for key in PRESETS[name]} <= {"inner", "metric", "decoders"}
    found = default_parameters({"preset": name})
    assert found.model_copy(update={"preset": "standard"}) != default_parameters({})


@pytest.mark.parametrize(
    ("preset", "key", "value"),
    [
        ("fast", "decoders.kind", "path"),
        ("published", "metric.wavelengths", 30),
    ],
)
def test_a_value_that_contradicts_its_preset_is_refused_in_one_line(read, preset, key, value):
    line = rf"{key}: found {value!r}, expected .*, as preset {preset} means; take another preset"
    with pytest.raises(ParameterError, match=rf"params\.yaml: {line}"):
        read({"preset": preset, key: value})
    with pytest.raises(ParameterError, match=f"command line: {line}"):
        read({"preset": preset}, {key: value})


@pytest.mark.parametrize(
    ("changes", "overrides", "message"),
    [
        ({"preset": "slow"}, None, r"params\.yaml: preset: found 'slow', expected .*'fast', 'sta"),
        ({}, {"decoders.epochs": 0}, r"command line: decoders\.epochs: found 0, expected"),
        ({}, {"metric.bounds": [1, "x"]}, r"command line: metric\.bounds\.1: found 'x', expected"),
        ({}, {"decoders.epoch": 3}, r"command line: decoders\.epoch: found 3, .* no such key"),
        ({}, {"nothing.at.all": 3}, "nothing: found .*, expected no such key"),
        (  # a wrong value of the file is the file's, whatever else is given
            {"decoders.epochs": 0},
            {"decoders.learning_rate": 0.1, "decoders.epochs_": 1},
            r"params\.yaml: decoders\.epochs: found 0",
        ),
        ({"decoders": [1]}, {"decoders.epochs": 3}, "decoders: .* expected a mapping of param"),
    ],
)
def test_what_is_wrong_is_named_with_where_it_was_given(read, changes, overrides, message):
    with pytest.raises(ParameterError, match=message):
        read(changes, overrides)


def test_every_parameter_has_a_description():
    def check(block):
        for name, field in block.model_fields.items():
            inner = field.annotation
            if isinstance(inner, type) and hasattr(inner, "model_fields"):
                check(inner)
            else:
                assert field.description, f"{block.__name__}.{name}"

    check(Parameters)


@pytest.mark.parametrize("text", ["1e-3", "1.0E-3", "0.001"])
def test_one_over_a_thousand_is_a_number(text):
    """YAML 1.1 reads 1e-3, without a dot, as text."""
    assert parse_yaml(f"a: {text}") == {"a": 0.001}


ERRORS = [
    ("metric.epoch", 5, r"metric\.epoch: found 5, expected no such key"),
    ("generate.noise.dark", 0.1, r"generate\.noise\.dark: found 0\.1, expected no such key"),
    ("metric.epochs", "10", r"metric\.epochs: found '10', expected .*integer"),
    ("metric", 5, "metric: found 5, expected .*dictionary"),
    ("device", "gpu", "device: found 'gpu', expected .*'auto', 'cpu', 'cuda' or 'mps'"),
    ("decoders.members", 0, r"decoders\.members: found 0, expected .*or equal to 1"),
    ("metric.learning_rate", 0.0, r"metric\.learning_rate: found 0\.0, expected .*greater than 0"),
    ("metric.length_weight", float("nan"), r"metric\.length_weight: found nan, expected .*finite"),
    ("christoffel.resolution", 10**12, r"christoffel\.resolution: found 10{12}, .* to 1000000"),
    ("christoffel.tolerance", 5e-324, r"christoffel\.tolerance: found 5e-324, .* to 0\.0000001"),
    ("geodesics.tolerance", 1e-11, r"geodesics\.tolerance: found 1e-11, .* to 0\.000000001"),
    ("generate.seed", 2**31, r"generate\.seed: found 2147483648, expected .*less than"),
    ("inner.levels", 1, r"inner\.levels: found 1, expected .*equal to 2"),
    ("generate.concentrations", [0, 1, -2, 3], r"generate\.concentrations\.2: found -2"),
    ("generate.wavelengths.stop", 200.0, "generate.wavelengths: .*stop must be greater than start"),
    ("spectra.chart", "asinh", "spectra: .*kappa must be given for the asinh"),
    ("spectra.window", [500, 500], r"spectra\.window: found .*, expected \[low, high\]"),
    ("metric.bounds", [5, 0.2], r"metric\.bounds: found \[5, 0\.2\], expected \[low, high\] with"),
    ("geodesics.time_points", 1, "geodesics: .*time_points must be 0 or at least 2"),
    ("engine.scheduler", "tcp://a:1", "engine: .*scheduler must be null unless kind is dask"),
]


@pytest.mark.parametrize(("key", "value", "message"), ERRORS)
def test_errors_name_file_key_found_and_expected_in_one_line(read, tmp_path, key, value, message):
    with pytest.raises(ParameterError, match=f": {message}") as caught:
        read({key: value})
    assert str(caught.value).startswith(f"{tmp_path / 'params.yaml'}: ")
    assert "\n" not in str(caught.value)
    assert "Value error" not in str(caught.value)


def test_what_is_allowed_is_read(read):
    changes = {
        "spectra.chart": "asinh",
        "spectra.kappa": 3,  # a whole number is a number
        "spectra.window": [400, 500.5],
        "geodesics.time_points": 2,
        "metric.evidence_margin": None,
        "generate.concentrations": [0.5, 1, 2, 3],
    }
    dumped = read(changes).model_dump(by_alias=True, mode="json")
    for key, value in changes.items():
        block, name = key.split(".")
        assert dumped[block][name] == value


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (b"metric: [1, 2", "file: found '.*expected YAML"),
        (b"seed: 1\nseed: 2\n", "file: found '.*duplicate key.*expected YAML"),
        (b"- 1\n- 2\n", "file: found 'list', expected a mapping of blocks"),
        (b"", "file: found 'NoneType', expected a mapping of blocks"),
        (b"\xff\xfe\x00", "file: found .*expected a readable YAML file"),
        (None, "file: found .*No such file.*readable"),
    ],
)
def test_what_is_no_mapping_is_refused(tmp_path, written, message):
    path = tmp_path / "params.yaml"
    if written is not None:
        path.write_bytes(written)
    with pytest.raises(ParameterError, match=message) as caught:
        read_parameters(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
