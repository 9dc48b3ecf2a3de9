"""Samples of several substances, in every layout and format that one substance has."""

from functools import partial

import numpy as np
import openpyxl
import pandas as pd
import pytest
import scipy.io
import xarray

from geonode.commands.spectra_file import spectra_parameters
from geonode.reading.files import Choices, read_spectra, read_unknown_beside
from geonode.reading.series_file import known_sheet, read_measured
from tests.reading.tables import assert_refused, read_table

PLAIN = ("Cu", "Zn")
AXIS = np.array([400, 410, 420, 430])
RANDOM = np.random.default_rng(0)
AMOUNTS = np.round(RANDOM.uniform(0, 9, (8, 2)), 1)
AMOUNTS[7] = AMOUNTS[6]  # prepared twice
SIGNAL = np.round(AMOUNTS @ RANDOM.uniform(0, 1, (2, 4)) + RANDOM.uniform(0, 0.1, (8, 4)), 3)
NAMES = [f"s{at}" for at in range(8)]


def rows(headers=("y_Cu (ppm)", "y_Zn (ppm)"), **beside):
    """Samples in rows, with further columns before their amounts."""
    table = pd.DataFrame(np.c_[AMOUNTS, SIGNAL], columns=[*headers, *map(str, AXIS)])
    return pd.concat([pd.DataFrame(beside, table.index), table], axis=1)


def long(*columns, headers=("y_Cu (ppm)", "y_Zn (ppm)")):
    """One row a value; a replicate counts samples of equal amounts."""
    table = pd.DataFrame(
        {
            "sample": np.repeat(NAMES, 4),
            "replicate": np.repeat([*[1] * 7, 2], 4),
            headers[0]: np.repeat(AMOUNTS[:, 0], 4),
            "wavelength_nm": np.tile(AXIS, 8),
            "absorbance": SIGNAL.ravel(),
            headers[1]: np.repeat(AMOUNTS[:, 1], 4),
        }
    )
    return table.drop(columns=[one for one in ("sample", "replicate") if one not in columns])


def spectra():
    """One column a spectrum."""
    table = pd.DataFrame(SIGNAL.T, columns=NAMES)
    table.insert(0, "wavelength_nm", AXIS)
    return table


def second(headers=("Cu (ppm)", "Zn (ppm)"), order=slice(None, None, -1), name="sample"):
    """A second table, of the samples in another order."""
    table = pd.DataFrame(AMOUNTS, columns=[*headers])
    table.insert(0, name, NAMES)
    return table.iloc[order]


def units_below():
    """A second table with its units in a row of their own."""
    table = second(PLAIN).astype(object)
    return pd.concat([pd.DataFrame([["", "ppm", "(ppm)"]], columns=table.columns), table])


def arrays(names=("Cu", "Zn"), shape=("sample", "substance")):
    """Spectra and amounts of samples and substances as labelled arrays."""
    found = xarray.Dataset(
        {
            "absorbance": (("wavelength", "sample"), SIGNAL.T),
            "concentration": (("sample", "substance"), AMOUNTS, {"units": "ppm"}),
        },
        {"sample": NAMES, "substance": [*names], "wavelength": ("wavelength", AXIS)},
    )
    found["concentration"] = found["concentration"].transpose(*shape)
    found["wavelength"].attrs["units"] = "nm"
    return found


def jcamp():
    """One block a sample, with its components."""
    return "".join(
        f"##TITLE={name}\n##JCAMP-DX=4.24\n##XUNITS=NANOMETERS\n##YUNITS=ABSORBANCE\n"
        f"##CONCENTRATIONS=(NCU) (Cu, {cu}, ppm) (Zn, {zn}, ppm)\n##FIRSTX=400\n##LASTX=430\n"
        "##XFACTOR=1\n##YFACTOR=0.001\n##NPOINTS=4\n##XYDATA=(X++(Y..Y))\n400 "
        + " ".join(str(round(1000 * value)) for value in values)
        + "\n##END=\n"
        for name, (cu, zn), values in zip(NAMES, AMOUNTS.tolist(), SIGNAL.tolist(), strict=True)
    )


def read(path, table, known=None):
    """Mixtures of a table, and of a second one, as files in a folder."""
    if isinstance(table, pd.DataFrame):
        table = "a.csv", partial(table.to_csv, index=False)
    name, write = table
    write(path / name)
    if known is None:
        return read_measured(spectra_parameters(path / name))
    known.to_csv(path / "b.csv", index=False)
    return read_measured(spectra_parameters(path / name, concentrations=path / "b.csv"))


COMMAS = ("a.csv", lambda file: rows().to_csv(file, index=False, sep=";", decimal=","))
BOOK = ("a.xlsx", lambda file: rows(sample=NAMES).to_excel(file, index=False))


