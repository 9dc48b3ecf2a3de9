import time

import numpy as np
import pytest
from typer.testing import CliRunner

import benchmarks.fuzz as benchmark
from benchmarks.fuzz import AXIS, LEVELS, READERS, SIGNAL, Reader
from geonode.errors import SpectraError
from geonode.spectra.reading import read_table

CASES = 300


@pytest.fixture
def one_reader(monkeypatch):
    """A fuzzer of one reader of empty files."""

    def install(read):
        files = Reader(lambda: [{".x": b"seed"}], lambda files, rng: False, read)
        monkeypatch.setattr(benchmark, "READERS", {"one": files})
        benchmark.seeds_of.cache_clear()

    yield install
    benchmark.seeds_of.cache_clear()


@pytest.mark.slow
def test_hostile_files_give_results_or_typed_errors(tmp_path):
    table, failures = benchmark.fuzz(CASES, 7, tmp_path)
    assert not failures
    assert sum(row["cases"] for row in table) == CASES
    for row in table:
        # Damage that nothing survives, or that nothing notices, would test nothing.
        assert row["valid results"] > 0, row
        assert row["typed errors"] > row["cases"] / 4, row


@pytest.mark.parametrize("name", READERS)
def test_seeds_are_read_and_cases_can_be_made_again(tmp_path, name):
    seeds = benchmark.seeds_of(name)
    for number in range(len(seeds)):
        folder = tmp_path / str(number)
        files, same = benchmark.case(name, number, 0)
        assert same
        assert benchmark.outcome(name, files, same, folder) == "valid"
    later = [benchmark.case(name, 30, 5) for _ in range(2)]
    assert later[0] == later[1] != benchmark.case(name, 31, 5)


def test_seeds_of_spectra_say_what_the_fuzzer_thinks(tmp_path):
    for name in ("text", "Excel", "JCAMP-DX", "NetCDF", "Zarr"):
        for number, files in enumerate(benchmark.seeds_of(name)):
            table = read_table(benchmark.put(tmp_path / f"{name}{number}", files))
            np.testing.assert_array_equal(table.concentrations, LEVELS)
            np.testing.assert_array_equal(table.axis, AXIS)
            np.testing.assert_allclose(table.spectra, SIGNAL, rtol=1e-14)


def wrong_number(path, files, same):
    benchmark.require(benchmark.finite([1.0, np.nan]), "not finite")


def untyped(path, files, same):
    raise IndexError("no such place")


def hangs(path, files, same):
    try:
        time.sleep(60)
    except Exception:
        pytest.fail("a hang can be forgiven")


@pytest.mark.parametrize(
    ("read", "message"),
    [(wrong_number, "not finite"), (untyped, "IndexError"), (hangs, "took more than 0.2 s")],
)
def test_a_reader_that_fails_is_found_and_its_file_kept(
    tmp_path, monkeypatch, one_reader, read, message
):
    one_reader(read)
    monkeypatch.setattr(benchmark, "LONGEST", 0.2)
    table, failures = benchmark.fuzz(2, 0, tmp_path)
    assert table[0]["failures"] == 2
    assert message in failures[0]
    assert (tmp_path / "one-0-0" / "case.x").read_bytes() == b"seed"
    assert str(tmp_path / "one-0-0" / "case.x") in failures[0]


def test_a_number_that_is_not_in_the_text_is_found(tmp_path, monkeypatch):
    files, _ = benchmark.case("text", 0, 0)
    written = read_table(benchmark.put(tmp_path, files))
    written.scans[0][0, 0] = 0.123456
    monkeypatch.setattr(benchmark, "read_table", lambda path: written)
    assert "[0.123456] is not in the file" in benchmark.outcome("text", files, False, tmp_path)
    assert "other signal" in benchmark.outcome("text", files, True, tmp_path)


def refuses(path, files, same):
    raise SpectraError("found what is refused")


@pytest.mark.parametrize(("read", "status"), [(refuses, 0), (untyped, 1)])
def test_the_command_prints_a_table_and_its_status_says_whether_any_failed(
    tmp_path, one_reader, read, status
):
    one_reader(read)
    application = benchmark.typer.Typer()
    application.command()(benchmark.main)
    result = CliRunner().invoke(application, ["--cases", "3", "--kept", str(tmp_path)])
    assert result.exit_code == status
    typed = 3 * (1 - status)
    assert f"| one | 3 | 0 | {typed} | {3 - typed} |" in result.output
    assert f"| all | 3 | 0 | {typed} | {3 - typed} |" in result.output
    assert result.stderr.count("kept as") == 3 * status
