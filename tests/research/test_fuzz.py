import numpy as np
import pytest

from research import fuzz
from research.fuzz import AXIS, LEVELS, READERS, SIGNAL
from tests.reading.tables import read_table


@pytest.mark.parametrize("name", READERS)
def test_damaged_files_give_results_or_typed_errors(name):
    assert {*fuzz.fuzzed(name, 12, seed=3)} <= {"valid result", "typed error"}


@pytest.mark.parametrize("name", READERS)
def test_seeds_are_what_the_fuzzer_thinks(tmp_path, name):
    for number, files in enumerate(fuzz.seeds_of(name)):
        whole = READERS[name].whole(dict(files))
        assert fuzz.outcome(name, whole) == "valid result"
        if READERS[name].read is fuzz.read_measured:
            table = read_table(fuzz.put(tmp_path / str(number), whole))
            np.testing.assert_array_equal(table.concentrations, LEVELS)
            np.testing.assert_array_equal(table.axis, AXIS)
            np.testing.assert_allclose(table.spectra, SIGNAL, rtol=1e-14)


def test_a_number_that_is_not_in_the_text_is_found(tmp_path, monkeypatch):
    (files, *_) = fuzz.seeds_of("text")
    written = read_table(fuzz.put(tmp_path, files))
    written.scans[0][0, 0] = 0.123456
    monkeypatch.setattr(fuzz, "measured_table", lambda parameters: written)
    with pytest.raises(AssertionError, match=r"\[0\.123456\] is not in the file"):
        fuzz.outcome("text", files)
