"""Files that claim much more than they are, and a process of little memory and time to read them.

`python -m tests.bounds FOLDER` makes each in turn, reads it, and prints what came of it.
"""

import json
import os
import pickle
import resource
import signal
import sys
import warnings
import zipfile
from pathlib import Path

import numcodecs.pickles
import numpy as np
import openpyxl
import xarray

from geonode.parameters_file import read_parameters
from geonode.reading.files import read_spectra
from tests.reading.tables import read_table

MEMORY = 2**29  # bytes beside what the modules take
SECONDS = 60  # after which a reader is taken to hang
AXIS, LEVELS = np.arange(400.0, 404.0), np.array([0.0, 10, 20, 30])
SIGNAL = np.arange(16.0).reshape(4, 4)


class Runs:
    """What runs when it is unpickled: it makes a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def text(content, name="a.csv"):
    def make(folder):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder / name

    return make


def yaml(content):
    return text(content, "params.yaml")


LAUGHS = "a0: &a0 [lol, lol]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)
)


def workbook(changed=None, kind=zipfile.ZIP_DEFLATED, size=None):
    """A workbook with other members; its directory claims `size` bytes of the sheet."""

    def make(folder):
        book = openpyxl.Workbook()
        for row in [["nm", *LEVELS], *np.column_stack([AXIS, SIGNAL.T]).tolist()]:
            book.active.append(row)
        book.save(folder / "good.xlsx")
        with zipfile.ZipFile(folder / "good.xlsx") as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        parts |= changed or {}
        with zipfile.ZipFile(folder / "a.xlsx", "w", kind) as archive:
            for name, content in parts.items():
                archive.writestr(name, content)
            if size is not None:
                archive.getinfo(SHEET).file_size = size
        return folder / "a.xlsx"

    return make


SHEET = "xl/worksheets/sheet1.xml"
HEAD = b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
TAIL = b"</sheetData></worksheet>"


def sheet(body, *more, **about):
    return workbook({SHEET: HEAD + body + TAIL}, *more, **about)


def jcamp(*blocks):
    head = "##TITLE=a\n##JCAMP-DX=4.24\n##DATA TYPE=LINK\n"
    body = "".join(
        f"##TITLE={n}\n##FIRSTX=1\n##LASTX=9\n##NPOINTS={points}\n##XYDATA=(X++(Y..Y))\n{lines}\n##END=\n"
        for n, (points, lines) in enumerate(blocks)
    )
    return text(head + body + "##END=\n", "a.jdx")


def dataset():
    return xarray.Dataset(
        {"absorbance": (("concentration", "wavelength"), SIGNAL)},
        coords={"concentration": LEVELS, "wavelength": AXIS},
    )


def store(version, **changes):
    """A Zarr store with some of the metadata of its signal exchanged; `inner` goes into chunks."""

    def make(folder):
        path = folder / "a.zarr"
        dataset().to_zarr(path, zarr_format=version, consolidated=False)
        file = path / "absorbance" / ("zarr.json" if version == 3 else ".zarray")
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))
        return path

    return make


def chunks(*shape):
    return {"name": "regular", "configuration": {"chunk_shape": shape}}


def unpickled(folder):
    """A store of numbers whose chunk is unpickled before they are looked at."""
    make = store(2, filters=[{"id": "pickle", "protocol": 5}], compressor=None)
    (make(folder) / "absorbance" / "0.0").write_bytes(pickle.dumps(Runs(folder / "ran")))
    return folder / "a.zarr"


def consolidated(folder):
    """A store whose consolidated metadata alone name an array, of objects that are unpickled."""
    path = store(2)(folder)
    everything = {
        file.relative_to(path).as_posix(): json.loads(file.read_text())
        for file in path.rglob(".z*")
    }
    everything["hidden/.zarray"] = everything["absorbance/.zarray"] | {
        **{"shape": [1], "chunks": [1], "dtype": "|O", "fill_value": None, "compressor": None},
        "filters": [{"id": "vlen-utf8"}, {"id": "pickle", "protocol": 5}],
    }
    everything["hidden/.zattrs"] = {"_ARRAY_DIMENSIONS": ["hidden"]}
    (path / ".zmetadata").write_text(
        json.dumps({"zarr_consolidated_format": 1, "metadata": everything})
    )
    (path / "hidden").mkdir()
    (path / "hidden" / "0").write_bytes(pickle.dumps(Runs(folder / "ran")))
    return path


BLOCK, REPEATS = (2**20, "1 1"), (9, ("1@" + "%s" * 500 + "\n") * 99)
FAR = b'<row r="99999999999"><c><v>1</v></c></row>'
CLAIMS = {
    "a hundred thousand columns": (text("nm" + ",1" * 10**5 + "\n"), "100001 columns, expected at"),
    "a line of 2 MB": (text("nm,1\n1," + "1" * 2**21), "line of 1048576 characters"),
    "digits without end": (text("nm,0\n" + ("1" * 10**6 + "x,\n") * 9), "1000001 characters in"),
    "a header of blanks": (text("nm" + "_" * 10**5 + "x,1\n1,2\n"), "100003 .*at most 256"),
    "many long headers": (
        text("nm" + ("," + "_" * 200) * 1000 + ("\n1" + ",1" * 1000) * 3),
        "found 1 on the axis again, first in row 2",
    ),
    "more lines than a table": (text("1\n" * (2**21 + 1)), "2097153 lines, expected at most"),
    "nested YAML": (yaml("[" * 10**4), "lists or mappings too deep in each other; make them flat"),
    "laughs in YAML": (yaml(LAUGHS), "found aliases that stand for more than 1048576 characters"),
    "an alias to itself": (yaml("a: &a [*a, *a]"), "found aliases that stand for more than"),
    "large YAML": (yaml("a: 1\n" * 2**18), "found 1310720 characters, expected at most 524288"),
    "an integer without end": (yaml("preset: 0x" + "f" * 5000), "integer of more than 308 digits"),
    "a class in YAML": (yaml("a: !!python/object/apply:os.system [ls]"), "not determine a constr"),
    "a zip bomb": (sheet(b" " * 2**27), "1342[0-9]* bytes unpacked, expected at most 134217728; c"),
    "a zip bomb that claims to be small": (sheet(b" " * 2**27, size=100), "can be read .*Bad CRC"),
    "a zip bomb of bzip2": (sheet(b" " * 2**26, zipfile.ZIP_BZIP2), "12 in a workbook, expected d"),
    "rows that are not there": (sheet(FAR), "1048577 rows, expected at most 1048576"),
    "rows of empty cells": (sheet(b'<row><c r="XFD1"/></row>' * 2000), "at most 20000000"),
    "a row of cells": (sheet(b"<row>" + b"<c/>" * 3 * 10**6 + b"</row>"), "fits into memory .work"),
    "a member of 2 MB": (
        workbook({"xl/styles.xml": b"<a>" + b" " * 2**21}),
        "'xl/styles.xml', exp",
    ),
    "laughs in XML": (workbook({SHEET: b'<!DOCTYPE a [<!ENTITY a "b">]>' + HEAD}), "can be read"),
    "points": (jcamp((10**9, "1 1")), "1000000000 points, expected a number of at most 1048576"),
    "points in blocks": (jcamp(*[BLOCK] * 1000), "1048576000 values, expected at most 50000000"),
    "points in other digits": (jcamp(("٩" * 11, "1 1")), "expected a number of at most 1048576"),
    "repeats": (jcamp(*[REPEATS] * 9), "block 1: line 9: found .*, expected numbers of JCAMP-DX"),
    "a remark without end": (
        text("##TITLE=a\n" + "b\n" * 10**6, "a.jdx"),
        "found 1025 characters of TITLE up to line .*, expected at most 1024",
    ),
    "a shape": (store(3, shape=[10**6, 10**6], chunk_grid=chunks(10**5, 10**5)), "8e\\+12 bytes"),
    "a pickle": (unpickled, "absorbance/.zarray: found codec 'pickle', expected one of .*run code"),
    "a pickle in consolidated metadata": (consolidated, "read"),
}


def read(path):
    if path.name == "params.yaml":
        return read_parameters(path)
    read_spectra(path)
    return read_table(path)


def late(*_):
    raise TimeoutError


def main(folder):
    warnings.simplefilter("ignore")
    # What is refused is refused by this project, and not only by a newer numcodecs.
    numcodecs.pickles.ALLOW_UNSAFE_PICKLE_DECODE = True
    os.environ["NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE"] = "1"  # of processes that are started
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    signal.signal(signal.SIGALRM, late)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    for number, (name, (make, _)) in enumerate(CLAIMS.items()):
        place = folder / str(number)
        place.mkdir()
        path = make(place)
        resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, hard))
        signal.alarm(SECONDS)
        try:
            found = ["nothing", repr(read(path))]
        except BaseException as error:
            found = [type(error).__name__, str(error)]
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        ran = (place / "ran").exists()
        sys.stdout.write(json.dumps([name, *found, ran]) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
