import os
import time
import zlib
from pathlib import Path

import h5py
import numcodecs
import numpy as np
import pytest
import xarray

from geonode.errors import SpectraError
from geonode.estimation.image import Image
from geonode.spectra.formats import labelled_arrays
from geonode.spectra.reading import read_spectra, read_table
from geonode.spectra.sheet import NEVER_WRITTEN

AXIS = np.array([420.0, 410.0, 400.0, 390.0])
LEVELS = np.array([60.0, 0.0, 20.0, 10.0])
SIGNAL = np.random.default_rng(0).normal(size=(4, 4))


def dataset(signal=SIGNAL, dims=("concentration", "wavelength"), **more):
    data = xarray.Dataset(
        {"absorbance": (dims, signal, {"units": "1"}), **more},
        coords={dims[0]: LEVELS, dims[-1]: AXIS},
    )
    data[dims[0]].attrs["units"] = "ppb"
    data[dims[-1]].attrs["units"] = "nm"
    return data


def netcdf3(data, folder):
    data.to_netcdf(folder / "series.nc", engine="scipy")
    return folder / "series.nc"


def netcdf4(data, folder):
    data.to_netcdf(folder / "series.nc", engine="h5netcdf")
    return folder / "series.nc"


def zarr(data, folder):
    data.to_zarr(folder / "series.zarr", mode="w", consolidated=False)
    return folder / "series.zarr"


@pytest.mark.parametrize(
    ("write", "transposed", "dims"),
    [
        (netcdf3, False, ("concentration", "wavelength")),
        (netcdf3, True, ("row", "column")),  # known by the units of their coordinates
        (netcdf4, True, ("conc", "lambda")),
        (zarr, False, ("concentration", "wavelength")),
    ],
)
def test_one_variable_over_two_dimensions(tmp_path, write, transposed, dims):
    data = dataset(dims=dims, scans=(dims[:1], np.ones(4)), count=7)
    path = write(data.transpose() if transposed else data, tmp_path)
    table = read_table(path)
    np.testing.assert_array_equal(table.concentrations, [0, 10, 20, 60])
    np.testing.assert_array_equal(table.axis, [390, 400, 410, 420])
    np.testing.assert_array_equal(table.spectra, SIGNAL[[1, 3, 2, 0], ::-1])
    assert (table.axis_name, table.axis_unit, table.concentration_unit) == (dims[1], "nm", "ppb")


def test_replicates_that_were_not_made_are_no_gaps(tmp_path):
    signal = np.stack([SIGNAL, SIGNAL + 1], axis=1)
    signal[2, 1] = np.nan
    path = zarr(dataset(signal, ("concentration", "replicate", "wavelength")), tmp_path)
    table = read_table(path)
    assert [len(scans) for scans in table.scans] == [2, 2, 1, 2]
    np.testing.assert_array_equal(table.scans[3], [SIGNAL[0, ::-1], SIGNAL[0, ::-1] + 1])
    signal[0, 0, 1] = np.nan
    path = zarr(dataset(signal, ("concentration", "replicate", "wavelength")), tmp_path)
    with pytest.raises(SpectraError, match=r"wavelength 2, spectrum '60': found an empty or NaN"):
        read_table(path)
    np.testing.assert_array_equal(read_table(path, missing="mask").masked, [410])


def test_samples_have_names_and_no_levels(tmp_path):
    data = dataset().rename(concentration="sample").assign_coords(sample=[1, 2, 3, 4])
    path = netcdf3(data, tmp_path)
    found = read_spectra(path)
    assert found.names == ["1", "2", "3", "4"]
    np.testing.assert_array_equal(found.values, SIGNAL[:, ::-1])
    with pytest.raises(SpectraError, match="sample 1: found '1' as name of a sample"):
        read_table(path)


def at(**coordinates):
    return dataset().assign_coords(**coordinates)


