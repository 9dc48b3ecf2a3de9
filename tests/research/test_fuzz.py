import numpy as np
import pytest

import research.fuzz as benchmark
from geonode.reading.files import read_table
from research.fuzz import AXIS, LEVELS, READERS, SIGNAL


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


def test_a_number_that_is_not_in_the_text_is_found(tmp_path, monkeypatch):
    files = benchmark.case("text", 0, 0)
    written = read_table(benchmark.put(tmp_path, files))
    written.scans[0][0, 0] = 0.123456
    monkeypatch.setattr(benchmark, "read_table", lambda path: written)
    assert "[0.123456] is not in the file" in benchmark.outcome("text", files, tmp_path)
