"""Hostile input: files of spectra and parameters, damaged by Hypothesis.

`python -m research.fuzz --cases 1000 --seed 0`. What comes of a file must be a result whose
numbers are finite, consistent and in the text, or an error derived from `GeonodeError`; anything
else, and whatever takes longer than `LONGEST`, is a failure, of which Hypothesis shows the least.
"""

import contextlib
import io
import json
import logging
import re
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import hypothesis
import numpy as np
import pandas as pd
import typer
import xarray
from hypothesis import strategies as st

from geonode.commands.spectra_file import spectra_parameters
from geonode.config import SpectraParameters
from geonode.errors import GeonodeError
from geonode.parameters_file import parse_yaml, read_parameters
from geonode.reading.files import read_spectra
from geonode.reading.inspection import Inspection
from geonode.reading.series_file import known_sheet, measured_table

LONGEST = 20_000
"""Milliseconds of a case."""

LEVELS = [0.0, 10.0, 20.0, 30.5, 60.0]
AXIS = np.arange(400.0, 412.0)
SIGNAL = np.round(np.random.default_rng(0).normal(size=(len(LEVELS), len(AXIS))), 3)
WIDE = pd.DataFrame(SIGNAL.T, pd.Index(AXIS, name="wavelength_nm"), LEVELS)
PARAMETERS = Path(__file__).parents[1] / "params.yaml"

Draw = Callable[[st.SearchStrategy[Any]], Any]  # DrawFn of Hypothesis cannot be checked at run time
Files = dict[str, bytes]
"""Contents by path, which begins with the suffix of what is read."""


class Reader(NamedTuple):
    """A way into the package."""

    seeds: Callable[[], list[Files]]  # valid files, in parts that are damaged one by one
    read: Callable[[Path], None]  # reads what is at a path, and checks what comes of it
    whole: Callable[[Files], Files] = dict  # files made of their parts


# damage

ODD = (
    *(b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"nan", b"inf", b"-1e999", b"1e308"),
    *(b"9" * 400, b"-", b",", b";", b"\t", b"\r", b"\n", b'"', b"\n\n", b"1_0", b"\xd9\xa1"),
    *(b"[" * 500, b"_" * 3000, b"{}", b"null", b"<a>", b"&a", b"##", b"\x7f\xff\xff\xff"),
    *(b"1" * 64_000, b"1," * 32_000, b"1." * 32_000),  # which no pattern may take long over
    *((1 << bits).to_bytes(8, order) for bits in (0, 31, 62) for order in ("little", "big")),
    *(b"!!int ", b"!!python/object/apply:os.system ", b"&a ", b"*a ", b"? ", b"<<: ", b"--- "),
    *(b"{a: " * 500, b"0x" + b"f" * 5000 + b" #", b"2024-99-99 #", b'"\\ud800" #', b"%YAML 9\n"),
    *(b"&a [x, x] \nb: &b [*a, *a]\nc: &c [*b, *b]\n", b'<!DOCTYPE a [<!ENTITY b "x">]>'),
)
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**31, 2**62, 2**70, 10**400, 0.5, 1e308, float("nan"), float("inf")),
    *("", "x", "../x", "/etc/passwd", "\0", "1e3", "<f8", "|O", "object", "pickle", "2024-01-01"),
    *([], {}, [[]], [2**40, 2**40], [-1], {"name": "pickle"}, {"id": "pickle"}, "a" * 5000),
)


@st.composite
def cases(draw: Draw, name: str) -> Files:
    """Files of a reader, of which up to three parts are damaged or exchanged."""
    files = dict(draw(st.sampled_from(seeds_of(name))))
    for _ in range(draw(st.integers(0, 3))):
        one, other = (draw(st.sampled_from(sorted(files))) for _ in range(2))
        exchanged = one != other and draw(st.booleans())
        files[one] = files.pop(other) if exchanged else _damaged(draw, files[one])
    return READERS[name].whole(files)


