"""What a reader must not believe, forgive or leave out."""

import os
import zipfile

import numpy as np
import pytest

from geonode.config import SpectraParameters
from geonode.errors import SpectraError
from geonode.parameters_file import parse_yaml
from geonode.spectra import sheet, text
from geonode.spectra.folder import parameters_of_folder
from geonode.spectra.inspection import inspect_file
from geonode.spectra.reading import read_spectra, read_table
from geonode.spectra.text import text_lines
from tests.bounds import AXIS, LEVELS, SIGNAL, dataset, workbook

TABLE = "nm,0,1,2,3\n400,1,2,3,4\n410,2,3,4,5\n420,3,4,5,7\n"


@pytest.fixture
def file(tmp_path):
    def write(text, name="a.csv"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return write


def test_a_number_whose_square_overflows_is_refused(file):
    assert read_table(file(TABLE.replace("7", "1e100"))).scans[3][0, 2] == 1e100
    for number, where in (("2e100", "7"), ("-1e308", "7"), ("1e307", "420"), ("1e101", ",3\n")):
        changed = TABLE.replace(where, f",{number}\n" if "\n" in where else number)
        with pytest.raises(SpectraError, match=r"expected finite numbers of at most 1e\+100"):
            read_table(file(changed))


def test_a_text_may_be_as_long_as_the_limit(file, monkeypatch):
    monkeypatch.setattr(text, "MOST_LINES", 4)
    assert len(read_table(file(TABLE)).axis) == 3
    with file(TABLE).open() as stream:
        assert len(list(text_lines(stream, largest=len(TABLE)))) == 4
    with (
        file(TABLE).open() as stream,
        pytest.raises(SpectraError, match=f"found more than {len(TABLE) - 1} characters"),
    ):
        list(text_lines(stream, largest=len(TABLE) - 1))
    monkeypatch.setattr(text, "MOST_LINES", 3)
    with pytest.raises(SpectraError, match="characters or 3 lines, expected at most that"):
        read_table(file(TABLE))


def test_values_are_counted_before_they_are_read(file, monkeypatch):
    monkeypatch.setattr(sheet, "MOST_VALUES", 20)
    assert len(read_table(file(TABLE)).axis) == 3
    monkeypatch.setattr(sheet, "MOST_VALUES", 19)
    monkeypatch.setattr(np, "loadtxt", None)
    with pytest.raises(SpectraError, match="found 20 values, expected at most 19; read the spec"):
        read_table(file(TABLE))


@pytest.mark.parametrize("name", ["a\0.csv", "a\ud800.csv"])
def test_what_is_no_name_of_a_file_is_refused(tmp_path, name):
    for read in (read_table, read_spectra, inspect_file):
        with pytest.raises(SpectraError, match="is no name of a file"):
            read(tmp_path / name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.csv")
    with pytest.raises(SpectraError, match="found a pipe or a device, expected a file"):
        read_table(tmp_path / "a.csv")


def test_a_folder_that_cannot_be_named_is_refused(tmp_path):
    common = SpectraParameters.model_validate(
        {
            **{"source": "x", "quantity": "a", "unit": "1", "concentration_unit": "ppb"},
            **{"chart": "linear", "kappa": None, "window": None, "missing": "refuse"},
        }
    )
    for name in ("a\0", "a" * 5000):
        with pytest.raises(SpectraError, match=r"is no name|name too long"):
            parameters_of_folder(tmp_path / name, common)


def test_what_no_cell_needs_is_left_out_of_a_workbook(tmp_path):
    path = workbook({"xl/media/image1.png": b"\0" * 2**22, "xl/calcChain.xml": b" " * 2**22})(
        tmp_path
    )
    np.testing.assert_array_equal(read_table(path).spectra, SIGNAL)


def test_cells_beyond_what_a_sheet_says_of_itself_are_read(tmp_path):
    path = workbook()(tmp_path)
    with zipfile.ZipFile(path) as archive:
        sheet_xml = archive.read("xl/worksheets/sheet1.xml")
    assert b'ref="A1:E5"' in sheet_xml
    changed = sheet_xml.replace(b'ref="A1:E5"', b'ref="A1:D4"')
    path = workbook({"xl/worksheets/sheet1.xml": changed})(tmp_path)
    np.testing.assert_array_equal(read_table(path).spectra, SIGNAL)


def test_a_long_cell_is_refused(tmp_path):
    cell = b'<row><c t="inlineStr"><is><t>' + b"x" * 300 + b"</t></is></c></row>"
    start = (
        b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
    )
    path = workbook({"xl/worksheets/sheet1.xml": start + cell + b"</sheetData></worksheet>"})
    with pytest.raises(SpectraError, match=r"300 characters in a cell, 'xxxx.*at most 256"):
        read_table(path(tmp_path))


def test_a_coordinate_over_another_dimension_is_none(tmp_path):
    pytest.importorskip("scipy")
    path = tmp_path / "a.nc"
    dataset().rename(wavelength="channel").assign_attrs().to_netcdf(path, engine="scipy")
    content = path.read_bytes()
    # The variable of that name is made one over the other dimension: its list of dimensions is
    # their number and the place of each.
    name = b"channel\0" + (1).to_bytes(4, "big")
    at = content.index(name) + len(name)
    was = int.from_bytes(content[at : at + 4], "big")
    changed = content[:at] + (1 - was).to_bytes(4, "big") + content[at + 4 :]
    path.write_bytes(
        changed.replace(b"channel\0", b"energy\0\0").replace(b"\x07energy", b"\x06energy")
    )
    with pytest.raises(SpectraError, match="found no coordinate 'energy', expected one for every"):
        read_spectra(path)


def test_labels_of_any_characters_make_a_proposal_that_is_yaml(tmp_path):
    data = dataset()
    label = "a\x7f\x80\u2028😀 'b' \"c\": #d"
    data["absorbance"].attrs["long_name"] = label
    data.to_netcdf(tmp_path / "a.nc", engine="scipy")
    inspection = inspect_file(tmp_path / "a.nc")
    assert parse_yaml(inspection.proposal)["spectra"]["quantity"] == label.lower()


def test_a_remark_is_not_read_and_a_file_without_blocks_is_none(file):
    pytest.importorskip("jcamp")
    head = "##TITLE={}\n##COMMENT=one\ntwo\n##FIRSTX=1\n##LASTX=3\n##NPOINTS=3\n"
    block = head + "##XYDATA=(X++(Y..Y))\n1 {} 2 3\n##END=\n"
    body = "".join(block.format(f"{level:g} ppb", level) for level in LEVELS)
    link = "##TITLE=s\n##JCAMP-DX=4.24\n##DATA TYPE=LINK\n##NPOINTS=3\n"
    table = read_table(file(f"{link}{body}##END=\n", "a.jdx"))
    np.testing.assert_array_equal(table.spectra, [[level, 2, 3] for level in LEVELS])
    with pytest.raises(SpectraError, match="found a block without"):
        read_table(file(f"{link}##END=\n", "a.jdx"))
    assert len(AXIS) == 4
