import os
import sys

import numpy as np
import pytest
import xarray

from geonode.errors import SpectraError
from geonode.estimation.image import Image
from geonode.reading.amounts import Asked
from geonode.reading.files import read_sheet, read_spectra
from tests.reading.tables import assert_refused, read_table

AXIS = np.array([420.0, 410.0, 400.0, 390.0])
NC_FILL = 9.969209968386869e36  # NC_FILL_DOUBLE of netcdf.h
LEVELS = np.array([60.0, 0.0, 20.0, 10.0])
SIGNAL = np.random.default_rng(0).normal(size=(4, 4))
THREE = ("concentration", "replicate", "wavelength")


def dataset(signal=SIGNAL, dims=("concentration", "wavelength"), **more):
    data = xarray.Dataset(
        {"absorbance": (dims, signal, {"units": "1"}), **more},
        coords={dims[0]: LEVELS, dims[-1]: AXIS},
    )
    data[dims[0]].attrs["units"] = "ppb"
    data[dims[-1]].attrs["units"] = "nm"
    return data


@pytest.fixture
def store(tmp_path):
    def write(data):
        data.to_zarr(tmp_path / "series.zarr", mode="w", consolidated=False)
        return tmp_path / "series.zarr"

    return write


@pytest.mark.parametrize(
    ("transposed", "dims"),
    [
        (False, ("concentration", "wavelength")),
        (True, ("row", "column")),  # known by the units of their coordinates
        (True, ("conc", "lambda")),
    ],
)
def test_one_variable_over_two_dimensions(store, transposed, dims):
    data = dataset(dims=dims, scans=(dims[:1], np.ones(4)), count=7)
    table = read_table(store(data.transpose() if transposed else data))
    np.testing.assert_array_equal(table.concentrations, [0, 10, 20, 60])
    np.testing.assert_array_equal(table.axis, [390, 400, 410, 420])
    np.testing.assert_array_equal(table.spectra, SIGNAL[[1, 3, 2, 0], ::-1])
    assert (table.axis_name, table.axis_unit, table.concentration_unit) == (dims[1], "nm", "ppb")


def test_replicates_that_were_not_made_are_no_gaps(store):
    signal = np.stack([SIGNAL, SIGNAL + 1], axis=1)
    signal[2, 1] = np.nan
    table = read_table(store(dataset(signal, THREE)))
    assert [len(scans) for scans in table.scans] == [2, 2, 1, 2]
    np.testing.assert_array_equal(table.scans[3], [SIGNAL[0, ::-1], SIGNAL[0, ::-1] + 1])
    signal[0, 0, 1] = np.nan
    path = store(dataset(signal, THREE))
    assert_refused(r"wavelength 2, spectrum '60': found an empty or NaN", read_table, path)
    np.testing.assert_array_equal(read_table(path, missing="mask").masked, [410])


@pytest.mark.parametrize("names", [[1, 2, 3, 4], list("1234"), np.array([b"1", b"2 ", b"3", b"4"])])
def test_samples_have_names_and_no_levels(store, names):
    data = dataset().rename(concentration="sample").assign_coords(sample=names)
    data["wavelength"].attrs["units"] = "nm "
    found = read_spectra(store(data))
    assert (found.names, found.axis_unit) == ([*"1234"], "nm")
    np.testing.assert_array_equal(found.values, SIGNAL[:, ::-1])
    assert_refused("sample 1: found '1' as name of a sample", read_table, store(data))


def at(**coordinates):
    return dataset().assign_coords(**coordinates)


REFUSED = {
    "two variables": (
        dataset(other=(("concentration", "wavelength"), SIGNAL)),
        "found 'absorbance', 'other' over a wavelength",
    ),
    "no axis": (dataset(dims=("concentration", "x")).drop_attrs(), "found no variable over"),
    "no coordinate": (dataset().drop_vars("wavelength"), "found no coordinate 'wavelength'"),
    "axis of texts": (at(wavelength=[*"abcd"]), "on the axis, expected numbers"),
    "axis with NaN": (at(wavelength=[1.0, 2, 3, np.nan]), "wavelength 4: found nan on the axis"),
    "same level": (at(concentration=[1.0, 2, 2, 3]), r"concentration 2 \('2'\) and concentration"),
    "infinite": (dataset(np.where(SIGNAL > 1, np.inf, SIGNAL)), "finite"),
}


