"""What a reader must not believe, forgive or leave out."""

import os
import zipfile

import numpy as np
import pytest

from geonode.errors import SpectraError
from geonode.reading.formats import delimited
from tests.bounds import SHEET, SIGNAL, sheet, workbook
from tests.reading.tables import PLAIN, assert_refused, read_table


def test_a_text_may_be_as_long_as_the_limit(file):
    path = file(PLAIN)
    assert len(delimited.read_text(path, largest=len(PLAIN))[0]) == 5
    with pytest.raises(SpectraError, match=f"found {len(PLAIN)} bytes, expected at most"):
        delimited.read_text(path, largest=len(PLAIN) - 1)


def test_the_largest_number_is_read(file):
    assert read_table(file(PLAIN.replace("1.6", "1e30"))).scans[3][0, 3] == 1e30
    for axis in ("430,", "430,1.3"):
        with pytest.raises(SpectraError, match=r"expected finite numbers of at most 1e\+30"):
            read_table(file(PLAIN.replace(axis, axis.replace("430", "1e31"))))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.csv")
    assert_refused("found a pipe or a device, expected a file", read_table, tmp_path / "a.csv")


def test_what_no_cell_needs_is_left_out_of_a_workbook(tmp_path):
    more = {"xl/media/image1.png": b"\0" * 2**22, "xl/calcChain.xml": b" " * 2**22}
    np.testing.assert_array_equal(read_table(workbook(more)(tmp_path)).spectra, SIGNAL)


def test_cells_beyond_what_a_sheet_says_of_itself_are_read(tmp_path):
    with zipfile.ZipFile(workbook()(tmp_path)) as archive:
        sheet_xml = archive.read(SHEET)
    assert b'ref="A1:E5"' in sheet_xml
    changed = sheet_xml.replace(b'ref="A1:E5"', b'ref="A1:D4"')
    path = workbook({SHEET: changed})(tmp_path)
    np.testing.assert_array_equal(read_table(path).spectra, SIGNAL)


def test_a_long_cell_is_refused(tmp_path):
    path = sheet(b'<row><c t="inlineStr"><is><t>' + b"x" * 300 + b"</t></is></c></row>")(tmp_path)
    assert_refused(r"300 characters in a cell, 'xxxx.*at most 256", read_table, path)
