"""Hostile input: files of every format that is read, damaged by one seed.

`python -m research.fuzz --cases 1000 --seed 0`. What comes of a file must be a result whose
numbers are finite, consistent and in the text, or an error derived from `GeonodeError`; anything
else, and whatever takes longer than `LONGEST`, is a failure. `case` makes its files again.
"""

import contextlib
import io
import json
import logging
import re
import signal
import tempfile
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import openpyxl
import pandas as pd
import torch
import typer
import xarray

from geonode.config import SpectraParameters
from geonode.errors import CorruptArtifactError, GeonodeError
from geonode.parameters_file import parse_yaml, read_parameters
from geonode.reading.files import read_spectra, read_table
from geonode.reading.inspection import inspect_file
from geonode.spectra.chart import Chart
from geonode.spectra.series import read_series, write_series
from geonode.storage import artifact, weights
from geonode.storage.artifact import SEAL_AT
from geonode.storage.seal import WEIGHTS_AT, seal

LONGEST = 20.0
"""Seconds of a case."""

LEVELS = [0.0, 10.0, 20.0, 30.5, 60.0]
AXIS = np.arange(400.0, 412.0)
SIGNAL = np.round(np.random.default_rng(0).normal(size=(len(LEVELS), len(AXIS))), 3)
PARAMETERS = Path(__file__).parents[1] / "params.yaml"

Files = dict[str, bytes]
"""Contents by path, which begins with the suffix of what is read."""


class Hang(BaseException):
    """A case took too long; readers that forgive every exception must not forgive this one."""


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


