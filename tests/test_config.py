from pathlib import Path

import pytest
from ruamel.yaml import YAML

from geonode.config import Parameters
from geonode.defaults import DEFAULTS, default_parameters
from geonode.errors import ParameterError
from geonode.parameters_file import parse_yaml, read_parameters

FILE = Path(__file__).parents[1] / "params.yaml"


@pytest.fixture
def read(tmp_path):
    """Read the repository's parameters with some values replaced, from a file `params.yaml`."""

    def read_changed(changes, overrides=None):
        content = parse_yaml(FILE.read_text(encoding="utf-8"))
        for key, value in changes.items():
            *blocks, last = key.split(".")
            node = content
            for block in blocks:
                node = node[block]
            if value is DELETED:
                del node[last]
            else:
                node[last] = value
        with (tmp_path / "params.yaml").open("w", encoding="utf-8") as stream:
            YAML(typ="safe", pure=True).dump(content, stream)
        return read_parameters(tmp_path / "params.yaml", overrides)

    return read_changed


DELETED = object()


def test_the_package_has_the_parameters_of_the_repository():
    assert DEFAULTS.read_bytes() == FILE.read_bytes()
    assert default_parameters({"preset": "fast"}) == read_parameters(FILE, {"preset": "fast"})


def test_the_parameters_of_the_repository_are_valid():
    parameters = read_parameters(FILE)
    content = parse_yaml(FILE.read_text(encoding="utf-8"))
    # Nothing is lost or converted on the way.
    assert parameters.model_dump(by_alias=True, mode="json") == content
    assert parameters.generate.concentrations == [0, 10, 20, 30, 40, 60]
    assert parameters.metric.bounds == (0.2, 5.0)
    assert "220-800" in parameters.validation.bands


def test_a_preset_takes_the_place_of_the_file_and_the_command_line_of_both(read):
    thorough = {"metric.members": 7, "decoders.kind": "path", "inner.members": 0}
    changes = {"presets": {"standard": {}, "thorough": thorough}, "metric.members": 2}
    assert read(changes).metric.members == 2
    for found in (
        read(changes | {"preset": "thorough"}),
        read(changes, {"preset": "thorough"}),
        read(changes | {"preset": "standard"}, {"preset": "thorough"}),
    ):
        assert (found.metric.members, found.decoders.kind, found.inner.members) == (7, "path", 0)
        assert found.preset == "thorough"
    mixed = read(changes, {"preset": "thorough", "metric.members": 5})
    assert (mixed.metric.members, mixed.decoders.kind) == (5, "path")


def test_the_presets_of_the_repository_are_valid():
    standard = read_parameters(FILE)
    assert standard.preset == "standard"
    assert standard.presets["standard"] == {}
    for name in standard.presets:
        found = read_parameters(FILE, {"preset": name})
        assert (found.metric, found.decoders, found.inner) != (
            standard.metric,
            standard.decoders,
            standard.inner,
        ) or name == "standard"


@pytest.mark.parametrize(
    ("changes", "overrides", "message"),
    [
        ({"preset": "slow"}, None, r"params\.yaml: preset: found 'slow', expected one of fast,"),
        ({}, {"preset": "slow"}, r"command line: preset: found 'slow', expected one of fast,"),
        (
            {"presets": {"standard": {"generate.seed": 1}}},
            None,
            r"presets\.standard: found 'generate\.seed', expected parameters of inner, metric, dec",
        ),
        ({"presets": {"standard": {"metric.epoch": 1}}}, None, r"metric\.epoch: .* no such key"),
        ({"presets": {"standard": {"metric.epochs": 0}}}, None, r"metric\.epochs: found 0, "),
        ({"presets": 3}, None, r"presets: found 3, "),
        ({"preset": 3}, None, r"preset: found 3, "),
        ({"inner.members": -1}, None, r"inner\.members: found -1, "),
        ({"inner.levels": 1}, None, r"inner\.levels: found 1, "),
    ],
)
def test_a_preset_that_cannot_be_meant_is_named(read, changes, overrides, message):
    with pytest.raises(ParameterError, match=message):
        read(changes, overrides)


def test_a_margin_may_be_none(read):
    assert read({}).metric.evidence_margin == 1.0
    assert read({"metric.evidence_margin": None}).metric.evidence_margin is None


def test_every_parameter_has_a_description():
    def check(block):
        for name, field in block.model_fields.items():
            inner = field.annotation
            if isinstance(inner, type) and hasattr(inner, "model_fields"):
                check(inner)
            else:
                assert field.description, f"{block.__name__}.{name}"

    check(Parameters)


