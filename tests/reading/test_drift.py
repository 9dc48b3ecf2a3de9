import numpy as np
import pytest

from tests.reading.tables import inspect_file

AXIS, LEVELS = np.arange(400.0, 430.0), [0, 10, 20, 40, 60]
BAND = np.exp(-(((AXIS - 415) / 5) ** 2))


def doubts(path, seed, gain, rounds=3):
    """Doubts about levels that were measured in rounds, with noise and a gain that drifts."""
    random, columns = np.random.default_rng(seed), {}
    for place in range(rounds * len(LEVELS)):
        again, level = divmod(place, len(LEVELS))
        name = f"{LEVELS[level]}__r{again + 1}" if again else str(LEVELS[level])
        signal = (0.1 + LEVELS[level] * BAND) * (1 + gain * place)
        columns[name] = signal + 0.1 * random.normal(size=len(AXIS))
    rows = zip(AXIS, *columns.values(), strict=True)
    lines = [",".join(["nm", *columns]), *(",".join(f"{one:.5f}" for one in row) for row in rows)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return [one for one in inspect_file(path).doubts if "drift in the order" in one]


def test_a_drift_is_seen_and_noise_is_none(tmp_path):
    """By construction noise is one in 1% of series; more than 5 of 100 have a chance of 5e-4."""
    assert sum(bool(doubts(tmp_path / "a.csv", seed, 0.0)) for seed in range(100)) <= 5
    assert all(doubts(tmp_path / "a.csv", seed, 0.003) for seed in range(5))


@pytest.mark.parametrize("rounds", [1, 2])
def test_few_scans_tell_nothing(tmp_path, rounds):
    """Of five levels with two scans there are 16 different orders, forwards and backwards."""
    assert not doubts(tmp_path / "a.csv", 0, 0.01, rounds)
