"""What is possible and hardly meant is reported, with its cells."""

import numpy as np
import pytest

from geonode.reading.files import read_spectra
from tests.reading.tables import inspect_file, read_table, text

AXIS = np.arange(300.0, 420.0, 2.0)
LEVELS = np.arange(0, 70, 10.0)
BROAD = np.exp(-(((AXIS - 360) / 20) ** 2))
SPECTRA = 0.2 + LEVELS[:, None] / 100 * BROAD
SPECTRA += np.random.default_rng(0).normal(0, 1e-3, SPECTRA.shape)
SIX = np.array([0, 5, 10, 20, 40, 60.0])
BAND = BROAD + 0.3 * np.exp(-(((AXIS - 320) / 9) ** 2))
PURE = SIX[:, None] / 100 * BROAD
NOISY = 0.01 + PURE + np.random.default_rng(0).normal(0, 1e-3, PURE.shape)


def changed(*cells, spectra=SPECTRA):
    """The spectra with other values at (level, wavelength)."""
    other = spectra.copy()
    for level, at, value in cells:
        other[level, at] = value
    return other


def series(file, levels, spectra, axis=AXIS):
    """A file of one column a spectrum."""
    rows = [["wavelength_nm", *levels], *np.column_stack([axis, *spectra]).tolist()]
    return file(text([[str(cell) for cell in row] for row in rows]))


def doubts_of(file, levels, spectra):
    return inspect_file(series(file, levels, spectra)).doubts


# codes and far values


def test_what_is_possible_and_hardly_meant_is_reported(file):
    assert doubts_of(file, LEVELS, SPECTRA) == []
    exchanged = doubts_of(file, LEVELS, SPECTRA[[0, 1, 2, 0, 4, 5, 6]])
    assert any("level 30 is " in line for line in exchanged)
    inspection = inspect_file(series(file, LEVELS, changed((2, 5, 5432.1))))
    (line,) = inspection.doubts
    assert line.startswith("values of more than 1000 times the largest of the others, 0.8")
    assert line.endswith(": row 7, column '20.0'")
    assert f"doubt: {line}" in inspection.text()


@pytest.mark.parametrize("code", [-9999.0, 999.0, 999.99, 1e30, -32768.0])
def test_a_code_of_a_missing_value_is_reported_with_its_cell(file, code):
    (line,) = doubts_of(file, LEVELS, changed((2, 5, code)))
    assert line.startswith(f"values of {code:.10g}, which often mean that one is missing")
    assert line.endswith(": row 7, column '20.0'")
    cells = [(level, at, code) for level in range(7) for at in range(40)]  # more than half of all
    (line,) = doubts_of(file, LEVELS, changed(*cells))
    assert "row 2, column '0.0'; row 3, column '0.0'" in line
    assert line.endswith("and 277 more")


def test_codes_are_reported_whoever_reads_the_file_and_however_it_is_laid_out(file, caplog):
    path = series(file, LEVELS, changed((2, 5, -9999.0), (4, 9, 1e30), (0, 0, 9999.0)))
    (line,) = inspect_file(path).doubts
    assert line.startswith("values of -9999, 9999, 1e+30, which")
    assert line.endswith(": row 2, column '0.0'; row 7, column '20.0'; row 11, column '40.0'")
    read_table(path)  # as `calibrate` does
    assert line in caplog.text
    read_spectra(series(file, ["x"], changed((6, 5, 9999.0))[6:]))
    assert "values of 9999, which" in caplog.text
    assert "row 7, column 'x'" in caplog.text
    read_spectra(series(file, ["x"], np.minimum(NOISY, 0.3)[5:]))
    first = int(np.flatnonzero(NOISY[5] >= 0.3)[0])
    assert f"flat tops of 3 values or more begin: row {first + 2}, column 'x'" in caplog.text
    rows = [["concentration", *AXIS], *np.c_[LEVELS, changed((2, 5, 9999.0))].tolist()]
    (line,) = inspect_file(file(text([[str(cell) for cell in row] for row in rows]))).doubts
    assert line.endswith(": row 4, column 7, spectrum '20.0'")
    # Among counts only a code of another sign is one.
    counts = np.round(1e4 * SPECTRA)
    (line,) = doubts_of(file, LEVELS, changed((2, 5, -9999.0), spectra=counts))
    assert line.startswith("values of -9999, which")
    lines = doubts_of(file, LEVELS, changed((2, 5, 9999.0), spectra=counts))
    assert not any("often mean" in line for line in lines)


def test_spikes_and_saturation_are_no_codes(file):
    """Counts of a Raman spectrometer: cosmic rays, and a detector of 16 bits at its ceiling."""
    random = np.random.default_rng(3)
    counts = 300 + 20 * LEVELS[:, None] * BROAD + random.normal(0, 15, (7, len(AXIS)))
    spikes = [(at % 7, 3 * at, random.uniform(2e3, 6e4)) for at in range(20)]
    for spectra in (changed(*spikes, spectra=counts), np.minimum(np.round(200 * counts), 65535)):
        lines = doubts_of(file, LEVELS, spectra)
        assert not [line for line in lines if line.startswith("values of")]
    assert any(line.startswith("one number at level") for line in lines)


# labels


