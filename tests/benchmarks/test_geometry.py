import re

import pytest

import benchmarks.geometry as benchmark
from benchmarks.geometry import Bench
from geonode.parameters_file import read_parameters
from stages.paths import PARAMETERS
from tests.geometry.small_series import LEVELS, small_metrics, small_series

SERIES = small_series()
LEARNED = small_metrics(SERIES)
FOLDS = LEVELS + 1


@pytest.fixture
def bench(monkeypatch):
    """Errors of paths that are followed in 25 steps are a few millionths; the command takes 100."""
    small = {"REPEATS": 1, "POINTS": 30, "NODES": 1000, "SCIPY_ROWS": 1}
    for name, value in small.items():
        monkeypatch.setattr(benchmark, name, value)
    parameters = read_parameters(PARAMETERS)
    geodesics = parameters.geodesics.model_copy(update={"steps": 25, "tolerance": 1e-6})
    return Bench(parameters.model_copy(update={"geodesics": geodesics}), LEARNED, SERIES)


def column(table, key):
    return {next(iter(row.values())): row[key] for row in table}


def test_grids_symbols_and_lookups_have_the_errors_that_they_must_have(bench):
    grids = bench.grids()
    calls, errors = column(grids, "network calls"), column(grids, "ln sqrt(g), from direct")
    assert calls["direct"] == 1000 * len(SERIES.axis) > calls["chebyshev"] > 0
    assert errors["direct"] == 0 < errors["chebyshev"] < 1e-8
    symbols = bench.symbols()
    double = column([row for row in symbols if row["format"] == "float64"], "relative error")
    single = column([row for row in symbols if row["format"] == "float32"], "relative error")
    assert double["analytic"] < 1e-12 < double["finite_difference"] < 1e-8
    assert single["analytic"] < 1e-5 < single["finite_difference"] < 1e-2
    lookups = column(bench.lookups(), "symbol")
    assert lookups["float64"] < lookups["float32"] < 1e-5


def test_methods_are_judged_by_the_network(bench):
    table = bench.methods()
    errors, rows = column(table, "v0"), column(table, "rows")
    assert rows["newton"] == FOLDS * LEVELS * (LEVELS - 1) * len(SERIES.axis)
    assert rows["scipy"] == FOLDS
    assert errors["closed_form"] < 1e-8
    assert all(0 < error < 1e-5 for error in errors.values())
    assert not any(column(table, "unconverged").values())


def test_tables_are_markdown():
    row = {"name": "a", "rows": 18030, "error": 1.234e-7, "us": 12.345, "many": 7931.5, "none": 0.0}
    assert benchmark.markdown([row]) == (
        "| name | rows | error | us | many | none |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        "| a | 18,030 | 1.2e-07 | 12.3 | 7,932 | 0 |"
    )


def test_the_command_prints_all_tables(bench, monkeypatch, capsys):
    for name in ("symbols", "grids", "lookups", "methods"):
        monkeypatch.setattr(Bench, name, lambda self, name=name: [{name: 1}])
    monkeypatch.setattr(benchmark, "read_series", lambda path: SERIES)
    monkeypatch.setattr(benchmark.LearnedMetrics, "read", lambda path: LEARNED)
    benchmark.main()
    assert len(re.findall(r"^\| --- ", capsys.readouterr().out, re.M)) == 4