@pytest.mark.parametrize("text", ["1e-3", "1.0e-3", "0.001", "1E-3"])
def test_one_over_a_thousand_is_a_number(tmp_path, text):
    # YAML 1.1 reads 1e-3, without a dot, as text.
    path = tmp_path / "params.yaml"
    written = FILE.read_text(encoding="utf-8").replace(
        "  learning_rate: 0.01\n", f"  learning_rate: {text}\n"
    )
    path.write_text(written, encoding="utf-8")
    assert read_parameters(path).decoders.learning_rate == 0.001


def test_a_whole_number_is_a_number(read):
    assert read({"metric.gradient_clip": 2}).metric.gradient_clip == 2.0


ERRORS = {
    "unknown key": ({"metric.epoch": 5}, r"metric\.epoch: found 5, expected no such key"),
    "unknown block": ({"metrics": {}}, r"metrics: found \{\}, expected no such key"),
    "unknown nested": ({"generate.noise.dark": 0.1}, r"generate\.noise\.dark: found 0\.1, expec"),
    "name of the field": ({"validation": {}}, r"validation: found \{\}, expected no such key"),
    "missing key": ({"metric.epochs": DELETED}, r"metric\.epochs: found 'nothing', expected Fie"),
    "missing block": ({"decoders": DELETED}, "decoders: found 'nothing', expected Field req"),
    "text": ({"metric.epochs": "ten"}, r"metric\.epochs: found 'ten', expected .*integer"),
    "number in quotes": ({"metric.epochs": "10"}, r"metric\.epochs: found '10', expected .*integ"),
    "fraction": ({"metric.epochs": 10.0}, r"metric\.epochs: found 10\.0, expected .*integer"),
    "truth": ({"metric.epochs": True}, r"metric\.epochs: found True, expected .*integer"),
    "no value": ({"metric.epochs": None}, r"metric\.epochs: found None, expected .*integer"),
    "zero": (
        {"metric.epochs": 0},
        r"metric\.epochs: found 0, expected .*greater than or equal to 1",
    ),
    "unknown schedule": (
        {"decoders.schedule": "linear"},
        r"decoders\.schedule: found 'linear', expected .*'cosine', 'constant' or 'warmup_cosine'",
    ),
    "unknown predictor": (
        {"decoders.kind": "mean"},
        r"decoders\.kind: found 'mean', expected .*'blend', 'posterior' or 'path'",
    ),
    "negative decay": (
        {"metric.weight_decay": -0.1},
        r"metric\.weight_decay: found -0\.1, expected .*greater than or equal to 0",
    ),
    "no parts": (
        {"metric.accumulation": 0},
        r"metric\.accumulation: found 0, expected .*greater than or equal to 1",
    ),
    "negative interval": (
        {"decoders.checkpoint_every": -1},
        r"decoders\.checkpoint_every: found -1, expected .*greater than or equal to 0",
    ),
    "negative": (
        {"decoders.learning_rate": -1.0},
        r"decoders\.learning_rate: found -1\.0, expected .*greater than 0",
    ),
    "nan": (
        {"decoders.learning_rate": float("nan")},
        r"decoders\.learning_rate: found nan, expected .*finite",
    ),
    "infinite": (
        {"decoders.learning_rate": float("inf")},
        r"decoders\.learning_rate: found inf, expected .*finite",
    ),
    "seed": ({"generate.seed": 2**31}, r"generate\.seed: found 2147483648, expected .*less than"),
    "choice": ({"device": "gpu"}, "device: found 'gpu', expected .*'auto', 'cpu', 'cuda' or 'mps'"),
    "half": ({"precision.training": "float8"}, r"precision\.training: found 'float8'"),
    "scalar block": ({"metric": 5}, "metric: found 5, expected .*dictionary"),
    "nested": ({"generate.wavelengths.step": 0}, r"generate\.wavelengths\.step: found 0, expected"),
    "in a list": (
        {"generate.concentrations": [0, 1, -2, 3]},
        r"generate\.concentrations\.2: found -2",
    ),
    "short list": (
        {"generate.concentrations": [0, 1, 2]},
        r"generate\.concentrations: .*at least 4",
    ),
    "in a pair": ({"metric.bounds": [0.2, "x"]}, r"metric\.bounds\.1: found 'x', expected"),
    "one of a pair": ({"metric.bounds": [0.2]}, r"metric\.bounds.*: found .*, expected"),
    "axis": ({"generate.wavelengths.stop": 200.0}, "generate.wavelengths: .*stop must be greater"),
    "kappa is missing": (
        {"spectra.chart": "asinh"},
        "spectra: .*kappa must be given for the asinh",
    ),
    "kappa of another": ({"spectra.kappa": 3.0}, "spectra: .*kappa must be given for the asinh"),
    "window": ({"spectra.window": [500, 400]}, r"spectra: .*window must be \[low, high\] with low"),
    "empty window": ({"spectra.window": [500, 500]}, r"spectra: .*window must be \[low, high\]"),
    "bounds": (
        {"metric.bounds": [5, 0.2]},
        r"metric: found {'bounds': \[5, 0\.2\]}, expected bounds must be \[low, high\]",
    ),
    "time points": (
        {"geodesics.time_points": 1},
        "geodesics: .*time_points must be 0 or at least 2",
    ),
    "band": ({"validate.bands": {"red": [700, 600]}}, "validate: .*band 'red' of bands must be"),
    "two wavelengths": ({"decoders.wavelengths": 1}, r"decoders\.wavelengths: found 1, expected"),
}


