import sys
import tracemalloc
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from threading import Barrier

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geonode.errors import GeometryError
from geonode.geodesics.memo import ENTRY_BYTES, Counts, GeodesicMemo, Key, Origin

FOLD, SOURCE, TARGET, WAVELENGTH = range(4)
SOLVED, REMEMBERED, INTERPOLATED = Origin
HERE = Key(0, -0.5, 0.25, 0.0)
ROOM = 100_000


def at(axis, *places):
    """Keys that differ from HERE along one axis."""
    return [Key(*HERE[:axis], place, *HERE[axis + 1 :]) for place in places]


def linear(key):
    return np.array([3 * key.source - key.target, 2 + key.wavelength + key.target, 7.0])


def closed_form(key):
    """Initial velocity on g = exp(3 x), and something smooth in the wavelength."""
    return np.array([np.expm1(1.5 * (key.target - key.source)) / 1.5, np.cos(3 * key.wavelength)])


def memo_of(solve=linear, largest_bytes=ROOM, near=0.0):
    return GeodesicMemo(
        solve, largest_bytes=largest_bytes, wavelength_tolerance=near, position_tolerance=near
    )


# against a model that looks at everything


class Model:
    """What a memo has to do, in the plainest way: a list of keys, those used last at its end."""

    def __init__(self, solve, largest_bytes, tolerances):
        self.solve, self.largest, self.tolerances = solve, largest_bytes, tolerances
        self.kept, self.counts = [], Counter()

    def use(self, key):
        self.kept.remove(key)
        self.kept.append(key)

    def bytes(self):
        return sum(self.solve(key).nbytes + ENTRY_BYTES for key in self.kept)

    def neighbours(self, key):
        for axis in (WAVELENGTH, TARGET, SOURCE):
            line = [k for k in self.kept if all(k[i] == key[i] for i in range(4) if i != axis)]
            low = max((k for k in line if k[axis] < key[axis]), default=None)
            high = min((k for k in line if k[axis] > key[axis]), default=None)
            if low is None or high is None or high[axis] - low[axis] > self.tolerances[axis]:
                continue
            other_end = {TARGET: key.source, SOURCE: key.target}.get(axis, np.inf)
            if not low[axis] <= other_end <= high[axis]:
                return axis, low, high
        return None

    def answer(self, key):
        if key in self.kept:
            self.counts["hits"] += 1
            self.use(key)
            return self.solve(key), REMEMBERED, None
        found = self.neighbours(key)
        if found:
            axis, *between = found
            self.counts["near_misses"] += 1
            for neighbour in between:
                self.use(neighbour)
            places = [neighbour[axis] for neighbour in between]
            columns = zip(*map(self.solve, between), strict=True)
            values = [np.interp(key[axis], places, column) for column in columns]
            return values, INTERPOLATED, tuple(between)
        self.counts["misses"] += 1
        self.kept.append(key)
        while self.bytes() > self.largest:
            self.kept.pop(0)
            self.counts["evictions"] += 1
        return self.solve(key), SOLVED, None


def of_any_size(key):
    return np.exp(np.arange(3 + 97 * key.fold) / 50 * (key.source - 2 * key.target + key[3] ** 2))


KEYS = st.sampled_from(
    [Key(*k) for k in product((0, 1), (-0.5, 0.0, 0.5), (-1.0, -0.25, 0.25, 1.0), (-0.5, 0.0, 0.5))]
)
TOLERANCES = st.sampled_from([0.0, 0.5, 0.75, 1.0, 2.0])


@settings(deadline=None, max_examples=60)
@given(
    keys=st.lists(KEYS, min_size=40, max_size=150),
    largest=st.integers(3_000, 80_000),
    wavelength=TOLERANCES,
    position=TOLERANCES,
)
def test_it_does_what_the_plainest_memo_does(keys, largest, wavelength, position):
    memo = GeodesicMemo(
        of_any_size,
        largest_bytes=largest,
        wavelength_tolerance=wavelength,
        position_tolerance=position,
    )
    model = Model(
        of_any_size, largest, {WAVELENGTH: wavelength, TARGET: position, SOURCE: position}
    )
    for key in keys:
        answer = memo(key)
        values, *expected = model.answer(key)
        assert [answer.origin, answer.between] == expected
        np.testing.assert_allclose(answer.values, values, rtol=1e-14, atol=0)
        assert memo.counts == Counts(**model.counts)
    assert sum(memo.counts[:3]) == len(keys)