@pytest.mark.parametrize(("data", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_series_is_refused(store, data, message):
    assert_refused(message, read_table, store(data))


@pytest.mark.parametrize("engine", ["scipy", "h5netcdf"])
def test_netcdf_is_read_as_zarr_is(store, tmp_path, engine):
    data, path = dataset(np.stack([SIGNAL, SIGNAL + 1], axis=1), THREE), tmp_path / "series.nc"
    data.to_netcdf(path, engine=engine)
    found, expected = read_sheet(path, Asked()), read_sheet(store(data), Asked())
    for field in ("names", "axis_name", "axis_unit", "name_places", "concentration_unit", "signal"):
        assert getattr(found, field) == getattr(expected, field)
    np.testing.assert_array_equal(found.axis, expected.axis)
    np.testing.assert_array_equal(found.values, expected.values)
    path.write_bytes(path.read_bytes()[: 3 * path.stat().st_size // 4])
    assert_refused(r"series\.nc: found no labelled arrays that can be r", read_table, path)


@pytest.mark.parametrize(
    ("engine", "kind", "fill"),
    [("scipy", "f8", NC_FILL), ("scipy", "i2", -32767), ("h5netcdf", "i4", -2147483647)],
)
def test_the_fill_value_of_netcdf_is_a_missing_value(tmp_path, engine, kind, fill):
    signal = np.round(SIGNAL * 1000)
    signal[1, 2] = fill
    encoding = {"absorbance": {"dtype": kind, "_FillValue": None}}
    dataset(signal).to_netcdf(tmp_path / "a.nc", engine=engine, encoding=encoding)
    assert_refused("wavelength 3, spectrum '0': found an empty or N", read_table, tmp_path / "a.nc")
    assert read_table(tmp_path / "a.nc", missing="mask").masked.tolist() == [400]


def test_netcdf_that_is_none_too_large_or_lacks_its_package_is_refused(file, monkeypatch):
    assert_refused("found no labelled arrays tha", read_table, file("wavelength_nm,0,10\n", "a.nc"))
    path = file("", "series.nc")
    dataset().to_netcdf(path, engine="h5netcdf")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "h5netcdf", None)
        assert_refused(r'pip install "geonode-spectra\[netcdf\]"', read_table, path)
    os.truncate(path, 2**28 + 1)
    assert_refused(r"more than \d+ bytes.* write them as Zarr", read_table, path)


@pytest.mark.parametrize(("version", "kind"), [(2, "link"), (3, "pipe or a device")])
def test_a_store_with_links_or_pipes_in_it_is_refused(tmp_path, version, kind):
    dataset().to_zarr(tmp_path / "a.zarr", zarr_format=version, consolidated=False)
    chunk = tmp_path / "a.zarr" / ("absorbance/0.0" if version == 2 else "absorbance/c/0/0")
    chunk.rename(tmp_path / "secret")
    chunk.symlink_to(tmp_path / "secret") if kind == "link" else os.mkfifo(chunk)
    for read in (read_table, Image.open):
        with pytest.raises(SpectraError, match=rf"absorbance.*: found a {kind}, expected files an"):
            read(tmp_path / "a.zarr")


LOST = {
    "absorbance": "array 'absorbance': found 1 of 4 chunks absent, which read as 0",
    "wavelength": "found 0 on the axis again",
    "concentration": "are the same scan|absent",
}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(("name", "message"), LOST.items())
def test_a_lost_chunk_is_no_number(tmp_path, version, name, message):
    store, key = tmp_path / "a.zarr", "fill_value" if version == 3 else "_FillValue"
    encoding = {one: {key: 0.0 if version == 3 else None} for one in dataset().variables}
    encoding["absorbance"]["chunks"] = (2, 2)
    dataset().to_zarr(store, zarr_format=version, consolidated=False, encoding=encoding)
    read_table(store)
    chunk = {"absorbance": {2: "0.1", 3: "c/0/1"}}.get(name, {2: "0", 3: "c/0"})[version]
    (store / name / chunk).unlink()
    for read in (read_table, read_spectra):
        assert_refused(message, read, store)