def of_six(curved=0.0):
    """Six levels with noise, on a line or on a curve that flattens."""
    amounts = SIX / 60 / (1 + curved * SIX / 60)
    return 0.1 + amounts[:, None] * BAND + np.random.default_rng(1).normal(0, 1e-3, (6, len(AXIS)))


def test_a_response_that_saturates_or_bends_back_is_not_taken_for_swapped_labels(file):
    """As of fluorescence that is quenched: 0, 1, 2, 3, 2.6, 1.6."""
    amounts = np.array([0, 1, 2, 3, 2.6, 1.6])
    bent = amounts[:, None] * BAND + np.random.default_rng(2).normal(0, 1e-3, (6, len(AXIS)))
    for spectra in (bent, of_six(), of_six(2.0)):
        assert doubts_of(file, SIX, spectra) == []


@pytest.mark.parametrize("curved", [0.0, 2.0])
@pytest.mark.parametrize("pair", [(1, 2), (4, 5), (0, 5)])
def test_two_labels_that_were_swapped_are_reported(file, curved, pair):
    spectra = of_six(curved)
    spectra[[*pair]] = spectra[[*pair[::-1]]]
    one, other = SIX[[*pair]]
    lines = doubts_of(file, SIX, spectra)
    assert any(line.startswith(f"levels {one:g} and {other:g} look swapped") for line in lines)


def test_a_curve_over_decades_is_no_exchanged_sample_and_one_that_flattens_saturates(file):
    levels = 10 * 2.0 ** np.arange(9)
    noise = np.random.default_rng(4).normal(0, 1e-4, (9, len(AXIS)))
    # As of stray light: the band widens while it saturates.
    steep, flat = (
        doubts_of(file, levels, 1 - np.exp(-bend * levels[:, None] / levels[-1] * BAND) + noise)
        for bend in (1.0, 5.0)
    )
    assert steep == []
    assert [line[:43] for line in flat] == ["the signal saturates: from level 1280 to 25"]


def test_one_spectrum_under_many_levels_is_reported_once(file):
    spectra = of_six()
    spectra[1:4] = spectra[1]
    (line,) = [line for line in doubts_of(file, SIX, spectra) if "one and the same" in line]
    assert line.startswith("levels 5, 10 and 20 have one and the same spectrum")


# stuck detectors


def dark(levels, number=0.0, part=slice(15, 50)):
    found = NOISY.copy()
    found[levels, part] = number
    return found


@pytest.mark.parametrize(
    ("spectra", "expected"),
    [
        (np.minimum(np.round(NOISY, 3), 0.3), {40: 0.3, 60: 0.3}),
        (dark([3, 4]), {20: 0, 40: 0}),
        (dark(5), {60: 0}),
        (dark(4, 0.1), {40: 0.1}),
    ],
)
def test_levels_of_a_stuck_detector_are_named_and_their_wavelengths_masked(file, spectra, expected):
    path = series(file, SIX, spectra)
    (line,) = [one for one in inspect_file(path).doubts if one.startswith("one number")]
    same = [(spectra[level == SIX] == number)[0] for level, number in expected.items()]
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
        *(np.round(PURE, 2), np.round(NOISY, 3)),
        np.round(SIX[:, None] / 100 * np.exp(-(((AXIS - 360) / 6) ** 2)), 3),  # a narrow band
        *(np.maximum(NOISY - 0.0105, 0), dark(0, part=slice(None))),
    ],
)
def test_rounded_tops_and_baselines_of_zeros_are_no_stuck_detector(file, spectra):
    assert doubts_of(file, SIX, spectra) == []


def test_a_level_of_one_number_is_named_and_masks_nothing(file):
    found = inspect_file(series(file, SIX, dark(3, part=slice(None))))
    assert any(line.startswith("one number at level 20 (100.0%)") for line in found.doubts)
    assert len(found.table.axis) == len(AXIS)


# drift

SHORT, FIVE = np.arange(400.0, 430.0), [0, 10, 20, 40, 60]
NARROW = np.exp(-(((SHORT - 415) / 5) ** 2))


def drifts(file, seed, gain, rounds=3):
    """Doubts about levels that were measured in rounds, with noise and a gain that drifts."""
    random, columns = np.random.default_rng(seed), {}
    for place in range(rounds * len(FIVE)):
        again, level = divmod(place, len(FIVE))
        name = f"{FIVE[level]}__r{again + 1}" if again else str(FIVE[level])
        signal = (0.1 + FIVE[level] * NARROW) * (1 + gain * place)
        columns[name] = (signal + 0.1 * random.normal(size=len(SHORT))).round(5)
    lines = inspect_file(series(file, columns, columns.values(), SHORT)).doubts
    return [line for line in lines if "drift in the order" in line]


def test_a_drift_is_seen_and_noise_is_none(file):
    """By construction noise is one in 1% of series; more than 5 of 100 have a chance of 5e-4."""
    assert sum(bool(drifts(file, seed, 0.0)) for seed in range(100)) <= 5
    assert all(drifts(file, seed, 0.003) for seed in range(5))
    # Of five levels with two scans there are 16 different orders, forwards and backwards.
    assert not any(drifts(file, 0, 0.01, rounds) for rounds in (1, 2))