def shown(file):
    """A workbook of plain names, whose amounts are shown with their units."""
    rows(PLAIN, sample=NAMES).to_excel(file, index=False)
    book = openpyxl.load_workbook(file)
    for row in book.active["B2:C9"]:
        for cell in row:
            cell.number_format = '0.0" ppm"'
    book.save(file)


ZARR = ("a.zarr", lambda file: arrays().to_zarr(file, consolidated=False))
TURNED = arrays(shape=("substance", "sample"))
NETCDF = ("a.nc", lambda file: TURNED.to_netcdf(file, engine="scipy"))
MATLAB = {"X": SIGNAL, "wavelength_nm": AXIS / 1.0, "y_Cu": AMOUNTS[:, 0], "y_Zn": AMOUNTS[:, 1]}
KNOWN = {
    "rows": (rows(), None, "ppm"),
    "rows, plain": (rows(PLAIN, sample=NAMES, operator=["x y"] * 8), None, "1"),
    "rows, units without brackets": (rows(("Cu_ppm", "Zn ppm")), None, "ppm"),
    "rows, units behind a mark": (rows(("Cu, ppm", "Zn: ppm")), None, "ppm"),
    "rows, decimal commas": (COMMAS, None, "ppm"),
    "rows, a workbook": (BOOK, None, "ppm"),
    "rows, units shown": (("a.xlsx", shown), None, "ppm"),
    "long, samples": (long("sample"), None, "ppm"),
    "long, plain": (long("sample", headers=PLAIN), None, "1"),
    "long, replicates": (long("replicate"), None, "ppm"),
    "second": (spectra(), second(), "ppm"),
    "second, units below": (spectra(), units_below(), "ppm"),
    "second, marks": (spectra(), second(("y_Cu", "y_Zn"), order=[2, 1, 0, *range(3, 8)]), "1"),
    "second, of rows": (rows(PLAIN, sample=NAMES).drop(columns=[*PLAIN]), second(), "ppm"),
    "JCAMP-DX": (("a.dx", lambda file: file.write_text(jcamp())), None, "ppm"),
    "MATLAB": (("a.mat", lambda file: scipy.io.savemat(file, MATLAB)), None, "1"),
    "Zarr": (ZARR, None, "ppm"),
    "NetCDF": (NETCDF, None, "ppm"),
}


@pytest.mark.parametrize(("table", "known", "unit"), KNOWN.values(), ids=KNOWN)
def test_mixtures_are_read_from_every_layout(tmp_path, table, known, unit):
    found = read(tmp_path, table, known)
    assert (found.substances, found.units) == (("Cu", "Zn"), (unit, unit))
    np.testing.assert_array_equal(found.amounts, AMOUNTS)
    np.testing.assert_allclose(found.signal, SIGNAL, rtol=1e-12)
    np.testing.assert_array_equal(found.axis, AXIS)


def with_units(table, *headers):
    """A table with a column of units behind each amount."""
    for amount, header, unit in zip(("Cu", "Zn"), headers, ("ppm", "mM"), strict=True):
        place = table.columns.get_loc(amount) + 1
        table.insert(place, header, unit, allow_duplicates=True)
    return table


SAID = {
    "a unit each": (with_units(rows(PLAIN, sample=NAMES), "unit", "unit"), PLAIN, ("ppm", "mM")),
    "long": (with_units(long("sample", headers=PLAIN), "unit", "unit.1"), PLAIN, ("ppm", "mM")),
    "numbers": (
        long("sample", headers=("Red 40 (ppm)", "Blue 1 (ppm)")),
        *(("Red 40", "Blue 1"), ("ppm", "ppm")),
    ),
    "letters": (rows(("CV (µM)", "T (µM)")), ("CV", "T"), ("µM", "µM")),
    "an error": (rows(("CV (µM)", "T (µM)"), **{"error (µM)": 1.0}), ("CV", "T"), ("µM", "µM")),
}


@pytest.mark.parametrize(("table", "substances", "units"), SAID.values(), ids=SAID)
def test_substances_and_units_are_those_of_the_table(tmp_path, table, substances, units):
    found = read(tmp_path, table)
    assert (found.substances, found.units) == (substances, units)
    np.testing.assert_array_equal(found.amounts, AMOUNTS)
    np.testing.assert_array_equal(found.signal, SIGNAL)


def test_columns_that_are_no_substances_are_said(tmp_path):
    rows(PLAIN, sample=NAMES, T=np.arange(8) / 2).to_csv(tmp_path / "a.csv", index=False)
    assert "columns T" in known_sheet(spectra_parameters(tmp_path / "a.csv")).understood.skipped