@pytest.mark.slow
@pytest.mark.parametrize("kin", [False, True], ids=["alone", "on one line"])
def test_it_takes_no_more_memory_than_it_was_given(kin):
    largest, values = 1_000_000, np.zeros(10)
    places = np.random.default_rng(0).uniform(-1, 1, (1_500, 4)).tolist()
    tracemalloc.start()
    try:
        memo = memo_of(lambda key: values, largest)
        for number, (*ends, place, _) in enumerate(places):
            memo(Key(0, -1.0, 1.0, place) if kin else Key(number, *ends, place))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert memo.counts.evictions > 1_000
    assert peak <= largest


def test_room_for_three_holds_three_and_forgets_the_one_used_least_recently():
    a, b, c, d, e = at(WAVELENGTH, 0.1, 0.2, 0.3, 0.4, 0.5)
    memo = memo_of(largest_bytes=3 * (linear(HERE).nbytes + ENTRY_BYTES))
    assert [memo(key).origin for key in (a, b, c, a)] == [SOLVED, SOLVED, SOLVED, REMEMBERED]
    assert memo(d).origin is SOLVED  # in place of b
    assert [memo(key).origin for key in (a, c, d)] == [REMEMBERED] * 3
    assert memo(e).origin is SOLVED  # in place of a
    assert [memo(key).origin for key in (c, d, e, a)] == [REMEMBERED] * 3 + [SOLVED]
    assert memo.counts == Counts(hits=7, misses=6, near_misses=0, evictions=3)


def test_a_geodesic_as_large_as_the_memo_is_remembered_and_a_larger_one_refused():
    size = linear(HERE).nbytes + ENTRY_BYTES
    memo = memo_of(largest_bytes=size)
    assert [memo(HERE).origin for _ in range(2)] == [SOLVED, REMEMBERED]
    with pytest.raises(GeometryError, match=f"found {size - 1}, expected at least {size}, the"):
        memo_of(largest_bytes=size - 1)(HERE)


# near misses


@pytest.mark.parametrize("axis", [SOURCE, TARGET, WAVELENGTH])
def test_what_is_linear_is_interpolated_without_error(axis):
    low, key, high = at(axis, HERE[axis] - 0.125, HERE[axis] + 0.03, HERE[axis] + 0.25)
    memo = memo_of(near=0.375)
    memo(high), memo(low)
    for _ in range(2):  # it is not remembered as if it had been solved
        answer = memo(key)
        assert answer.origin is INTERPOLATED
        assert answer.between == (low, high)
        np.testing.assert_allclose(answer.values, linear(key), rtol=1e-15, atol=1e-15)
    assert memo.counts == Counts(misses=2, near_misses=2)


@pytest.mark.parametrize("axis", [SOURCE, TARGET, WAVELENGTH])
@pytest.mark.parametrize("gap", [0.2, 0.02])
def test_the_error_of_interpolation_is_within_its_bound(axis, gap):
    memo = memo_of(closed_form, near=gap * 1.001)
    low, *inside, high = at(axis, *(HERE[axis] + np.linspace(-gap / 2, gap / 2, 9)).tolist())
    memo(low), memo(high)
    answers = [memo(key) for key in inside]
    assert {answer.origin for answer in answers} == {INTERPOLATED}
    errors = [np.abs(a.values - closed_form(k)) for a, k in zip(answers, inside, strict=True)]
    longest = HERE.target - HERE.source + (gap / 2 if axis != WAVELENGTH else 0)
    curvature = 9 if axis == WAVELENGTH else 1.5 * np.exp(1.5 * longest)
    bound = gap**2 / 8 * curvature
    assert 0.3 * bound <= np.max(errors) <= bound