@pytest.mark.parametrize(("changes", "message"), ERRORS.values(), ids=ERRORS)
def test_errors_name_file_key_found_and_expected_in_one_line(read, tmp_path, changes, message):
    with pytest.raises(ParameterError, match=f": {message}") as caught:
        read(changes)
    assert str(caught.value).startswith(f"{tmp_path / 'params.yaml'}: ")
    assert "\n" not in str(caught.value)
    assert "Value error" not in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"spectra.chart": "asinh", "spectra.kappa": 3.0},
        {"spectra.window": [400, 500.5]},
        {"geodesics.time_points": 0},
        {"geodesics.time_points": 2},
        {"validate.bands": {}},
        {"generate.concentrations": [0.5, 1, 2, 3]},
    ],
)
def test_what_the_validators_let_through(read, changes):
    dumped = read(changes).model_dump(by_alias=True, mode="json")
    for key, value in changes.items():
        block, name = key.split(".")
        assert dumped[block][name] == value


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"metric: [1, 2", "file: found '.*expected YAML"),
        (b"seed: 1\nseed: 2\n", "file: found '.*duplicate key.*expected YAML"),
        (b"- 1\n- 2\n", "file: found 'list', expected a mapping of blocks"),
        (b"", "file: found 'NoneType', expected a mapping of blocks"),
        (b"42", "file: found 'int', expected a mapping of blocks"),
        (b"\xff\xfe\x00", "file: found .*expected a readable YAML file"),
    ],
    ids=["no yaml", "twice", "list", "empty", "number", "binary"],
)
def test_what_is_no_mapping_is_refused(tmp_path, content, message):
    path = tmp_path / "params.yaml"
    path.write_bytes(content)
    with pytest.raises(ParameterError, match=message) as caught:
        read_parameters(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_missing_file_and_directory(tmp_path):
    for path, reason in ((tmp_path / "absent.yaml", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ParameterError, match=f"{path}: file: found .*{reason}.*readable"):
            read_parameters(path)


def test_overrides_replace_values_of_the_file(read):
    parameters = read(
        {},
        {
            "decoders.epochs": 7,
            "device": "cpu",
            "generate.noise.detector": 0.5,
            "metric.bounds": [1, 2],
        },
    )
    assert parameters.decoders.epochs == 7
    assert parameters.device == "cpu"
    assert parameters.generate.noise.detector == 0.5
    assert parameters.metric.bounds == (1.0, 2.0)
    assert parameters.metric.epochs == read({}).metric.epochs


def test_an_override_can_mend_the_file(read):
    assert read({"decoders.epochs": -1}, {"decoders.epochs": 7}).decoders.epochs == 7


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ({"decoders.epochs": 0}, r"command line: decoders\.epochs: found 0, expected"),
        ({"metric.bounds": [1, "x"]}, r"command line: metric\.bounds\.1: found 'x', expected"),
        ({"decoders.epoch": 3}, r"command line: decoders\.epoch: found 3, expected no such key"),
        ({"nothing.at.all": 3}, "nothing: found .*, expected no such key"),
    ],
)
def test_a_wrong_override_is_the_command_lines(read, override, message):
    with pytest.raises(ParameterError, match=message):
        read({}, override)


def test_a_wrong_value_of_the_file_is_the_files_whatever_is_overridden(read):
    with pytest.raises(ParameterError, match=r"params\.yaml: decoders\.epochs: found 0"):
        read({"decoders.epochs": 0}, {"decoders.learning_rate": 0.1, "decoders.epochs_": 1})


@pytest.mark.parametrize("value", [5, None, [1]])
def test_an_override_into_what_is_no_block(read, value):
    with pytest.raises(ParameterError, match=r"decoders: found .*, expected a mapping of param"):
        read({"decoders": value}, {"decoders.epochs": 3})


def test_parameters_cannot_be_changed(read):
    with pytest.raises(ValueError, match="frozen"):
        read({}).decoders.epochs = 3