def test_the_order_of_substances_is_not_that_of_a_folder(tmp_path):
    data = xarray.Dataset({"absorbance": (("sample", "wavelength"), SIGNAL)})
    data = data.assign_coords(sample=NAMES, wavelength=("wavelength", AXIS, {"units": "nm"}))
    names = [f"y_{letter}" for letter in "hgfedcba"]
    data = data.assign(dict.fromkeys(names, ("sample", AMOUNTS[:, 0])))
    data.to_zarr(tmp_path / "a.zarr", consolidated=False)
    assert read_measured(spectra_parameters(tmp_path / "a.zarr")).substances == tuple("abcdefgh")


def test_one_of_several_is_a_series_and_all_are_spectra(tmp_path):
    for table in (ZARR, COMMAS):
        read(tmp_path, table)
        path = tmp_path / table[0]
        assert_refused("several amounts, 'Cu', 'Zn'; choose one", read_table, path)
        zinc = read_table(path, target="zn")
        np.testing.assert_array_equal(zinc.concentrations, np.unique(AMOUNTS[:, 1]))
        assert zinc.concentration_unit == "ppm"
        assert [len(scans) for scans in zinc.scans].count(2) == 1
        assert len(read_spectra(path).names) == 8


def test_one_substance_of_labelled_arrays_is_a_series(tmp_path):
    data = arrays().isel(substance=[1])
    data["concentration"][3] = np.nan
    data["humidity"] = "sample", AMOUNTS[:, 0], {"units": "%"}
    data.to_zarr(tmp_path / "a.zarr", consolidated=False)
    expected = np.unique(np.delete(AMOUNTS[:, 1], 3))
    np.testing.assert_array_equal(read_table(tmp_path / "a.zarr").concentrations, expected)


@pytest.mark.parametrize(
    ("table", "known"), [(rows(sample=NAMES), None), (long("sample"), None), (spectra(), second())]
)
def test_samples_without_an_amount_are_left_out_and_said(tmp_path, table, known, caplog):
    changed = table if known is None else known
    place = changed["sample"] == "s2"
    column = next(name for name in changed if "Zn" in name)
    changed = changed.astype({column: object})
    changed.loc[place, column] = "n/a"
    found = read(tmp_path, *((changed,) if known is None else (table, changed)))
    np.testing.assert_array_equal(found.amounts, np.delete(AMOUNTS, 2, axis=0))
    assert "samples without all amounts left out: s2" in caplog.text


def test_samples_without_any_amount_are_unknowns(tmp_path, caplog):
    changed = second().astype(object)
    changed.loc[changed["sample"] == "s2", ["Cu (ppm)", "Zn (ppm)"]] = "unknown"
    found = read(tmp_path, spectra(), changed)
    np.testing.assert_array_equal(found.amounts, np.delete(AMOUNTS, 2, axis=0))
    assert "spectra without a known amount are unknowns: s2" in caplog.text
    choices = Choices(concentrations=tmp_path / "b.csv")
    beside = read_unknown_beside(tmp_path / "a.csv", choices=choices)
    assert beside.names == ["s2"]
    np.testing.assert_array_equal(beside.values, SIGNAL[2:3])


def test_wavelengths_at_which_a_detector_was_at_its_ceiling_are_masked(tmp_path, caplog):
    axis = np.arange(400.0, 440)
    bands = np.exp(-(((axis - [[412.0], [428.0]]) / 6) ** 2))
    signal = np.minimum(AMOUNTS @ bands, 7.0)
    table = pd.DataFrame(np.c_[AMOUNTS, signal], columns=["y_Cu", "y_Zn", *map(str, axis)])
    table.to_csv(tmp_path / "a.csv", index=False)
    for missing in ("refuse", "mask"):
        found = read_measured(spectra_parameters(tmp_path / "a.csv", missing=missing))
        out = (signal == 7.0).any(axis=0) & (missing == "mask")
        np.testing.assert_array_equal(found.axis, axis[~out])
        assert "one number at sample row 4 (" in caplog.text


@pytest.mark.parametrize(
    ("table", "known", "message"),
    [
        (long("sample").replace(AMOUNTS[3, 1], -2), None, r"a\.csv: row 14, column 5, Zn: found '"),
        (spectra(), second().replace(AMOUNTS[3, 1], -2), r"b\.csv, row 6, column 3, Zn: found '-2"),
        (long(), None, r"row 30: found .* at 400 again, first in row 26; number scans"),
        (spectra(), second(("Cu (ppm)", "Cu (ppb)")), "two amounts called 'Cu'"),
        (rows(), second(), r"a\.csv: row 2, column 1: found .*, which b.csv has not"),
        (spectra().rename(columns={"s3": "x"}), second(), "column 5: found 'x', which b.csv has"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(tmp_path, table, known, message):
    assert_refused(message, read, tmp_path, table, known)