def test_the_nearest_neighbours_are_taken_wavelength_first_then_target_then_source():
    memo = memo_of(near=1.0)
    for axis in (SOURCE, TARGET, WAVELENGTH):
        near, far = (at(axis, HERE[axis] - gap, HERE[axis] + gap) for gap in (0.25, 0.375))
        for key in (*near, *far):
            assert memo(key).origin is SOLVED
        assert memo(HERE).between == tuple(near)


@pytest.mark.parametrize(
    ("remembered", "key"),
    [
        (at(WAVELENGTH, -0.25, 0.2501), HERE),  # farther apart than the tolerance
        (at(TARGET, 0.0, 0.5001), HERE),
        (at(SOURCE, -0.75, -0.2499), HERE),
        (at(WAVELENGTH, 0.125, 0.25), HERE),  # both above, both below
        (at(TARGET, 0.125, 0.1875), HERE),
        ([Key(0, -0.5, 0.125, -0.125), Key(0, -0.5, 0.375, 0.125)], HERE),  # two things differ
        ([Key(0, -0.5, 0.25, -0.125), Key(1, -0.5, 0.25, 0.125)], HERE),  # another fold
        ([Key(0, -0.5, 0.25, 0.0), Key(2, -0.5, 0.25, 0.0)], Key(1, -0.5, 0.25, 0.0)),
        ([Key(0, 0.0, -0.125, 0.0), Key(0, 0.0, 0.25, 0.0)], Key(0, 0.0, 0.125, 0.0)),
        ([Key(0, 0.0, 0.125, 0.0), Key(0, 0.25, 0.125, 0.0)], Key(0, 0.0625, 0.125, 0.0)),
    ],
)
def test_what_lies_between_no_two_neighbours_is_solved(remembered, key):
    memo = memo_of(near=0.5)
    assert [memo(each).origin for each in (*remembered, key)] == [SOLVED] * 3
    np.testing.assert_array_equal(memo(key).values, linear(key))


@pytest.mark.parametrize("axis", [SOURCE, TARGET, WAVELENGTH])
def test_every_tolerance_is_that_of_its_axis_and_includes_it(axis):
    own, other = ("wavelength_tolerance", "position_tolerance")[:: 1 if axis == WAVELENGTH else -1]
    low, high = at(axis, HERE[axis] - 0.25, HERE[axis] + 0.25)
    for tolerances, expected in [({own: 0.5}, INTERPOLATED), ({other: 1.0}, SOLVED), ({}, SOLVED)]:
        memo = GeodesicMemo(linear, largest_bytes=ROOM, **tolerances)
        assert [memo(key).origin for key in (low, high, HERE)] == [SOLVED, SOLVED, expected]


def test_nothing_is_interpolated_from_what_was_forgotten():
    low, high, other = at(WAVELENGTH, -0.25, 0.25, 0.75)
    memo = memo_of(largest_bytes=2 * (linear(HERE).nbytes + ENTRY_BYTES), near=2.0)
    memo(low), memo(high)
    assert memo(HERE).between == (low, high)
    memo(other)  # in place of the lower one
    assert memo(HERE).origin is SOLVED


