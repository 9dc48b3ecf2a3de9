"""A calibration that is saved and read again, and controls, validation and standards with it."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, linregress
from scipy.stats import t as student

import geonode
from geonode.calibration.calibration_file import CalibrationFile
from geonode.calibration.checks import Correction, Validation
from geonode.calibration.provenance import sha256
from geonode.calibration.routine import Routine, tables_of
from geonode.calibration.saved import load_calibration, save_calibration
from geonode.calibration.transfer import Piecewise, Transfer
from geonode.commands.spectra_file import spectra_parameters
from geonode.config import CalibrateParameters
from geonode.errors import ArtifactError, GeonodeError, ParameterError, SpectraError
from geonode.estimation.estimates import Estimate
from geonode.reading.files import read_spectra
from geonode.reading.series_file import read_measured
from geonode.spectra.table import Spectra
from geonode.storage.weights import read_weights, write_weights
from tests.calibration import beer
from tests.commands.calling import write

UNKNOWN = beer.spectra_at([0.5, 3.5, 9.0, 12.0])


def calibrated(file, method="auto", **options):
    series = read_measured(spectra_parameters(file, **options))
    return CalibrationFile.of(file.name, series, CalibrateParameters(method=method))


@pytest.mark.parametrize("kind", ["one", "several", "without geonode"])
def test_what_is_read_back_estimates_to_the_last_bit(request, tmp_path, kind):
    made = request.getfixturevalue("mixture" if kind == "several" else "calibration")
    made = replace(made, about={"calibrated with": "a.csv"})
    if kind == "without geonode":
        without = replace(made.model.calibration, curve=None, absent="too many levels")
        made = replace(made, model=replace(made.model, calibration=without))
    path, again = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    save_calibration(path, made)
    found = load_calibration(path)
    spectra, axis = made.series.signal[:4] + 1e-3, made.series.axis
    unknown = Spectra([*"abcd"], axis, "wavelength", "nm", spectra, np.empty(0))
    assert found.estimated(path, unknown) == made.estimated(path, unknown)
    amounts, ends = found.estimate(spectra)
    np.testing.assert_array_equal(amounts, made.estimate(spectra)[0])
    numbers = np.array([one.numbers for one in found.estimated(path, unknown)]).squeeze()
    np.testing.assert_array_equal(numbers[..., 0], amounts)
    np.testing.assert_array_equal(numbers[..., 1:], ends)
    assert (found.model.sentence, found.about) == (made.model.sentence, made.about)
    assert found.model.layers == made.model.layers
    assert ("p_value" in found.model.layers) == (kind == "one")
    save_calibration(again, found)
    assert again.read_bytes() == path.read_bytes()
    assert geonode.load_calibration is load_calibration


def by(file, key):
    """Estimates by one of its methods, and their intervals."""
    calibration = file.model.calibration
    law = None if key == "geonode" else calibration.law
    one = replace(calibration, method=key, law=law)
    return np.column_stack(one.estimate(file.series.signal + 1e-3))


def test_every_method_and_preprocessing_is_kept(tmp_path, calibration, series_file):
    steps = "[{savgol: {window: 5, degree: 2, derivative: 1}}]"  # beside which no others are tried
    for made in (calibration, calibrated(series_file, preprocess=steps)):
        save_calibration(tmp_path / "saved.safetensors", made)
        found = load_calibration(tmp_path / "saved.safetensors")
        assert found.series.labels == made.series.labels
        for key in made.model.calibration.left_out:
            np.testing.assert_array_equal(by(found, key), by(made, key))


def altered(path, **changes):
    tensors, metadata = read_weights(path)
    write_weights(path, tensors, metadata | changes)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-100]), "found a damaged file"),
        (lambda path: path.write_text("calibration"), "none of `geonode calibrate`"),
        (lambda path: write_weights(path, {}, {}), "none of `geonode calibrate`"),
        (lambda path: altered(path, geonode="9.9"), "geonode 9.9, expected one of this"),
        (lambda path: altered(path, geonode="9\n" * 99), "geonode 9 9 9 9 9"),
        (lambda path: altered(path, calibration='{"dict": {}}'), "found a damaged file"),
        (lambda path: altered(path, calibration='{"Path": {"a": 1}}'), "found a damaged file"),
    ],
)
def test_what_is_no_calibration_is_refused(calibration, tmp_path, damage, message):
    path = tmp_path / "copy.safetensors"
    save_calibration(path, calibration)
    damage(path)
    with pytest.raises(ArtifactError, match=re.escape(message)) as told:
        load_calibration(path)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("kind", ["calibration", "mixture"])
@pytest.mark.usefixtures("unchecked")
def test_arrays_of_another_shape_are_refused(request, kind):
    made = request.getfixturevalue(kind)
    known = made.series.signal
    for wrong in (known[0], known[:0], known[:, 1:], known * np.nan):
        with pytest.raises(GeonodeError):
            made.estimate(wrong)


def test_between_the_parts_of_a_set_no_check_passes(tmp_path):
    """Levels 0 and 60, 5 and 55, ... have one spectrum; 30 lies between the parts of the set."""
    levels, band = np.array([0.0, 5, 10, 20, 30, 40, 50, 55, 60]), beer.spectra_at([8.0])[0]
    spectra = (1 + levels * (60 - levels) / 900)[:, None] * band
    table = {f"{level:g}": one for level, one in zip(levels, spectra, strict=True)}
    day = write(tmp_path / "day.csv", dict.fromkeys("AB", spectra[3]))
    judge = write(tmp_path / "v.csv", dict.fromkeys(("20", "30"), spectra[3]))
    file = calibrated(write(tmp_path / "s.csv", table), "geonode")
    used = Routine.read(file.series, [day], ["A=40", "B=30"], judge, None).used(file)
    right, wrong = used.controls
    assert (right.passed, wrong.passed) == (True, False)
    assert right.estimate.alternatives == pytest.approx([20, 40], abs=1)
    assert re.search(r"found \S+ or \S+ \(", right.sentence("1"))
    assert used.validations[0].covered.tolist() == [True, False]
    # Standards of the day that are twice as concentrated: parts and alternatives double.
    line = Correction("d.csv", list("abc"), 2 * levels[1:4], levels[1:4])
    one, _ = replace(file, correction=line).estimated(day, read_spectra(day))
    assert one.contains([40]) == one.contains([80]) == [True]
    assert one.contains([60]) == [False]
    assert one.remark.endswith("both fit; dilute and measure again. (before the correction)")
    # Standards that scatter make one wide part of both.
    scattered = Correction("d.csv", list("abc"), np.array([30.0, 10, 50]), levels[1:4])
    (((low, high),),) = scattered.of(one.by_geonode, 0.9).sets
    assert low < 20
    assert high > 40


def test_validation_scores_are_those_of_the_field():
    known, random = np.repeat([1.0, 4.0, 9.0], 2), np.random.default_rng(4)
    found = 0.3 + 1.1 * known + 0.1 * random.normal(size=6)
    estimates = [Estimate("a", [one], [[(one - 0.7, one + 0.7)]], True) for one in found.tolist()]
    judged = Validation("v.csv", known, estimates, 0, 0.9)
    line = linregress(known, found)
    assert judged.slope == pytest.approx(line.slope)
    errors = found - known
    assert judged.bias == pytest.approx(sum(errors) / 6)
    assert judged.rmsep**2 == pytest.approx(judged.bias**2 + errors.var())
    assert "slope 1.09, 2 of 6 inside" in judged.sentence("ppb")
    one = Validation("v.csv", known[:1], [replace(estimates[0], fits=False)], 0, 0.9)
    assert one.slope is None
    assert one.sentence("ppb").endswith("1 fit nowhere")


def test_a_validation_fails_where_chance_hardly_leaves_so_few_inside():
    estimate = Estimate("a", [0.0], [[(-1.0, 1.0)]], True)
    for count in (1, 2, 3, 10, 50):
        for inside in range(count + 1):
            known = 2.0 * (np.arange(count) >= inside)
            judged = Validation("v.csv", known, [estimate] * count, 0, 0.9)
            assert judged.fails == (binom.cdf(inside, count, 0.9) < 0.01 - 1e-12)
            assert ("it failed" in judged.sentence("ppb")) == judged.fails


def test_the_correction_is_a_line_by_least_squares_with_its_own_error():
    known, random = np.array([1.0, 3.0, 6.0, 9.0]), np.random.default_rng(5)
    found = (known - 0.4) / 0.9 + 0.05 * random.normal(size=4)
    line, expected = Correction("s.csv", list("abcd"), known, found), linregress(found, known)
    assert (line.slope, line.intercept) == pytest.approx((expected.slope, expected.intercept))
    middle, ends = line.applied(np.array([0.0, 5.0]), np.array([[0.0, 0.0], [4.0, 7.0]]), 0.9)
    np.testing.assert_allclose(middle, expected.intercept + expected.slope * np.array([0, 5]))
    # At zero the error of the line is that of its intercept.
    half = student.ppf(0.95, 2) * expected.intercept_stderr
    np.testing.assert_allclose(ends[0], middle[0] + np.array([-half, half]))
    # Elsewhere both halves are scaled, and the error of a line at a place is added in quadrature.
    at_place = linregress(found - 5, known).intercept_stderr * student.ppf(0.95, 2)
    halves = np.abs(ends[1] - middle[1])
    np.testing.assert_allclose(halves, np.hypot(expected.slope * np.array([1, 2]), at_place))


@pytest.mark.parametrize(
    ("known", "found", "message"),
    [
        ([1, 2], [1, 2], "found 2 standards"),
        ([2, 2, 2], [1, 2, 3], "of 1 concentrations"),
        ([1, 2, 3], [2, 2, 2], "do not rise"),
    ],
)
def test_standards_that_determine_no_line_are_refused(known, found, message):
    with pytest.raises(SpectraError, match=message):
        Correction("s.csv", [*"abc"[: len(known)]], np.array(known, float), np.array(found, float))


def test_standards_of_another_instrument_correct_what_is_estimated(calibration, tmp_path):
    """An instrument whose signal is 10% higher."""
    levels = np.array([1.0, 3.0, 6.0, 9.0])
    other = 1.1 * (beer.spectra_at(levels) - beer.spectra_at([0])) + beer.spectra_at([0])
    unknown = 1.1 * (UNKNOWN[1] - beer.spectra_at([0])[0]) + beer.spectra_at([0])[0]
    names = [f"{level:g} ppb" for level in levels]
    for name, columns in (("s", dict(zip(names, other, strict=True))), ("u", {"a": unknown})):
        write(tmp_path / f"{name}.csv", columns)
    given = [tmp_path / "u.csv"], [], tmp_path / "s.csv", tmp_path / "s.csv"
    found = Routine.read(calibration.series, *given).used(calibration)
    ((_, (one,)),) = found.unknowns
    assert one.amounts == pytest.approx([3.5], abs=0.06)
    assert one.uncorrected == pytest.approx([1.1 * 3.5], abs=0.1)
    assert one.contains([3.5]) == [True]
    assert found.validations[0].rmsep < 0.05  # of what is corrected


def test_spectra_are_made_those_of_the_first_instrument(calibration, tmp_path):
    """An instrument with more signal at one end of the axis, less at the other, and a ground."""
    gain, file = np.linspace(1.2, 0.9, len(beer.AXIS)), tmp_path / "s.csv"
    levels, unknown = beer.spectra_at(beer.LEVELS), gain * UNKNOWN[1] + 0.1
    named = zip([f"{level:g} ppb" for level in beer.LEVELS], gain * levels + 0.1, strict=True)
    write(file, dict(named))
    used = Routine.read(calibration.series, [], [], None, file).used(calibration)
    assert "RMSEP of levels left out in turn" in used.correction.sentence("ppb")
    made = Piecewise(-0.1 / gain, 1 / gain[:, None])
    transfer = Transfer("s.csv", [], *[beer.LEVELS] * 3, made, 0.01, 5, used.correction.tried)
    for file in (used, replace(calibration, correction=transfer)):
        amounts, ends = file.estimate(unknown[None])
        assert amounts == pytest.approx([3.5], abs=0.06)
        spectra = Spectra(["a"], beer.AXIS, "wavelength", "nm", unknown[None], np.empty(0))
        (one,) = file.estimated(tmp_path, spectra)
        assert one.numbers[0] == pytest.approx((amounts[0], *ends[0]))


def test_files_patterns_and_folders_of_tables_are_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("day1/a.csv", "day1/b.tsv", "day1/notes.md", "day1/.c.csv", "day2/a.csv"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (tmp_path / "empty").mkdir()

    def names(*given):
        return [path.as_posix() for path in tables_of([type(tmp_path)(one) for one in given])]

    assert names("day1") == ["day1/a.csv", "day1/b.tsv"]
    assert names("day*/a.csv", "day1/b.tsv") == ["day1/a.csv", "day2/a.csv", "day1/b.tsv"]
    assert len(names(tmp_path / "day?/*.csv")) == 2  # without hidden ones, as in a shell
    for given in (["empty"], ["day3/*.csv"], ["day1", "day1/a.csv"]):
        with pytest.raises(SpectraError, match="expected"):
            names(*given)


def test_a_control_that_is_no_number_or_not_there_is_refused(calibration, tmp_path):
    day = write(tmp_path / "day.csv", {"a": UNKNOWN[1]})
    twice = ["a=1", "a=2"], ["a=1", "day=2"]  # a spectrum alone has the name of its file too
    for controls in (["a"], ["a=x"], ["a=-1"], ["a=inf"], ["=3"], ["other=3"], *twice):
        with pytest.raises(ParameterError, match="--control"):
            Routine.read(calibration.series, [day], controls, None, None)


def test_checksums_are_sha_256(tmp_path):
    """Of the empty file, as FIPS 180 has it; a folder's changes with any name or byte in it."""
    (tmp_path / "a").touch()
    assert sha256(tmp_path / "a").startswith("e3b0c44298fc1c149afbf4c8996fb924")
    before = sha256(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert sha256(tmp_path) != before


def test_a_file_of_one_spectrum_is_a_control_by_its_own_name(calibration, tmp_path):
    write(tmp_path / "QC e\u0301.csv", {"absorbance": UNKNOWN[1]})  # decomposed, as of macOS
    routine = Routine.read(calibration.series, [tmp_path], ["QC\xa0\xe9=3.5"], None, None)
    (control,) = routine.used(calibration).controls
    assert (control.name, control.file, control.passed) == ("QC \xe9", "QC e\u0301.csv", True)