def _damaged(draw: Draw, content: bytes) -> bytes:
    """Content with a value of JSON, some lines or some bytes exchanged, dropped or repeated."""
    parts = [content[at : at + 1] for at in range(len(content))]
    if draw(st.booleans()):
        with contextlib.suppress(ValueError, RecursionError):
            value = _twisted(draw, json.loads(content))
            return json.dumps(value, indent=2, ensure_ascii=False).encode("utf-8", "surrogatepass")
        parts = content.splitlines(keepends=True)
    start = draw(st.integers(0, len(parts)))
    end = min(len(parts), start + draw(st.integers(0, 60)))
    head, part, tail = (b"".join(some) for some in (parts[:start], parts[start:end], parts[end:]))
    put = draw(st.sampled_from((b"", part * 100, tail[:20] + part, *ODD)) | st.binary(max_size=60))
    return head + put + (draw(st.booleans()) * part) + (draw(st.integers(0, 3)) > 0) * tail


def _twisted(draw: Draw, value: Any) -> Any:
    """JSON with one value exchanged or dropped."""
    if not isinstance(value, dict | list) or not value or draw(st.integers(0, 6)) == 0:
        return draw(st.sampled_from(VALUES))
    changed = value.copy()
    key = draw(st.sampled_from(list(value) if isinstance(value, dict) else range(len(value))))
    if draw(st.integers(0, 6)) == 0:
        del changed[key]
    else:
        changed[key] = _twisted(draw, changed[key])
    return changed


# measured spectra


def finite(*arrays: Any) -> bool:
    """True if all numbers are finite."""
    return all(np.isfinite(np.asarray(array, float)).all() for array in arrays)


def read_measured(path: Path) -> None:
    """Read a file of spectra in every way, and check what comes of it."""
    with contextlib.suppress(GeonodeError):
        found = read_spectra(path, missing="mask")
        assert finite(found.axis, found.values, found.masked), "spectra are not finite"
        assert found.values.shape == (len({*found.names}), len(found.axis)), "shape of spectra"
        assert (np.diff(found.axis) > 0).all(), "axis does not ascend"
    with contextlib.suppress(GeonodeError):
        masked = spectra_parameters(path, missing="mask")
        inspection = Inspection.of(known_sheet(masked), masked)
        SpectraParameters.model_validate(parse_yaml(inspection.proposal())["spectra"])
        facts = inspection.to_json()
        numbers = [facts["noise"], facts["axis_step"], *facts["levels"]]
        assert finite(numbers) and inspection.text(), "inspection is not finite"
    table = measured_table(spectra_parameters(path))
    arrays = [table.axis, table.concentrations, *table.scans]
    assert finite(*arrays, table.spectra), "table is not finite"
    assert table.spectra.shape == (len(table.concentrations), len(table.axis)), "shape of table"
    if path.suffix == ".csv":
        numbers = [number for array in arrays for number in np.ravel(array).tolist()]
        invented = {*numbers} - numbers_of(path.read_bytes())
        assert not invented, f"{sorted(invented)[:3]} is not in the file"


NUMBER = r"[+-]?(?:[0-9]+(?:[.{0}][0-9]*)?|[.{0}][0-9]+)(?:[eE][+-]?[0-9]+)?"


def numbers_of(content: bytes) -> set[float]:
    """Every number that a text may contain, with either decimal mark."""
    marked = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    text = content.decode("utf-16" if marked else "latin-1", "replace")
    found = [n for mark in ("", ",") for n in re.findall(NUMBER.format(mark), text)]
    return {float(number.replace(",", ".")) for number in found} | {0.0}


def text_seeds() -> list[Files]:
    """One column a spectrum, one row a spectrum, and one row a value, in several dialects."""
    rows = WIDE.T.rename_axis("concentration \\ wavelength_nm")
    long = WIDE.T.rename_axis("concentration").stack().rename("absorbance")
    return [
        {".csv": table.to_csv(sep=mark, decimal=point).encode()}
        for table in (WIDE, rows, long)
        for mark, point in ((",", "."), (";", ","), ("\t", "."), ("|", "."))
    ]


def excel_seeds() -> list[Files]:
    """Members of a workbook."""
    WIDE.to_excel(stream := io.BytesIO())
    archive = zipfile.ZipFile(stream)
    return [{f".xlsx/{name}": archive.read(name) for name in archive.namelist()}]