REFUSED = {
    "two variables": (
        dataset(other=(("concentration", "wavelength"), SIGNAL)),
        "found 'absorbance', 'other' over a wavelength",
    ),
    "no axis": (dataset(dims=("concentration", "x")).drop_attrs(), "found no variable over"),
    "no coordinate": (dataset().drop_vars("wavelength"), "found no coordinate 'wavelength'"),
    "axis of texts": (at(wavelength=["a", "b", "c", "d"]), "on the axis, expected numbers"),
    "repeated axis": (
        at(wavelength=[1.0, 2, 2, 3]),
        "wavelength 3: .* again, first in wavelength 2",
    ),
    "axis with NaN": (at(wavelength=[1.0, 2, 3, np.nan]), "wavelength 4: found nan on the axis"),
    "same level": (
        at(concentration=[1.0, 2, 2, 3]),
        r"concentration 2 \('2'\) and concentration 3 \('2'\) are the same scan",
    ),
    "negative level": (at(concentration=[0.0, -1, 2, 3]), "not negative"),
    "infinite": (dataset(np.where(SIGNAL > 1, np.inf, SIGNAL)), "finite"),
    "never written": (dataset(np.where(SIGNAL > 1, NEVER_WRITTEN, SIGNAL)), "empty or NaN|NetCDF"),
}


