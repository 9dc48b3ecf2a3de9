import numpy as np
import pytest

from geonode.reading.files import read_spectra
from tests.reading.tables import inspect_file, read_table
from tests.reading.test_inspection import AXIS, doubts_of, written_series

LEVELS = np.array([0, 5, 10, 20, 40, 60.0])
BAND = LEVELS[:, None] / 100 * np.exp(-(((AXIS - 360) / 20) ** 2))
NOISY = 0.01 + BAND + np.random.default_rng(0).normal(0, 1e-3, BAND.shape)


def dark(levels, number=0.0, part=slice(15, 50)):
    found = NOISY.copy()
    found[levels, part] = number
    return found


@pytest.mark.parametrize(
    ("spectra", "expected"),
    [
        (np.minimum(NOISY, 0.3), {40: 0.3, 60: 0.3}),
        (np.minimum(np.round(NOISY, 3), 0.3), {40: 0.3, 60: 0.3}),
        (dark(3), {20: 0}),
        (dark([3, 4]), {20: 0, 40: 0}),
        (dark(5), {60: 0}),
        (dark(4, 0.1), {40: 0.1}),
    ],
)
def test_levels_of_a_stuck_detector_are_named_and_their_wavelengths_masked(file, spectra, expected):
    path = written_series(file, LEVELS, spectra)
    (line,) = [one for one in inspect_file(path).doubts if one.startswith("one number")]
    same = [(spectra[level == LEVELS] == number)[0] for level, number in expected.items()]
    shares = zip(expected, same, strict=True)
    named = ", ".join(f"{level} ({one.mean():.1%})" for level, one in shares)
    assert line.startswith(f"one number at level {named} of the wavelengths")
    out, masked = np.any(same, axis=0), read_table(path, missing="mask")
    assert masked.masked.tolist() == AXIS[out].tolist()
    np.testing.assert_array_equal(masked.spectra, spectra[:, ~out])
    assert len(read_table(path).axis) == len(AXIS)


@pytest.mark.parametrize(
    "spectra",
    [
        *(np.round(BAND, 3), np.round(BAND, 2), np.round(NOISY, 3)),
        np.round(LEVELS[:, None] / 100 * np.exp(-(((AXIS - 360) / 6) ** 2)), 3),  # a narrow band
        *(np.maximum(NOISY - 0.0105, 0), dark(0, part=slice(None))),
    ],
)
def test_rounded_tops_and_baselines_of_zeros_are_no_stuck_detector(file, spectra):
    assert doubts_of(file, LEVELS, spectra) == []


def test_a_level_of_one_number_is_named_and_masks_nothing(file):
    found = inspect_file(written_series(file, LEVELS, dark(3, part=slice(None))))
    assert any(line.startswith("one number at level 20 (100.0%)") for line in found.doubts)
    assert len(found.table.axis) == len(AXIS)


def test_flat_tops_of_unknowns_are_named_with_their_cells(file, caplog):
    read_spectra(written_series(file, ["x"], np.minimum(NOISY, 0.3)[5:]))
    first = int(np.flatnonzero(NOISY[5] >= 0.3)[0])
    assert f"flat tops of 3 values or more begin: row {first + 2}, column 'x'" in caplog.text
