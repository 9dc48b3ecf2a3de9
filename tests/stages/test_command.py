import subprocess
import sys
from pathlib import Path

import pytest

from geonode.config import Parameters, read_parameters
from tests.stages.conftest import ROOT, assert_refused

STAGES = {
    "probe": ["device", "precision-training", "precision-geometry"],
    "generate": ["seed", "concentrations", "replicates", "wavelengths-start", "noise-detector"],
    "spectra": ["source", "chart", "kappa", "window", "missing", "concentration-unit"],
    "metric": ["members", "epochs", "wavelengths", "learning-rate", "preset", "inner-members"],
    "christoffel": ["resolution", "method", "tolerance"],
    "geodesics": ["tolerance", "time-points"],
    "decoders": ["members", "epochs", "kind", "learning-rate", "preset", "inner-levels"],
    "validate": ["bands"],
    "report": [],
    "benchmark": ["sequential-sample", "repeats"],
    "ablation": ["folder", "seeds", "members"],
}


@pytest.mark.parametrize("name", STAGES)
def test_help_lists_the_parameters_of_the_stage(name, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    result = run(name, "--help")
    assert result.exit_code == 0
    for option in ["params", *STAGES[name]]:
        assert f"--{option} " in result.stdout


@pytest.mark.parametrize("name", STAGES)
def test_help_does_not_import_torch(name):
    code = f"import sys, stages.{name}; sys.exit('torch' in sys.modules or 'zarr' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_option_overrides_the_file(run, project):
    run("generate", "--concentrations", "[0, 5, 10, 20, 40]", "--replicates", "1")
    header = (project / "data/synthetic.csv").read_text(encoding="utf-8").splitlines()[0]
    assert header == "wavelength_nm,0,5,10,20,40"


def test_option_of_the_wrong_type_is_named(run):
    assert_refused(
        run("generate", "--seed", "many"), "command line", "generate.seed", "'many'", "integer"
    )


def test_option_that_is_no_yaml_is_named(run):
    assert_refused(run("generate", "--concentrations", "[0, 1"), "concentrations", "[0, 1", "YAML")


def test_missing_parameter_file_is_named(run):
    assert_refused(run("generate", "--params", "absent.yaml"), "absent.yaml")


def test_unknown_key_in_the_file_is_named(run, project):
    text = (project / "params.yaml").read_text(encoding="utf-8")
    (project / "params.yaml").write_text(text + "surprise: 1\n", encoding="utf-8")
    assert_refused(run("generate"), "params.yaml", "surprise")


def test_every_parameter_is_an_option_of_some_stage():
    fields = set(Parameters.model_json_schema()["properties"])
    blocks = {"device", "precision", "inner", "preset", *STAGES} - {"probe", "report"}
    assert fields - {"presets"} == blocks  # these name values of the others
    assert read_parameters(ROOT / "params.yaml").device == "auto"


def test_progress_is_silent_without_a_terminal(run):
    assert run("probe").stderr == ""
    assert run("generate").stderr == ""


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("spectra", "data/synthetic.csv"),
        ("metric", "data/device.json"),
        ("christoffel", "data/device.json"),
        ("geodesics", "data/device.json"),
        ("decoders", "data/device.json"),
        ("validate", "data/spectra.zarr"),
        ("report", "metrics/spectra.json"),
        ("benchmark", "data/device.json"),
        ("ablation", "data/device.json"),
    ],
)
def test_a_stage_before_its_inputs_says_what_is_missing(name, missing, run, project):
    assert_refused(run(name), missing)
    assert not any(project.glob("data/*"))


def test_an_absent_device_is_refused(run, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert_refused(run("probe", "--device", "cuda"), "'cuda'", "absent", "cpu")
    assert not Path("data/device.json").exists()
