"""Calls of the command line, and its files."""

import csv
import subprocess
import sys

from typer.testing import CliRunner

from geonode.cli import app
from tests.calibration import beer


def call(*words, status=None):
    """Result of `geonode` with these words, which ends with a status if one is given."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert status in (None, result.exit_code), result.output
    return result


def shell(line, **how):
    """Result of a line of the shell, in which `python` is this one."""
    line = line.replace("python", sys.executable)
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.run(line, check=False, shell=True, **piped | how)


def estimate(made, *words, status=None):
    """Result of `geonode estimate` by the calibration in a folder `made`."""
    by = ("--calibration", made / "made/calibration.safetensors")
    return call("estimate", *words, *by, status=status)


def rows(path):
    """Rows of a table, the header first."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.reader(stream))


def records(path):
    """Rows of a table by header."""
    header, *lines = rows(path)
    return [dict(zip(header, line, strict=True)) for line in lines]


def write(path, spectra):
    """A file of spectra by their names, on the axis of Beer and Lambert."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(beer.table(spectra), encoding="utf-8")
    return path


def contents(folder):
    """Files below a folder with their bytes, and its folders."""
    return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}
