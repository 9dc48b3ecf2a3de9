import pytest

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


@pytest.mark.parametrize("level", ["warning", "info"])
def test_the_log_says_what_begins_with_which_options_and_is_done(run, level):
    result = run("generate", "--log-level", level, "--seed", "5")
    lines = [] if level == "warning" else ["begins, with generate.seed 5", "is done after 0."]
    for line, said in zip(result.stderr.splitlines(), lines, strict=True):
        assert f"generate {said}" in line
