import numpy as np
import pytest
import scipy.io

from geonode.reading.files import read_spectra
from tests.reading.tables import assert_refused, read_table

AXIS, LEVELS = np.arange(430.0, 400, -5), np.array([20.0, 0, 5, 9])
X = np.random.default_rng(0).normal(size=(4, 6))


@pytest.fixture
def mat(tmp_path):
    """Write arrays to a file of MATLAB."""

    def write(**arrays):
        scipy.io.savemat(tmp_path / "a.mat", arrays)
        return tmp_path / "a.mat"

    return write


@pytest.mark.parametrize("arrays", [{"X": X}, {"data": X.T, "n": 3.0, "about": "x"}])
@pytest.mark.parametrize(("axis", "unit"), [("wavelength_nm", "nm"), ("ax", "1")])
@pytest.mark.parametrize("kind", [float, np.int64])
def test_a_matrix_its_axis_and_its_concentrations_are_read(mat, arrays, axis, unit, kind):
    found = read_table(mat(conc_ppb=LEVELS.astype(kind), **arrays, **{axis: AXIS}))
    np.testing.assert_array_equal(found.concentrations, [0, 5, 9, 20])
    np.testing.assert_array_equal(found.spectra, X[[1, 2, 3, 0], ::-1])
    assert (found.axis_unit, found.concentration_unit) == (unit, "ppb")
    path = mat(X=X, wavelength_nm=AXIS, octane=LEVELS + 1, y_fat_ppb=LEVELS)
    assert read_table(path, target="octane").concentrations.tolist() == [1, 6, 10, 21]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": X, "Y": X, "nm": AXIS}, "found the matrices .*'X', 'Y'"),
        ({"X": X, "a": AXIS, "b": -AXIS}, "expected one of them along one side as axis"),
        ({"X": X, "nm": AXIS, "conc": LEVELS, "level": LEVELS}, "found several amounts"),
        ({"X": X, "nm": AXIS}, "name of a sample"),
        ({"X": X, "nm": AXIS, "Cu": LEVELS, "Ni": LEVELS}, "choose 'Cu' or 'Ni' by spectra.target"),
    ],
)
def test_what_does_not_tell_is_asked(mat, arrays, message):
    assert_refused(message, read_table, mat(**arrays))


def test_a_damaged_file_is_refused(mat):
    path = mat(X=X, nm=AXIS)
    assert read_spectra(path).names == ["1", "2", "3", "4"]
    content = path.read_bytes()
    for damaged in (content[:200], b"x" * 300, content.replace(b"\x00\x01IM", b"\x00\x02IM")):
        path.write_bytes(damaged)
        assert_refused(r"a\.mat: .*-v7", read_spectra, path)
