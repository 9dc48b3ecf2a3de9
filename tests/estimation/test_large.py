import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geonode.errors import ArtifactError
from geonode.estimation import large
from geonode.estimation.large import batch_size, free_memory, in_format


@settings(deadline=None, max_examples=20)
@given(exponent=st.floats(-7, 3.9), digits=st.floats(1, 9.999), sign=st.sampled_from([-1, 1]))
@pytest.mark.parametrize("number", ["float16", "float32", "float64"])
def test_a_number_is_the_nearest_of_its_format(number, exponent, digits, sign):
    values = np.array([sign * digits * 10.0 ** int(exponent), np.nan])
    kept = in_format(values, number, "x")
    assert kept.dtype == number
    assert np.isnan(kept[1])
    for step in (-np.inf, np.inf):
        beside = float(np.nextafter(kept[0], kept.dtype.type(step)))
        assert abs(float(kept[0]) - values[0]) <= abs(beside - values[0])


@pytest.mark.parametrize(
    ("number", "largest"), [("float16", 65504.0), ("float32", 3.4028234663852886e38)]
)
def test_a_number_beyond_a_format_is_refused_and_named(number, largest):
    assert in_format(np.array([largest, -largest]), number, "x").tolist() == [largest, -largest]
    with pytest.raises(ArtifactError, match=f"map 'mean': found -.*the largest number of {number}"):
        in_format(np.array([0, -1.01 * largest]), number, "map 'mean'")


def test_a_batch_has_room_in_a_quarter_of_the_free_memory(monkeypatch):
    monkeypatch.setattr(large, "free_memory", lambda: 4000)
    assert batch_size(10, 1000, 1) == 100
    assert batch_size(10, 1000, 4) == 25
    assert batch_size(10, 7, 1) == 7
    assert batch_size(10**6, 7, 1) == 1


def test_free_memory_is_that_of_the_machine_or_of_its_container(tmp_path, monkeypatch):
    meminfo, limit = tmp_path / "meminfo", tmp_path / "memory.max"
    monkeypatch.setattr(large, "_MEMORY", meminfo)
    monkeypatch.setattr(large, "_LIMIT", limit)
    assert free_memory() == large.ASSUMED_FREE
    meminfo.write_text("MemTotal:       24105000 kB\nMemAvailable:   18990000 kB\n")
    assert free_memory() == 18990000 * 1024
    limit.write_text("max\n")
    assert free_memory() == 18990000 * 1024
    limit.write_text("1073741824\n")
    assert free_memory() == 2**30
