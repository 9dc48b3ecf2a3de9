from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from geonode.config import Parameters
from stages.command import progress, stage
from tests.stages.conftest import assert_refused

STAGES = {
    "generate": ["seed", "concentrations", "replicates", "wavelengths-start", "noise-detector"],
    "metric": ["members", "epochs", "memory-mb", "learning-rate", "preset", "inner-members"],
}


@pytest.mark.parametrize("name", STAGES)
def test_help_lists_the_parameters_of_the_stage(name, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    result = run(name, "--help")
    assert result.exit_code == 0
    for option in ["params", "log-level", *STAGES[name]]:
        assert f"--{option} " in result.stdout


def test_option_overrides_the_file(run, project):
    run("generate", "--concentrations", "[0, 5, 10, 20, 40]", "--replicates", "1")
    header = (project / "data/synthetic.csv").read_text(encoding="utf-8").splitlines()[0]
    assert header == "wavelength_nm,0,5,10,20,40"


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("--seed", "many"), ("command line", "generate.seed", "'many'", "integer")),
        (("--concentrations", "[0, 1"), ("concentrations", "[0, 1", "YAML")),
        (("--params", "absent.yaml"), ("absent.yaml",)),
    ],
)
def test_what_is_wrong_in_an_option_or_the_file_is_named(run, options, parts):
    assert_refused(run("generate", *options), *parts)


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("spectra", "data/synthetic.csv"),
        *((name, "data/device.json") for name in ("metric", "christoffel", "geodesics")),
        *((name, "data/device.json") for name in ("decoders", "validate", "benchmark")),
        ("report", "data/spectra.zarr"),
    ],
)
def test_a_stage_before_its_inputs_says_what_is_missing(name, missing, run, project):
    assert_refused(run(name), missing)
    assert not any(project.glob("data/*"))


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="it is there")
def test_an_absent_device_is_refused(run):
    assert_refused(run("probe", "--device", "mps"), "'mps'", "absent", "cpu")
    assert not Path("data/device.json").exists()


# the log; NAME is the file a stage is in: this one

NAME = Path(__file__).stem


def call(options):
    """Run a stage of three matrix products."""

    @stage("generate")
    def app(parameters: Parameters) -> str:
        """Multiply."""
        matrix = torch.eye(8)
        with progress("multiplying", 3) as report:
            for _ in range(3):
                matrix = matrix @ matrix
                report(1)
        return f"{parameters.generate.seed}"

    return CliRunner().invoke(app, options)


@pytest.mark.parametrize(
    ("level", "said"),
    [
        ("warning", []),
        ("info", ["stages", "stages"]),
        ("debug", ["stages", "progress", "stages"]),
    ],
)
def test_every_level_says_as_much_as_it_should(level, said, project):
    result = call(["--log-level", level, "--seed", "5"])
    lines = result.stderr.splitlines()
    assert (result.exit_code, result.stdout) == (0, "5\n")
    assert [line.split(":")[0] for line in lines] == [f"geonode.{name}" for name in said]
    if said:
        assert lines[0].endswith(f": {NAME} begins, with generate.seed 5")
        assert f": {NAME} is done after 0." in lines[-1]
    if level == "debug":
        assert "multiplying: 3 units in " in lines[1]