def test_neighbours_that_do_not_match_are_refused():
    memo = memo_of(lambda key: np.zeros(2 if key.wavelength < 0 else 1), near=1.0)
    low, high = at(WAVELENGTH, -0.25, 0.25)
    memo(low), memo(high)
    with pytest.raises(GeometryError, match=r"solve: found 2 values for Key.* and 1 for Key.*many"):
        memo(HERE)
    assert memo.counts == Counts(misses=2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_interpolation_keeps_the_format_and_what_is_constant(dtype):
    memo = memo_of(lambda key: np.array([0.1], dtype), near=1.0)
    low, key, high = (at(WAVELENGTH, np.float64(place))[0] for place in (-0.3, 0.1, 0.4))
    memo(low), memo(high)
    answer = memo(key)
    assert answer.origin is INTERPOLATED
    assert answer.values.dtype == dtype
    assert answer.values == dtype(0.1)


# callers, threads, faults


def test_no_caller_can_change_what_others_get():
    own = linear(HERE)
    memo = memo_of(lambda key: own, near=1.0)
    answers = [memo(key) for key in (*at(WAVELENGTH, -0.25, 0.25, -0.25), HERE)]
    own[:] = np.nan
    assert [answer.origin for answer in answers] == [SOLVED, SOLVED, REMEMBERED, INTERPOLATED]
    for values, *_ in answers:
        with pytest.raises(ValueError, match="read-only"):
            values[0] = np.nan
        with pytest.raises(ValueError, match="WRITEABLE"):
            values.flags.writeable = True
    assert memo(at(WAVELENGTH, 0.25)[0]).values.tolist() == linear(HERE).tolist()


@pytest.fixture
def hasty_threads():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_threads")
def test_threads_share_a_memo():
    solved, threads, queries = [], 8, 400
    room = 12 * (linear(HERE).nbytes + ENTRY_BYTES)

    def solve(key):
        solved.append(key)
        return linear(key)

    memo = memo_of(solve, room, near=0.2)
    keys = at(WAVELENGTH, *np.linspace(-1, 1, 21).tolist())

    def ask(seed):
        wanted = [keys[i] for i in np.random.default_rng(seed).integers(len(keys), size=queries)]
        return [(key, memo(key)) for key in wanted]

    with ThreadPoolExecutor(threads) as pool:
        asked = [pair for pairs in pool.map(ask, range(threads)) for pair in pairs]
    for key, answer in asked:
        np.testing.assert_allclose(answer.values, linear(key), rtol=1e-14)
    origins = Counter(answer.origin for _, answer in asked)
    counts = memo.counts
    assert counts[:3] == tuple(origins[origin] for origin in (REMEMBERED, SOLVED, INTERPOLATED))
    assert counts.misses == len(solved)
    assert min(counts) > 0


def test_two_threads_that_miss_the_same_key_both_solve_it():
    both = Barrier(2, timeout=10)

    def solve(key):
        both.wait()  # passed by nobody who is alone, or who is kept waiting by a lock
        return linear(key)

    memo = memo_of(solve)
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(memo, [HERE, HERE]))
    assert [answer.origin for answer in answers] == [SOLVED, SOLVED]
    assert memo(HERE).origin is REMEMBERED
    assert memo.counts == Counts(hits=1, misses=2)


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        (lambda: 1 / 0, ZeroDivisionError, "division"),
        (lambda: np.zeros((2, 3)), GeometryError, r"solve: found shape \(2, 3\), expected one dim"),
        (
            lambda: np.zeros(1_000),
            GeometryError,
            f"largest_bytes: found 5000, expected at least {8_000 + ENTRY_BYTES}, the size of one",
        ),
    ],
)
def test_a_fault_leaves_the_memo_as_it_was(fault, error, message):
    kept = at(WAVELENGTH, -0.25, 0.25)
    memo = memo_of(lambda key: linear(key) if key in kept else fault(), 5_000)
    before = [memo(key).values for key in kept]
    for _ in range(2):
        with pytest.raises(error, match=message):
            memo(HERE)
    assert memo.counts == Counts(misses=2)
    for key, values in zip(kept, before, strict=True):
        assert memo(key).origin is REMEMBERED
        np.testing.assert_array_equal(memo(key).values, values)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"source": np.nan}, "source: found nan in Key.*, expected a finite number"),
        ({"target": np.inf}, "target: found inf in Key.*, expected a finite number"),
        ({"wavelength": np.nan}, "wavelength: found nan in Key.*, expected a finite number"),
        ({"target": -0.5}, "target: found -0.5, the source itself, expected another"),
    ],
)
def test_what_is_no_geodesic_is_refused(changed, message):
    memo = memo_of()
    with pytest.raises(GeometryError, match=message):
        memo(HERE._replace(**changed))
    assert memo.counts == Counts()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"largest_bytes": 0}, "largest_bytes: found 0, expected 1 or more"),
        ({"wavelength_tolerance": -0.1}, "wavelength_tolerance: found -0.1, expected 0 or more"),
        ({"position_tolerance": np.nan}, "position_tolerance: found nan, expected 0 or more"),
    ],
)
def test_bounds_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises(GeometryError, match=message):
        GeodesicMemo(linear, **({"largest_bytes": ROOM} | arguments))