@pytest.mark.parametrize(("data", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_series_is_refused(tmp_path, data, message):
    with pytest.raises(SpectraError, match=message):
        read_table(netcdf3(data, tmp_path))


def test_no_file_and_no_store(tmp_path):
    for name in ("absent.nc", "absent.zarr"):
        with pytest.raises(SpectraError, match=f"{name}: .*[Nn]o such"):
            read_table(tmp_path / name)


NOTHING = bytes(2**28)  # 256 MB


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no limit of memory here")
@pytest.mark.parametrize(
    ("variable", "codec"),
    [
        ("absorbance", numcodecs.GZip()),
        ("wavelength", numcodecs.Zstd()),
        ("absorbance", numcodecs.Blosc("zstd")),
        ("wavelength", numcodecs.LZ4()),
    ],
)
def test_a_chunk_of_zarr_that_unpacks_to_more_than_it_says_is_refused(
    tmp_path, monkeypatch, codec, variable
):
    path = tmp_path / "series.zarr"
    encoding = {variable: {"compressors": [codec]}}
    dataset().to_zarr(path, zarr_format=2, consolidated=False, encoding=encoding)
    monkeypatch.setattr(labelled_arrays, "MOST_VALUES", 10**6)
    read_table(path)
    (chunk,) = (file for file in (path / variable).iterdir() if file.name[0] == "0")
    chunk.write_bytes(codec.encode(NOTHING))
    with pytest.raises(SpectraError, match="found a chunk that cannot be unpacked, or to more"):
        read_table(path)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no limit of memory here")
def test_a_chunk_of_hdf5_that_unpacks_to_more_than_it_says_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "series.nc"
    data, encoding = dataset(), {"absorbance": {"zlib": True, "chunksizes": (4, 4)}}
    data.to_netcdf(path, engine="h5netcdf", encoding=encoding)
    monkeypatch.setattr(labelled_arrays, "MOST_VALUES", 10**6)
    read_table(path)
    with h5py.File(path, "r+") as file:
        file["absorbance"].id.write_direct_chunk((0, 0), zlib.compress(NOTHING))
    with pytest.raises(SpectraError, match="found a chunk that cannot be unpacked, or to more"):
        read_table(path)


# what a file may not lead to

SECRET = np.arange(4.0) + 1000


def elsewhere(folder):
    """Numbers in another file, as HDF5 and as they are."""
    with h5py.File(folder / "other.h5", "w") as file:
        file["secret"] = SECRET[:, None] * np.ones(4)
        file["wavelength"] = AXIS
        file["secret"].dims[1].attach_scale(file["wavelength"])
    (folder / "other.raw").write_bytes((SECRET[:, None] * np.ones(4)).tobytes())


def external_storage(file):
    raw = Path(file.filename).with_name("other.raw")
    file.create_dataset("absorbance", (4, 4), "f8", external=[(str(raw), 0, h5py.h5f.UNLIMITED)])


def external_link(file):
    file["absorbance"] = h5py.ExternalLink("other.h5", "secret")


def linked_group(file):
    file.create_dataset("absorbance", data=SIGNAL)
    file["inner/deeper"] = h5py.ExternalLink("other.h5", "/")


def virtual(file):
    layout = h5py.VirtualLayout((4, 4), "f8")
    layout[...] = h5py.VirtualSource("other.h5", "secret", (4, 4))
    file.create_virtual_dataset("absorbance", layout)


@pytest.mark.parametrize("put", [external_storage, external_link, linked_group, virtual])
def test_hdf5_that_leads_to_another_file_is_refused(tmp_path, put):
    elsewhere(tmp_path)
    path = netcdf4(dataset(), tmp_path)
    with h5py.File(path, "r+") as file:
        del file["absorbance"]
        put(file)
        if isinstance(file.get("absorbance", getlink=True), h5py.HardLink):
            for place, dim in enumerate(("concentration", "wavelength")):
                file["absorbance"].dims[place].attach_scale(file[dim])
    for read in (read_table, read_spectra):
        with pytest.raises(SpectraError, match=r"series\.nc: found an array in another file, exp"):
            read(path)


@pytest.mark.parametrize(("version", "kind"), [(2, "link"), (3, "pipe or a device")])
def test_a_store_with_links_or_pipes_in_it_is_refused(tmp_path, version, kind):
    dataset().to_zarr(tmp_path / "a.zarr", zarr_format=version, consolidated=False)
    chunk = tmp_path / "a.zarr" / ("absorbance/0.0" if version == 2 else "absorbance/c/0/0")
    chunk.rename(tmp_path / "secret")
    chunk.symlink_to(tmp_path / "secret") if kind == "link" else os.mkfifo(chunk)
    began = time.perf_counter()
    for read in (read_table, Image.open):
        with pytest.raises(SpectraError, match=rf"absorbance.*: found a {kind}, expected files a"):
            read(tmp_path / "a.zarr")
    assert time.perf_counter() - began < labelled_arrays.SECONDS


# what was never written


@pytest.mark.parametrize(
    ("write", "kind", "fill"),
    [
        (netcdf3, "f8", NEVER_WRITTEN),
        (netcdf3, "f4", NEVER_WRITTEN),
        (netcdf3, "i2", -32767),
        (netcdf4, "i4", -2147483647),
    ],
)
def test_the_fill_value_of_netcdf_is_a_missing_value(tmp_path, write, kind, fill):
    signal = np.round(100 * SIGNAL)
    signal[1, 2] = fill
    data = dataset(signal.astype(kind))
    data["absorbance"].encoding["_FillValue"] = None
    path = write(data, tmp_path)
    with pytest.raises(SpectraError, match="found an empty or NaN cell"):
        read_table(path)
    assert read_table(path, missing="mask").masked.tolist() == [AXIS[2]]


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absorbance", "array 'absorbance': found 1 of 4 chunks absent, which read as 0"),
        ("wavelength", "found 0 on the axis again"),
        ("concentration", "are the same scan|absent"),
    ],
)
def test_a_lost_chunk_is_no_number(tmp_path, version, name, message):
    store, key = tmp_path / "a.zarr", "fill_value" if version == 3 else "_FillValue"
    encoding = {one: {key: 0.0 if version == 3 else None} for one in dataset().variables}
    encoding["absorbance"]["chunks"] = (2, 2)
    dataset().to_zarr(store, zarr_format=version, consolidated=False, encoding=encoding)
    read_table(store)
    chunk = {"absorbance": {2: "0.1", 3: "c/0/1"}}.get(name, {2: "0", 3: "c/0"})[version]
    (store / name / chunk).unlink()
    for read in (read_table, read_spectra):
        with pytest.raises(SpectraError, match=message):
            read(store)
