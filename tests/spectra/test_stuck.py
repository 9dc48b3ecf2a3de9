import numpy as np
import pytest

from geonode.spectra.inspection import inspect_file
from geonode.spectra.reading import read_spectra, read_table
from tests.spectra.test_inspection import doubts_of, written_series

LEVELS = np.array([0, 5, 10, 20, 40, 60.0])
AXIS = np.arange(300.0, 420.0, 2.0)
BAND = LEVELS[:, None] / 100 * np.exp(-(((AXIS - 360) / 20) ** 2))
NOISY = 0.01 + BAND + np.random.default_rng(0).normal(0, 1e-3, BAND.shape)
MIDDLE = slice(15, 50)


def with_cells(level, part, number):
    found = NOISY.copy()
    found[level, part] = number
    return found


@pytest.mark.parametrize(
    ("spectra", "levels"),
    {
        "a ceiling": (np.minimum(NOISY, 0.3), {40, 60}),
        "a ceiling of rounded values": (np.minimum(np.round(NOISY, 3), 0.3), {40, 60}),
        "a dark level": (with_cells(3, MIDDLE, 0.0), {20}),
        "two dark levels": (with_cells(slice(3, 5), MIDDLE, 0.0), {20, 40}),
        "the highest": (with_cells(5, MIDDLE, 0.0), {60}),
        "another number": (with_cells(4, MIDDLE, 0.1), {40}),
    }.values(),
)
def test_levels_of_a_stuck_detector_are_named_and_masked(file, spectra, levels):
    path = written_series(file, LEVELS, spectra)
    (line,) = [one for one in inspect_file(path).doubts if one.startswith("one number")]
    same = {level: spectra[level == LEVELS] for level in levels}
    usual = {level: max((row[0] == value).sum() for value in row[0]) for level, row in same.items()}
    for level, count in usual.items():
        assert f"{level} ({count / len(AXIS):.1%})" in line
    assert line.count("%") == len(levels)
    numbers = {level: np.unique(row, return_counts=True) for level, row in same.items()}
    out = np.any([same[level] == n[c.argmax()] for level, (n, c) in numbers.items()], axis=(0, 1))
    masked = read_table(path, missing="mask")
    assert masked.masked.tolist() == AXIS[out].tolist()
    np.testing.assert_array_equal(masked.spectra, spectra[:, ~out])
    assert len(read_table(path).axis) == len(AXIS)


@pytest.mark.parametrize(
    "spectra",
    {
        "rounded": np.round(NOISY, 3),
        "rounded without noise": np.round(BAND, 3),
        "rounded to hundredths": np.round(BAND, 2),
        "a narrow band": np.round(LEVELS[:, None] / 100 * np.exp(-(((AXIS - 360) / 6) ** 2)), 3),
        "a baseline cut off at zero": np.maximum(NOISY - 0.0105, 0),
        "a blank of zeros": with_cells(0, slice(None), 0.0),
    }.values(),
)
def test_rounded_tops_and_zero_baselines_are_no_stuck_detector(file, spectra):
    assert doubts_of(file, LEVELS, spectra) == []
    assert len(read_table(written_series(file, LEVELS, spectra), missing="mask").masked) == 0


def test_a_level_of_one_number_is_named_and_masks_nothing(file):
    path = written_series(file, LEVELS, with_cells(3, slice(None), 0.0))
    found = inspect_file(path)
    assert any(line.startswith("one number at level 20 (100.0%)") for line in found.doubts)
    assert len(found.table.axis) == len(AXIS)


def test_flat_tops_of_unknowns_are_named_with_their_cells(file, caplog):
    read_spectra(written_series(file, ["x"], np.minimum(NOISY, 0.3)[5:]))
    first = int(np.flatnonzero(NOISY[5] >= 0.3)[0])
    assert f"flat tops of 3 values or more begin: row {first + 2}, column 'x'" in caplog.text