def damage(content: bytes, rng: np.random.Generator) -> bytes:
    """Content with a value of JSON, some lines or some bytes exchanged, dropped or repeated."""
    parts = [content[at : at + 1] for at in range(len(content))]
    if rng.random() < 0.5:
        with contextlib.suppress(ValueError, RecursionError):
            value = twist(json.loads(content), rng)
            return json.dumps(value, indent=2, ensure_ascii=False).encode("utf-8", "surrogatepass")
        parts = content.splitlines(keepends=True)
    one = int(rng.integers(len(parts) + 1))
    two = one + int(rng.integers(60 if len(parts) > 1000 else 1 + len(parts) // 4))
    head, part, tail = b"".join(parts[:one]), b"".join(parts[one:two]), b"".join(parts[two:])
    odd = ODD[rng.integers(len(ODD))]
    changed = (
        head + rng.bytes(len(part)) + tail,
        head,
        head + tail,
        head + part * int(rng.integers(2, 200)) + tail,
        head + tail[:20] + part + tail[20:],
        head + odd + part + tail,
        head + odd[:8] + (part + tail)[len(odd[:8]) :],
    )
    return changed[rng.integers(len(changed))]


def twist(value: Any, rng: np.random.Generator) -> Any:
    """JSON with one value exchanged or dropped."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.15:
        return VALUES[rng.integers(len(VALUES))]
    keys, changed = list(value) if isinstance(value, dict) else range(len(value)), value.copy()
    key = keys[rng.integers(len(keys))]
    if rng.random() < 0.15:
        del changed[key]
    else:
        changed[key] = twist(changed[key], rng)
    return changed


# measured spectra


def finite(*arrays: Any) -> bool:
    """Whether all numbers are."""
    return all(np.isfinite(np.asarray(array, float)).all() for array in arrays)


def read_measured(path: Path) -> None:
    """Read a file of spectra in every way, and check what comes of it."""
    with contextlib.suppress(GeonodeError):
        found = read_spectra(path, missing="mask")
        assert finite(found.axis, found.values, found.masked), "spectra are not finite"
        assert found.values.shape == (len({*found.names}), len(found.axis)), "shape of spectra"
        assert (np.diff(found.axis) > 0).all(), "axis does not ascend"
    with contextlib.suppress(GeonodeError):
        inspection = inspect_file(path)
        SpectraParameters.model_validate(parse_yaml(inspection.proposal())["spectra"])
        said = inspection.to_json()
        numbers = [said["noise"], said["axis_step"], *said["levels"]]
        assert finite(numbers) and inspection.text(), "inspection is not finite"
    table = read_table(path)
    arrays = [table.axis, table.concentrations, *table.scans]
    assert finite(*arrays, table.spectra), "table is not finite"
    assert table.spectra.shape == (len(table.concentrations), len(table.axis)), "shape of table"
    if path.suffix == ".csv":
        numbers = [number for array in arrays for number in np.ravel(array).tolist()]
        invented = {*numbers} - numbers_of(path.read_bytes())
        assert not invented, f"{sorted(invented)[:3]} is not in the file"


NUMBER = r"[+-]?(?:[0-9]+(?:[.{0}][0-9]*)?|[.{0}][0-9]+)(?:[eE][+-]?[0-9]+)?"


def numbers_of(content: bytes) -> set[float]:
    """Every number that a text can be said to hold, with either decimal mark."""
    marked = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    text = content.decode("utf-16" if marked else "latin-1", "replace")
    found = [n for mark in ("", ",") for n in re.findall(NUMBER.format(mark), text)]
    return {float(number.replace(",", ".")) for number in found} | {0.0}


WIDE = [["wavelength_nm", *LEVELS], *np.column_stack([AXIS, SIGNAL.T]).tolist()]
TALL: list[list[Any]] = [["concentration \\ wavelength_nm", *AXIS]]
TALL += [[level, *row] for level, row in zip(LEVELS, SIGNAL.tolist(), strict=True)]
LONG: list[list[Any]] = [["concentration", "wavelength_nm", "absorbance"]]
LONG += [
    [level, at, value] for level, *row in TALL[1:] for at, value in zip(AXIS, row, strict=True)
]


def text_seeds() -> list[Files]:
    """One column a spectrum, one row a spectrum, and one row a value, in several dialects."""
    return [
        {".csv": "\n".join(mark.join(str(c).replace(".", point) for c in r) for r in rows).encode()}
        for rows in (WIDE, TALL, LONG)
        for mark, point in ((",", "."), (";", ","), ("\t", "."), ("|", "."))
    ]


def excel_seeds() -> list[Files]:
    """Members of a workbook."""
    book, stream = openpyxl.Workbook(), io.BytesIO()
    for row in WIDE:
        book.active.append(row)
    book.save(stream)
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


# parameters, and artifacts that are sealed again


def yaml_seeds() -> list[Files]:
    """The parameters of the project, as they are and as JSON."""
    text = PARAMETERS.read_text(encoding="utf-8")
    return [{".yaml": text.encode()}, {".yaml": json.dumps(parse_yaml(text), indent=1).encode()}]


def read_yaml(path: Path) -> None:
    """Read parameters; what passes can be written as JSON without NaN."""
    found = read_parameters(path)
    assert finite(found.generate.concentrations, found.metric.bounds), "not finite"
    json.dumps(found.model_dump(exclude={"presets"}), allow_nan=False)


def weights_seeds() -> list[Files]:
    """Header and data of a few tensors."""
    tensors = {"weight": torch.arange(6.0).reshape(2, 3), "count": torch.tensor([1, 2])}
    files = written(".safetensors", lambda path: weights.write_weights(path, tensors, {"a": "b"}))
    content = files[".safetensors"]
    end = 8 + int.from_bytes(content[:8], "little")
    return [{"header": content[8:end], "data": content[end:]}]


def sealed_weights(parts: Files) -> Files:
    """A file of its header and data."""
    header, data = parts.get("header", b""), parts.get("data", b"")
    content = len(header).to_bytes(8, "little") + header + data
    return {".safetensors": seal(content, WEIGHTS_AT)}


def read_weights(path: Path) -> None:
    """Read tensors."""
    tensors, _ = weights.read_weights(path)
    assert all(tensor.isfinite().all() for tensor in tensors.values()), "not finite"


def artifact_seeds() -> list[Files]:
    """A series of spectra."""
    with tempfile.TemporaryDirectory() as folder:
        table = read_table(put(Path(folder), text_seeds()[0]))
    parameters = read_parameters(PARAMETERS).spectra
    chart = Chart.of("linear", None, table.concentrations)
    return [written(".zarr", lambda path: write_series(path, table, chart, parameters))]


def sealed_artifact(parts: Files) -> Files:
    """An artifact whose checksums are those of its files, where its metadata can be changed."""
    others = {name: data for name, data in parts.items() if name != ".zarr/zarr.json"}
    sums = {name.removeprefix(".zarr/"): f"{zlib.crc32(data):08x}" for name, data in others.items()}
    with contextlib.suppress(ValueError, RecursionError, LookupError, TypeError, AttributeError):
        root = json.loads(parts[".zarr/zarr.json"])
        root["attributes"] |= {"files": sums, "checksum": root["attributes"].pop("checksum")}
        content = json.dumps(root, indent=2, ensure_ascii=False).encode() + b"\n"
        return others | {".zarr/zarr.json": seal(content, SEAL_AT)}
    return parts


def read_artifact(path: Path) -> None:
    """Read every array of an artifact, and the series that it is."""
    opened = artifact.open_artifact(path)
    for name in opened.arrays:
        with contextlib.suppress(CorruptArtifactError):
            assert opened[name].shape == opened.arrays[name].shape, "shape of an array"
    series = read_series(path)
    assert finite(series.axis, series.signal, series.positions), "series is not finite"
    assert series.signal.shape == (len(series.positions), len(series.axis)), "shape of signal"


READERS = {
    "text": Reader(text_seeds, read_measured),
    "Excel": Reader(excel_seeds, read_measured, zipped),
    "JCAMP-DX": Reader(jcamp_seeds, read_measured),
    "Zarr": Reader(array_seeds, read_measured),
    "parameters": Reader(yaml_seeds, read_yaml),
    "weights": Reader(weights_seeds, read_weights, sealed_weights),
    "artifact": Reader(artifact_seeds, read_artifact, sealed_artifact),
}

KINDS = ("valid results", "typed errors", "failures")


# cases


@cache
def seeds_of(name: str) -> list[Files]:
    """Valid files of a reader."""
    return READERS[name].seeds()


def case(name: str, number: int, seed: int) -> Files:
    """Files of a case of a reader; those of the first numbers are as they are."""
    rng = np.random.default_rng([seed, list(READERS).index(name), number])
    files = dict(seeds_of(name)[number % len(seeds_of(name))])
    for _ in range(int(rng.integers(1, 4)) if number >= len(seeds_of(name)) else 0):
        one, other = (sorted(files)[rng.integers(len(files))] for _ in range(2))
        exchanged = one != other and rng.random() < 0.2
        files[one] = files.pop(other) if exchanged else damage(files[one], rng)
    return READERS[name].whole(files)


def put(folder: Path, files: Files) -> Path:
    """Write files of a case; the path that is read."""
    for name, content in files.items():
        file = folder / f"case{name}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return folder / f"case{next(iter(files), '').split('/')[0]}"


def _ring(*_: object) -> None:
    raise Hang(f"took more than {LONGEST:g} s")


def outcome(name: str, files: Files, folder: Path) -> str:
    """Outcome of a case: of the first two `KINDS`, or else what went wrong."""
    path = put(folder, files)
    signal.signal(signal.SIGALRM, _ring)
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            READERS[name].read(path)
    except GeonodeError as error:
        return "typed errors" if str(error).strip() else "an error without a message"
    except (Exception, Hang) as error:
        return " ".join(repr(error).split())[:200]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "valid results"


def main(
    cases: Annotated[int, typer.Option(help="Of all readers together.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of the damage.")] = 0,
) -> None:
    """Read hostile files in every format, and count what becomes of them."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # Zarr tells it of every error again
    counts = {name: Counter[str]() for name in READERS}
    for number in range(cases):
        name = list(READERS)[number % len(READERS)]
        files = case(name, number // len(READERS), seed)
        with tempfile.TemporaryDirectory() as folder:
            found = outcome(name, files, Path(folder))
        if found not in KINDS:
            typer.echo(f"case({name!r}, {number // len(READERS)}, {seed}): {found}", err=True)
            found = "failures"
        counts[name][found] += 1
    table = pd.DataFrame(counts, index=KINDS).fillna(0).astype(int).T
    table.loc["all"] = table.sum()
    typer.echo(table.to_string())
    raise typer.Exit(1 if table.loc["all", "failures"] else 0)


if __name__ == "__main__":
    typer.run(main)
