"""What is possible and hardly meant is said, with its cells."""

import numpy as np
import pytest

from geonode.spectra.inspection import inspect_file

LEVELS, AXIS = np.arange(0, 70, 10.0), np.arange(400.0, 440.0)
SPECTRA = 0.2 + LEVELS[:, None] / 100 * np.exp(-(((AXIS - 420) / 8) ** 2))
SPECTRA += np.random.default_rng(0).normal(0, 1e-3, SPECTRA.shape)


@pytest.fixture
def doubts(tmp_path):
    def found(spectra):
        rows = [["wavelength_nm", *LEVELS], *np.column_stack([AXIS, spectra.T]).tolist()]
        path = tmp_path / "a.csv"
        path.write_text("\n".join(",".join(map(str, row)) for row in rows), encoding="utf-8")
        inspection = inspect_file(path)
        for line in inspection.doubts:
            assert f"doubt: {line}" in inspection.text()
        return inspection.doubts

    return found


def test_an_ordinary_series_is_in_no_doubt(doubts):
    assert doubts(SPECTRA) == []


def test_a_value_far_beyond_the_others_is_named(doubts):
    changed = SPECTRA.copy()
    changed[2, 5] = 1e20
    assert "row 7, column '20.0'" in doubts(changed)[0]
    assert doubts(changed)[0].startswith("values of more than 1e+06 times the median size")


def test_a_flat_top_is_named(doubts):
    line = doubts(np.minimum(SPECTRA, 0.7))[0]
    assert line.startswith("flat tops of 3 values or more begin: row ")
    assert "column '60.0'" in line


def test_a_level_that_was_exchanged_is_named(doubts):
    changed = SPECTRA.copy()
    changed[3] = SPECTRA[0]
    assert any(line.startswith("level 30 is ") for line in doubts(changed))
