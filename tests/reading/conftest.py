import openpyxl
import pytest


@pytest.fixture
def file(tmp_path):
    """Write text or bytes to a file, called series.csv unless it is called otherwise."""

    def write(content, name="series.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def book(tmp_path):
    """Write sheets of rows, some by name, and for the first one formats and merged ranges."""

    def write(*sheets, merged=(), **more):
        made = openpyxl.Workbook()
        made.remove(made.active)
        named = {name: rows for name, rows in more.items() if not isinstance(rows, str)}
        for name, rows in [*((None, rows) for rows in sheets), *named.items()]:
            sheet = made.create_sheet(name)
            for row in rows:
                sheet.append(row)
        for cell in more.keys() - named.keys():
            made.worksheets[0][cell].number_format = more[cell]
        for cells in merged:
            made.worksheets[0].merge_cells(cells)
        made.save(tmp_path / "series.xlsx")
        return tmp_path / "series.xlsx"

    return write
