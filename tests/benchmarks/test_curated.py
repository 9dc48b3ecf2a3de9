from itertools import groupby

import pytest

from benchmarks import curated
from benchmarks.curated_tables import tables
from benchmarks.fuzz import AXIS

FEWEST, EVERY = 500, 2


@pytest.fixture(scope="module")
def cheap():
    """Every second case of those that are read in this process, by family."""
    some = [*tables(), *curated.jcamp(), *curated.unknown()][::EVERY]
    return {family: list(found) for family, found in groupby(some, lambda case: case.family)}


def test_there_are_enough_of_them_and_none_twice(cheap):
    few = sum(map(len, cheap.values()))
    assert few > 150
    arrays = len(curated.ENGINES) * len(curated.ARRAYS)
    assert EVERY * few + arrays > FEWEST
    names = [(family, case.name) for family, found in cheap.items() for case in found]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("kind", ["text", "wrong", "headers", "bytes", "Excel", "JCAMP", "unknown"])
def test_odd_inputs_are_read_right_or_refused(tmp_path, cheap, kind):
    chosen = [case for family, found in cheap.items() if family.startswith(kind) for case in found]
    assert len(chosen) > 4
    for number, case in enumerate(chosen):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert curated.outcome(case, folder) == ("refused" if case.refused else "right"), case.name


@pytest.mark.parametrize("engine", ["scipy", "zarr 3"])
@pytest.mark.parametrize("name", ["turned", "never written", "an axis twice"])
def test_odd_arrays_are_read_right_or_refused(tmp_path, engine, name):
    make, word, rounding = curated.ARRAYS[name]
    case = curated.Case("arrays", name, curated.stored(make(), engine), word, rounding)
    assert curated.outcome(case, tmp_path) == ("refused" if word else "right")


def test_a_wrong_reading_is_told(tmp_path):
    right = next(tables())
    text = right.files[".csv"].decode()
    wrong = {
        "read levels": text.replace("30.5", "30.6"),
        "read an axis": text.replace("411,", "412,"),
        "read another signal": text.replace("410,-1", "410,-2"),
        "refused, expected the series": text.replace("401", "x"),
    }
    for number, (said, content) in enumerate(wrong.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        changed = right._replace(files={".csv": content.encode()})
        assert curated.outcome(changed, folder).startswith(said)
    accepted = right._replace(refused="something")
    assert curated.outcome(accepted, tmp_path) == "read, expected something"
    other = ("wavelength", "nm", AXIS)
    assert "missing" in curated.outcome(right._replace(files={}, axis=other), tmp_path)
