import time

import numpy as np
import pytest
from typer.testing import CliRunner

import benchmarks.fuzz as benchmark
from benchmarks.fuzz import AXIS, LEVELS, READERS, SIGNAL, Reader
from geonode.errors import SpectraError
from geonode.spectra.reading import read_table


@pytest.fixture
def command(monkeypatch):
    """Run the command with readers in place of all."""

    def run(cases, **readers):
        if readers:
            monkeypatch.setattr(benchmark, "READERS", readers)
        benchmark.seeds_of.cache_clear()
        application = benchmark.typer.Typer()
        application.command()(benchmark.main)
        return CliRunner().invoke(application, ["--cases", str(cases), "--seed", "7"])

    yield run
    benchmark.seeds_of.cache_clear()


@pytest.mark.parametrize("name", READERS)
def test_damaged_files_give_results_or_typed_errors(tmp_path, name):
    found = [
        benchmark.outcome(name, benchmark.case(name, number, 3), tmp_path / str(number))
        for number in range(len(benchmark.seeds_of(name)) + 10)
    ]
    assert {*found} == {*benchmark.KINDS[:2]}


@pytest.mark.parametrize("name", READERS)
def test_seeds_say_what_the_fuzzer_thinks_and_cases_can_be_made_again(tmp_path, name):
    for number in range(len(benchmark.seeds_of(name))):
        files = benchmark.case(name, number, 0)
        if READERS[name].read is not benchmark.read_measured:
            assert benchmark.outcome(name, files, tmp_path / str(number)) == "valid results"
            continue
        table = read_table(benchmark.put(tmp_path / str(number), files))
        np.testing.assert_array_equal(table.concentrations, LEVELS)
        np.testing.assert_array_equal(table.axis, AXIS)
        np.testing.assert_allclose(table.spectra, SIGNAL, rtol=1e-14)
    one, again, other = (benchmark.case(name, number, 5) for number in (30, 30, 31))
    assert one == again != other


def wrong_number(path):
    assert benchmark.finite([1.0, np.nan]), "not finite"


def untyped(path):
    raise IndexError("no such place")


def hangs(path):
    try:
        time.sleep(60)
    except Exception:
        pytest.fail("a hang can be forgiven")


def refuses(path):
    raise SpectraError("found what is refused")


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (wrong_number, "not finite"),
        (untyped, "IndexError"),
        (hangs, "took more than 0.2 s"),
        (refuses, None),
    ],
)
def test_the_command_says_what_failed(monkeypatch, command, read, message):
    monkeypatch.setattr(benchmark, "LONGEST", 0.2)
    result = command(2, one=Reader(lambda: [{".x": b"seed"}], read))
    assert result.exit_code == bool(message)
    counts = ["0", "0", "2"] if message else ["0", "2", "0"]
    _, one, every = (line.split() for line in result.stdout.splitlines())
    assert (one, every) == (["one", *counts], ["all", *counts])
    assert result.stderr.count(message or "case(") == (2 if message else 0)


def test_a_number_that_is_not_in_the_text_is_found(tmp_path, monkeypatch):
    files = benchmark.case("text", 0, 0)
    written = read_table(benchmark.put(tmp_path, files))
    written.scans[0][0, 0] = 0.123456
    monkeypatch.setattr(benchmark, "read_table", lambda path: written)
    assert "[0.123456] is not in the file" in benchmark.outcome("text", files, tmp_path)
