import re
from functools import partial

import pytest
import torch
from typer.testing import CliRunner

import benchmarks.geometry as benchmark
from geonode.geodesics.solvers.methods import METHODS, Settings
from geonode.geometry.sources import grid_source
from geonode.parameters_file import read_parameters
from stages.paths import PARAMETERS
from tests.geometry.closed_forms import CPU
from tests.geometry.small_series import LEVELS, small_metrics, small_series

SERIES = small_series()
LEARNED = small_metrics(SERIES)
METRIC = LEARNED.metric(CPU)
WAVELENGTHS = torch.from_numpy(SERIES.wavelengths)
PARAMETERS_OF_GRIDS = read_parameters(PARAMETERS).christoffel
# Errors of paths that are followed in 40 steps are a few millionths; the command takes 100.
SHORT = partial(Settings, steps=40)
SOURCE = grid_source(PARAMETERS_OF_GRIDS, METRIC, WAVELENGTHS)


def column(table, key):
    return {next(iter(row.values())): row[key] for row in table}


def test_grids_are_compared_with_the_network():
    table = benchmark.grids(PARAMETERS_OF_GRIDS, METRIC, WAVELENGTHS, 2)
    calls, errors = column(table, "network calls"), column(table, "ln sqrt(g), from direct")
    assert calls["direct"] == 2000 * len(SERIES.axis) > calls["chebyshev"] > 0
    assert errors["direct"] == 0 < errors["chebyshev"] < 1e-9


def test_symbols_and_lookups_have_the_errors_that_they_must_have():
    errors = benchmark.symbols(METRIC, 40, 1)
    double = column([row for row in errors if row["format"] == "float64"], "relative error")
    single = column([row for row in errors if row["format"] == "float32"], "relative error")
    assert double["analytic"] < 1e-12 < double["finite_difference"] < 1e-8
    assert single["analytic"] < 1e-5 < single["finite_difference"] < 1e-2
    lookups = benchmark.lookups(SOURCE, 50, 1)
    coarse, fine, single = (row["symbol"] for row in lookups)
    assert fine < single < 1e-5
    assert fine < coarse


def test_formats_of_storage_differ_by_their_rounding():
    table = benchmark.storage(SOURCE, LEARNED, SERIES, METRIC)
    sizes, errors = column(table, "MB"), column(table, "endpoint")
    assert sizes["float16"] < sizes["float32"]
    assert errors["float32"] < 1e-6 < errors["float16"] < 1e-2


@pytest.mark.slow
def test_every_method_is_judged_by_the_network(monkeypatch):
    monkeypatch.setattr(benchmark, "Settings", SHORT)
    table = benchmark.methods(SOURCE, METRIC, LEARNED, SERIES, scipy_rows=1)
    errors, rows = column(table, "v0"), column(table, "rows")
    assert list(errors) == ["closed_form", "newton", "lbfgs", "adam", "dopri5", "scipy"]
    assert rows["newton"] == (LEVELS + 1) * LEVELS * (LEVELS - 1) * len(SERIES.axis)
    assert rows["scipy"] == LEVELS + 1
    assert errors["closed_form"] < 1e-9
    assert all(0 < error < 1e-5 for error in errors.values())
    assert not any(column(table, "unconverged").values())


def test_integrators_are_judged_by_quadrature():
    table = benchmark.integrators(METRIC, SERIES, 20)
    for judged in ("endpoint", "sensitivity"):
        errors = column(table, judged)
        assert errors["rk4, 50 steps"] < errors["rk4, 20 steps"] < 1e-4
        assert errors["dopri5, 1e-07"] < 1e-5


def test_tables_are_markdown():
    row = {"name": "a", "rows": 18030, "error": 1.234e-7, "us": 12.345, "many": 7931.5, "none": 0.0}
    assert benchmark.markdown([row]) == (
        "| name | rows | error | us | many | none |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        "| a | 18,030 | 1.2e-07 | 12.3 | 7,932 | 0 |"
    )


@pytest.mark.slow
def test_the_command_prints_all_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "read_series", lambda path: SERIES)
    monkeypatch.setattr(benchmark.LearnedMetrics, "read", lambda path: LEARNED)
    monkeypatch.setattr(benchmark, "METHODS", {"closed_form": METHODS["closed_form"]})
    application = benchmark.typer.Typer()
    application.command()(benchmark.main)
    options = ["--repeats", "1", "--points", "10", "--scipy-rows", "1"]
    result = CliRunner().invoke(application, options, catch_exceptions=False)
    assert result.exit_code == 0
    assert len(re.findall(r"^\| --- ", result.output, re.M)) == 6
