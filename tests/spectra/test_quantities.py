"""What spectra are of: absorbance, transmittance and others, in the words of files."""

import numpy as np
import pytest
import xarray

from geonode.errors import SpectraError
from geonode.reading.files import read_spectra
from geonode.spectra.quantities import in_quantity, quantity_of, signal_of
from geonode.spectra.table import Spectra
from tests.reading.tables import read_table

SAID = {
    "absorbance": ["ABSORBANCE", "Abs", "absorbance (AU)", "Optical density", "OD", "Abs."],
    "transmittance": ["TRANSMITTANCE", "Transmission", "transmittance / 1"],
    "percent transmittance": ["%T", "% T", "T (%)", "Transmittance (%)", "percent transmittance"],
    "reflectance": ["REFLECTANCE", "diffuse_reflectance"],
    "percent reflectance": ["%R", "Reflectance [%]"],
    "Kubelka-Munk": ["KUBELKA-MUNK"],
    "fluorescence": ["Fluorescence intensity", "emission (counts)"],
    "milliabsorbance": ["Absorbance (mAU)", "Abs. / mAbs"],
    None: [
        *("", None, "signal", "a.u.", "log(1/R)", "10 ppb", "absorption coefficient"),
        *("1st derivative of absorbance", "Difference absorbance", "Normalized Abs"),
    ],
}


def test_quantities_are_known_by_their_words():
    for name, said in SAID.items():
        assert {quantity_of(text) for text in said} == {name}


def test_the_file_counts_where_it_is_contradicted():
    assert signal_of("signal", "1", "transmittance") == "transmittance"
    assert signal_of("absorbance", "1", "transmittance") == "transmittance"
    assert signal_of("extinction", "1", "absorbance") == "extinction"
    assert signal_of("absorbance", "1", None) == "absorbance"
    assert signal_of("reflectance", "%", "percent reflectance") == "reflectance"


ABSORBANCE = np.array([[0.0, 0.3, 1.0, 2.0]])
ALIKE = {
    "absorbance": ABSORBANCE,
    "transmittance": 10**-ABSORBANCE,
    "percent transmittance": 100 * 10**-ABSORBANCE,
}


def spectra(quantity, values):
    return Spectra(["a"], np.arange(4.0), "wavelength", "nm", values, np.empty(0), quantity)


@pytest.mark.parametrize("found", ALIKE)
@pytest.mark.parametrize("expected", ALIKE)
def test_what_is_the_same_measurement_is_converted(tmp_path, found, expected):
    labels = {"signal": f"{expected}, SNV", "signal_unit": "1"}
    converted = in_quantity(tmp_path, labels, spectra(found, ALIKE[found]))
    np.testing.assert_allclose(converted.values, ALIKE[expected], rtol=1e-12, atol=1e-12)
    assert bool(converted.converted) == (found != expected)


@pytest.mark.parametrize(
    ("found", "size", "message"),
    [
        ("reflectance", 1, "found spectra of reflectance, expected absorbance as calibrated"),
        ("fluorescence", 1, "found spectra of fluorescence"),
        ("milliabsorbance", 300, "found spectra of milliabsorbance"),
        ("transmittance", 90, "found a transmittance of 90, which is no absorbance"),
        ("percent transmittance", -1, "found a percent transmittance of -1"),
        ("transmittance", 0, "found a transmittance of 0"),
    ],
)
def test_what_is_another_one_is_refused(tmp_path, found, size, message):
    labels = {"signal": "absorbance", "signal_unit": "AU"}
    with pytest.raises(SpectraError, match=message):
        in_quantity(tmp_path, labels, spectra(found, np.full((1, 4), float(size))))


def test_files_give_their_quantity(tmp_path):
    rows = "".join(f"{axis},0.{axis}\n" for axis in range(400, 404))
    for name, said in (("t.csv", "%T"), ("a.csv", "Absorbance")):
        (tmp_path / name).write_text(f"nm,{said}\n{rows}", encoding="utf-8")
    assert read_spectra(tmp_path / "t.csv").quantity == "percent transmittance"
    with pytest.raises(SpectraError, match="absorbance and percent transmittance, expected one"):
        read_spectra(tmp_path)
    pairs = rows.replace("\n", ",1\n")
    (tmp_path / "samples.csv").write_text(f"nm,a,OD 3\n{pairs}", encoding="utf-8")
    assert read_spectra(tmp_path / "samples.csv").quantity is None
    signal = {"signal": (("concentration", "wavelength"), np.ones((4, 4)), {"long_name": "%R"})}
    axes = {"concentration": np.arange(4.0), "wavelength": np.arange(4.0)}
    xarray.Dataset(signal, axes).to_zarr(tmp_path / "r.zarr", consolidated=False)
    assert read_table(tmp_path / "r.zarr").quantity == "percent reflectance"