def zipped(parts: Files) -> Files:
    """A workbook of its members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name.removeprefix(".xlsx/"), content)
    return {".xlsx": stream.getvalue()}


def jcamp_seeds() -> list[Files]:
    """Blocks of numbers in columns."""
    head = f"##TITLE=series\n##JCAMP-DX=4.24\n##DATA TYPE=LINK\n##BLOCKS={len(LEVELS)}\n"
    block = (
        "##TITLE={} ppb\n##JCAMP-DX=4.24\n##XUNITS=NANOMETERS\n##XFACTOR=1\n##YFACTOR=0.001\n"
        "##FIRSTX=400\n##LASTX=411\n##NPOINTS=12\n##XYDATA=(X++(Y..Y))\n{}\n##END=\n"
    )
    counts = [" ".join(map(str, row)) for row in np.rint(SIGNAL * 1000).astype(int).tolist()]
    blocks = [block.format(level, f"400 {row}") for level, row in zip(LEVELS, counts, strict=True)]
    return [{".jdx": (head + "".join(blocks) + "##END=").encode()}]


def written(suffix: str, write: Callable[[Path], Any]) -> Files:
    """Contents of what a function writes at a path of some suffix."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / f"a{suffix}")
        files = (file for file in sorted(Path(folder).rglob("*")) if file.is_file())
        return {file.relative_to(folder).as_posix()[1:]: file.read_bytes() for file in files}


def array_seeds() -> list[Files]:
    """Zarr 2 and 3."""
    data = xarray.Dataset(
        {"absorbance": (("concentration", "wavelength"), SIGNAL, {"units": "1"})},
        coords={"concentration": LEVELS, "wavelength": AXIS},
    )
    data["concentration"].attrs["units"], data["wavelength"].attrs["units"] = "ppb", "nm"
    return [
        written(".zarr", lambda path: data.to_zarr(path, zarr_format=2, consolidated=False)),
        written(".zarr", lambda path: data.to_zarr(path, zarr_format=3, consolidated=False)),
    ]


# parameters


def yaml_seeds() -> list[Files]:
    """The parameters of the project, as they are and as JSON."""
    text = PARAMETERS.read_text(encoding="utf-8")
    return [{".yaml": text.encode()}, {".yaml": json.dumps(parse_yaml(text), indent=1).encode()}]


def read_yaml(path: Path) -> None:
    """Read parameters; what passes can be written as JSON without NaN."""
    found = read_parameters(path)
    assert finite(found.generate.concentrations, found.metric.bounds), "not finite"
    json.dumps(found.model_dump(exclude={"presets"}), allow_nan=False)


READERS = {
    "text": Reader(text_seeds, read_measured),
    "Excel": Reader(excel_seeds, read_measured, zipped),
    "JCAMP-DX": Reader(jcamp_seeds, read_measured),
    "Zarr": Reader(array_seeds, read_measured),
    "parameters": Reader(yaml_seeds, read_yaml),
}


@cache
def seeds_of(name: str) -> list[Files]:
    """Valid files of a reader."""
    return READERS[name].seeds()


def put(folder: Path, files: Files) -> Path:
    """Write files of a case; the path that is read."""
    for name, content in files.items():
        file = folder / f"case{name}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return folder / f"case{next(iter(files), '').split('/')[0]}"


def outcome(name: str, files: Files) -> str:
    """Outcome of reading files: "valid result" or "typed error".

    Raises:
        Exception: it is neither.
    """
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            READERS[name].read(put(Path(folder), files))
        except GeonodeError as error:
            assert str(error).strip(), "an error without a message"
            return "typed error"
    return "valid result"


def fuzzed(name: str, count: int, seed: int) -> Counter[str]:
    """Number of either outcome among so many cases of a reader.

    Raises:
        Exception: of the least case that gave neither.
    """
    found = Counter[str]()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        deadline=LONGEST,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(cases(name))
    def every_case(files: Files) -> None:
        found[outcome(name, files)] += 1

    every_case()
    return found


def main(
    cases: Annotated[int, typer.Option(help="Damaged files, of all readers together.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the damage.")] = 0,
) -> None:
    """Read hostile files in every format, and count what becomes of them."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # Zarr reports every error to it again
    for name in READERS:
        counts = fuzzed(name, -(-cases // len(READERS)), seed)
        typer.echo(f"{name}: " + ", ".join(f"{count} {of}s" for of, count in counts.items()))


if __name__ == "__main__":
    typer.run(main)
