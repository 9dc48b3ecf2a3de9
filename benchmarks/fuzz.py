"""Hostile input: files of every format that is read, damaged and twisted, by one seed.

`python -m benchmarks.fuzz --cases 10000 --seed 0`. What comes of a file must be a result whose
numbers are finite and consistent, or an error derived from `GeonodeError`; everything else, and
whatever takes longer than `LONGEST`, is a failure, whose files are kept. A change that says the
same in another way may not change a number, and no number is read from text that is not there.
"""

import contextlib
import io
import json
import logging
import re
import signal
import tempfile
import time
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import openpyxl
import torch
import typer
import xarray

from benchmarks.geometry import markdown
from geonode.config import SpectraParameters
from geonode.errors import CorruptArtifactError, GeonodeError
from geonode.parameters_file import parse_yaml, read_parameters
from geonode.spectra.chart import Chart
from geonode.spectra.inspection import inspect_file
from geonode.spectra.reading import read_spectra, read_table
from geonode.spectra.series import read_series, write_series
from geonode.storage import artifact, document, weights
from geonode.storage.artifact_layout import SEAL_AT
from geonode.storage.seal import seal

LONGEST = 20.0
"""Seconds of a case."""

LEVELS = [0.0, 10.0, 20.0, 30.5, 60.0]
AXIS = np.arange(400.0, 412.0)
SIGNAL = np.round(np.random.default_rng(0).normal(size=(len(LEVELS), len(AXIS))), 3)

Files = dict[str, bytes]
"""Contents by path; a file alone has its suffix as path."""

Random = np.random.Generator


class Failure(Exception):  # noqa: N818
    """A result that contradicts itself or its file."""


class Hang(BaseException):
    """A case took too long; readers that forgive every exception must not forgive this one."""


class Reader(NamedTuple):
    """A way into the package.

    Attributes:
        seeds: valid files.
        twist: changes files as only this format can be changed; says whether they still say the
            same.
        read: reads what is at a path, checks it against the files that are there, and against the
            seeds if they still say the same.
    """

    seeds: Callable[[], list[Files]]
    twist: Callable[[Files, Random], bool]
    read: Callable[[Path, Files, bool], None]


# damage that every file can take


ODD = (
    *(b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"nan", b"inf", b"-1e999", b"1e308"),
    *(b"9" * 400, b"-", b",", b";", b"\t", b"\r", b"\n", b'"', b"\n\n", b"1_0", b"\xd9\xa1"),
    *(b"[" * 500, b"_" * 3000, b"{}", b"null", b"<a>", b"&a", b"##", b"\x7f\xff\xff\xff"),
    *(b"1" * 64_000, b"1," * 32_000, b"1." * 32_000),  # which no pattern may take long over
)


def damage(content: bytes, rng: Random) -> bytes:
    """Flip, cut, drop, repeat, swap or insert bytes."""
    one = int(rng.integers(len(content) + 1))
    two = one + int(rng.integers(60))
    head, part, tail = content[:one], content[one:two], content[two:]
    changed = (
        head + rng.bytes(len(part)) + tail,
        head + bytes(byte ^ (1 << rng.integers(8)) for byte in part[:3]) + part[3:] + tail,
        head,
        head + tail,
        head + part * int(rng.integers(2, 200)) + tail,
        head + tail[:20] + part + tail[20:],
        head + ODD[rng.integers(len(ODD))] + part + tail,
    )
    return changed[rng.integers(len(changed))]


def damage_one(files: Files, rng: Random) -> None:
    """Damage one of the files, drop it, or put another in its place."""
    names = sorted(files)
    name, other = (names[rng.integers(len(names))] for _ in range(2))
    if len(names) > 1 and rng.random() < 0.2:
        content = files.pop(name)
        if rng.random() < 0.7 and other != name:
            files[name], files[other] = files[other], content
    else:
        files[name] = damage(files[name], rng)


VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**31, 2**62, 2**70, 10**400, 0.5, 1e308, float("nan"), float("inf")),
    *("", "x", "../x", "/etc/passwd", "\0", "1e3", "<f8", "|O", "object", "pickle", "2024-01-01"),
    *([], {}, [[]], [2**40, 2**40], [-1], {"name": "pickle"}, {"id": "pickle"}, "a" * 5000),
)


def twist_json(value: Any, rng: Random) -> Any:
    """JSON with one value exchanged, dropped, doubled or moved."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.15:
        chosen = VALUES[rng.integers(len(VALUES))]
        return json.loads("[" * 60 + "]" * 60) if rng.random() < 0.03 else chosen
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key, other = (keys[rng.integers(len(keys))] for _ in range(2))
    changed: Any = value.copy()
    match int(rng.integers(8)):
        case 0:
            del changed[key]
        case 1:
            changed[key], changed[other] = changed[other], changed[key]
        case 2 if isinstance(changed, list):
            changed.insert(key, changed[other])
        case _:
            changed[key] = twist_json(changed[key], rng)
    return changed


def json_bytes(value: Any, indent: int | None = None) -> bytes:
    """JSON, with the NaN and infinity that it does not have."""
    return json.dumps(value, indent=indent, ensure_ascii=False).encode("utf-8", "surrogatepass")


# results


def require(holds: bool, what: str) -> None:
    """Fail where something does not hold."""
    if not holds:
        raise Failure(what)


def finite(*arrays: Any) -> bool:
    """Whether all numbers are."""
    return all(np.isfinite(np.asarray(array, float)).all() for array in arrays)


def read_measured(path: Path, files: Files, same: bool) -> None:
    """Read a file of spectra in every way, and check what comes of it.

    Args:
        path: the file.
        files: its contents.
        same: whether it still says what the seed said.
    """
    refused: list[GeonodeError] = []
    with contextlib.suppress(GeonodeError):
        found = read_spectra(path, missing="mask")
        require(finite(found.axis, found.values, found.masked), "spectra are not finite")
        require(found.values.shape == (len(found.names), len(found.axis)), "shape of spectra")
        require(bool((np.diff(found.axis) > 0).all()), "axis does not ascend")
        require(len(set(found.names)) == len(found.names), "names repeat")
    with contextlib.suppress(GeonodeError):
        inspection = inspect_file(path)
        said = parse_yaml(inspection.proposal)["spectra"]
        SpectraParameters.model_validate(said)
        numbers = [inspection.noise, inspection.axis_step, *inspection.levels]
        require(finite(numbers) and bool(inspection.text()), "inspection is not finite")
    try:
        table = read_table(path)
    except GeonodeError as error:
        refused.append(error)
    else:
        arrays = [table.axis, table.concentrations, *table.scans]
        require(finite(*arrays, table.spectra), "table is not finite")
        require(len(table.scans) == len(table.concentrations), "levels without scans")
        require(all(scans.shape[1] == len(table.axis) for scans in table.scans), "shape of scans")
        if same:
            require(np.array_equal(table.concentrations, LEVELS), "other levels than written")
            require(np.array_equal(table.axis, AXIS), "other axis than written")
            require(np.allclose(table.spectra, SIGNAL, rtol=1e-14, atol=0), "other signal")
        if ".csv" in files:
            written = numbers_of(files[".csv"])
            invented = [n for array in arrays for n in np.ravel(array).tolist() if n not in written]
            require(not invented, f"{invented[:3]} is not in the file")
    if refused:
        raise refused[0]


NUMBER = r"[+-]?(?:[0-9]+(?:[.{0}][0-9]*)?|[.{0}][0-9]+)(?:[eE][+-]?[0-9]+)?"


def numbers_of(content: bytes) -> set[float]:
    """Every number that a text can be said to hold, with either decimal mark."""
    marked = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        text = content.decode("utf-16" if marked else "utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("cp1252")
    found = [n for mark in ("", ",") for n in re.findall(NUMBER.format(mark), text)]
    return {float(number.replace(",", ".")) for number in found} | {0.0}


# text


def text_seeds() -> list[Files]:
    """One column a spectrum, one row a spectrum, and one row a value, in several dialects."""
    wide = [["wavelength_nm", *LEVELS], *np.column_stack([AXIS, SIGNAL.T]).tolist()]
    tall: list[list[Any]] = [["concentration \\ wavelength_nm", *AXIS]]
    tall += [[level, *row] for level, row in zip(LEVELS, SIGNAL.tolist(), strict=True)]
    long: list[list[Any]] = [["concentration", "wavelength_nm", "absorbance"]]
    long += [
        [level, place, value]
        for level, row in zip(LEVELS, SIGNAL.tolist(), strict=True)
        for place, value in zip(AXIS.tolist(), row, strict=True)
    ]
    dialects = ((",", "."), (";", ","), ("\t", "."), ("|", "."))
    return [
        {".csv": "\n".join(mark.join(str(c).replace(".", point) for c in r) for r in rows).encode()}
        for rows in (wide, tall, long)
        for mark, point in dialects
    ]


def twist_text(files: Files, rng: Random) -> bool:
    """Change columns, rows, cells, separators, line ends or the encoding of a table."""
    try:
        text = files[".csv"].decode()
    except UnicodeDecodeError:
        return False
    mark = ";" if ";" in text else max(",\t|", key=text.count)
    rows = [line.split(mark) for line in text.splitlines() or [""]]
    kind = int(rng.integers(3))
    if kind == 0:
        files[".csv"] = encoded(text, mark, rng)
        return True
    rows = rewritten(rows, rng) if kind == 1 else twisted(rows, mark, rng)
    files[".csv"] = "\n".join(mark.join(row) for row in rows).encode("utf-8", "ignore")
    return kind == 1


def encoded(text: str, mark: str, rng: Random) -> bytes:
    """Text in another encoding, or with blank rows at its end."""
    match int(rng.integers(3)):
        case 0:
            return text.encode(str(rng.choice(["utf-8-sig", "utf-16", "utf-32-le", "cp037"])))
        case 1:
            return text.replace("\n", str(rng.choice(["\r\n", "\r"]))).encode()
        case _:
            return (text + str(rng.choice(["\n" * 50, "\n" + mark * 3, " \n"]))).encode()


def rewritten(rows: list[list[str]], rng: Random) -> list[list[str]]:
    """Table in another order, with a column twice, or its cells in quotes or blanks."""
    width = len(rows[0])
    match int(rng.integers(5)):
        case 0:
            order = [0, *(1 + rng.permutation(max(width - 1, 0))).tolist()]
            return [[row[n] for n in order if n < len(row)] for row in rows]
        case 1:
            return [rows[0], *rows[:0:-1]]
        case 2:
            column = int(rng.integers(width))
            return [row + row[column : column + 1] for row in rows]
        case 3:
            return [[f'"{cell}"' for cell in row] for row in rows]
        case _:
            return [[f" {cell} " for cell in row] for row in rows]


def twisted(rows: list[list[str]], mark: str, rng: Random) -> list[list[str]]:
    """Another table, or none."""
    place, column = int(rng.integers(len(rows))), int(rng.integers(len(rows[0])))
    match int(rng.integers(6)):
        case 0:
            return [row[:column] + row[column + 1 :] for row in rows]
        case 1:
            other = ",;\t| "[rng.integers(5)]
            rows[place] = [mark.join(rows[place]).replace(mark, other)]
        case 2:
            rows.insert(place, list(rows[rng.integers(len(rows))]))
        case 3:
            return [rows[n] for n in rng.permutation(len(rows)).tolist()]
        case 4:
            rows[place] = rows[place] * int(rng.integers(2, 3000))
        case _:
            odd = ODD[rng.integers(len(ODD))].decode("utf-8", "ignore")
            rows[place][column : column + 1] = [odd]
    return rows


# workbooks


def excel_seeds() -> list[Files]:
    """Workbooks of numbers and of texts."""
    found = []
    for kind in (float, str):
        book = openpyxl.Workbook()
        book.active.append(["wavelength (nm)", *(f"{level:g} ppb" for level in LEVELS)])
        for place, row in zip(AXIS, SIGNAL.T, strict=True):
            book.active.append([float(place), *map(kind, row.tolist())])
        stream = io.BytesIO()
        book.save(stream)
        found.append({".xlsx": stream.getvalue()})
    return found


def twist_excel(files: Files, rng: Random) -> bool:
    """Damage, swap, drop or compress otherwise the members, within an intact archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(files[".xlsx"])) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
    except Exception:  # of an archive that is damaged already
        return False
    names = sorted(parts)
    name = names[rng.integers(len(names))]
    match int(rng.integers(6)):
        case 0:
            damage_one(parts, rng)
        case 1:
            number = str(rng.choice([-1, 0, 3, 99, 10**7, 10**12])).encode()
            start = [b' r="', b' s="', b"<v>", b' count="'][rng.integers(4)]
            places = [match.end() for match in re.finditer(re.escape(start), parts[name])]
            if places:
                at = places[rng.integers(len(places))]
                end = re.search(rb'["<]', parts[name][at:])
                rest = parts[name][at + (end.start() if end else 0) :]
                parts[name] = parts[name][:at] + number + rest
        case 2:
            parts[name] = b'<!DOCTYPE a [<!ENTITY b "x">]>' + parts[name]
        case 3:
            parts[name] = re.sub(rb"><", b">" + b"<a>" * 2000 + b"<", parts[name], count=1)
        case 4:
            parts["xl/worksheets/sheet2.xml"] = parts.get("xl/worksheets/sheet1.xml", b"")
        case _:
            pass
    kinds = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", kinds[rng.integers(4)]) as archive:
        warnings.simplefilter("ignore")
        for part in rng.permutation(sorted(parts)).tolist():
            archive.writestr(part, parts[part])
    files[".xlsx"] = stream.getvalue()
    return False


# JCAMP-DX


def jcamp_seeds() -> list[Files]:
    """Numbers in columns, squeezed differences, and pairs."""
    forms = (
        ("XYDATA=(X++(Y..Y))", _affn),
        ("XYDATA=(X++(Y..Y))", _dif),
        ("XYPOINTS=(XY..XY)", _xy),
    )
    found = []
    for form, lines in forms:
        blocks = [
            f"##TITLE={level:g} ppb\n##JCAMP-DX=4.24\n##DATA TYPE=UV-VIS SPECTRUM\n"
            "##XUNITS=NANOMETERS\n##YUNITS=ABSORBANCE\n##XFACTOR=1\n##YFACTOR=0.001\n"
            f"##FIRSTX={AXIS[0]:g}\n##LASTX={AXIS[-1]:g}\n##NPOINTS={len(AXIS)}\n##{form}\n"
            + lines(np.rint(row * 1000).astype(int).tolist())
            + "\n##END=\n"
            for level, row in zip(LEVELS, SIGNAL, strict=True)
        ]
        head = f"##TITLE=series\n##JCAMP-DX=4.24\n##DATA TYPE=LINK\n##BLOCKS={len(blocks)}\n"
        found.append({".jdx": (head + "".join(blocks) + "##END=\n").encode()})
    return found


def _affn(counts: list[int]) -> str:
    half = len(counts) // 2
    parts = ((AXIS[0], counts[:half]), (AXIS[half], counts[half:]))
    return "\n".join(f"{x:g} {' '.join(map(str, values))}" for x, values in parts)


def _xy(counts: list[int]) -> str:
    return "\n".join(f"{x:g}, {value}" for x, value in zip(AXIS, counts, strict=True))


def _dif(counts: list[int]) -> str:
    def digit(number: int, positive: str, negative: str) -> str:
        text = str(abs(number))
        return (positive if number >= 0 else negative)[int(text[0])] + text[1:]

    line = f"{AXIS[0]:g}" + digit(counts[0], "@ABCDEFGHI", "@abcdefghi")
    steps = np.diff(counts).tolist()
    return line + "".join(digit(step, "%JKLMNOPQR", "%jklmnopqr") for step in steps)


def twist_lines(suffix: str) -> Callable[[Files, Random], bool]:
    """Drop, double, move, lengthen or join lines of a file of that suffix, or exchange a value."""

    def twist(files: Files, rng: Random) -> bool:
        lines = files[suffix].split(b"\n")
        one, two = (int(rng.integers(len(lines))) for _ in range(2))
        kind = int(rng.integers(8))
        match kind:
            case 0:
                del lines[one]
            case 1:
                lines.insert(two, lines[one])
            case 2:
                lines[one], lines[two] = lines[two], lines[one]
            case 3:
                lines[one] *= int(rng.integers(2, 100))
            case 4:
                lines[one : one + 2] = [b"".join(lines[one : one + 2])]
            case 5:
                lines = [line + b"\r" for line in lines]
            case 6:
                head, mark, _ = lines[one].partition(b"=" if b"=" in lines[one] else b":")
                lines[one] = head + mark + ODD[rng.integers(len(ODD))]
            case _:
                lines.insert(one, [b"$$ remark", b"", b"# remark", b"  - x"][rng.integers(4)])
        files[suffix] = b"\n".join(lines)
        return kind == 5

    return twist


# labelled arrays


@cache
def _dataset() -> Any:
    data = xarray.Dataset(
        {"absorbance": (("concentration", "wavelength"), SIGNAL, {"units": "1"})},
        coords={"concentration": LEVELS, "wavelength": AXIS},
    )
    data["concentration"].attrs["units"] = "ppb"
    data["wavelength"].attrs["units"] = "nm"
    return data


def netcdf_seeds() -> list[Files]:
    """NetCDF 3 and 4."""
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for engine in ("scipy", "h5netcdf"):
            path = Path(folder) / f"{engine}.nc"
            _dataset().to_netcdf(path, engine=engine)
            found.append({".nc": path.read_bytes()})
        return found


def twist_netcdf(files: Files, rng: Random) -> bool:
    """Exchange a few neighbouring bytes by a number that is much too large, or too small."""
    content = files[".nc"]
    at = int(rng.integers(max(len(content) - 8, 1)))
    number = int(rng.choice([0, 1, 2**31 - 1, 2**32 - 1, 2**62]))
    width = int(rng.choice([1, 2, 4, 8]))
    changed = number.to_bytes(8, "little" if rng.random() < 0.5 else "big")
    files[".nc"] = content[:at] + changed[:width] + content[at + width :]
    return False


def zarr_seeds() -> list[Files]:
    """Zarr 2 and 3."""
    found = []
    for version in (2, 3):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a"
            _dataset().to_zarr(path, zarr_format=version, consolidated=False)
            found.append({f".zarr/{name}": data for name, data in contents(path).items()})
    return found


def twist_zarr(files: Files, rng: Random) -> bool:
    """Exchange a value in the metadata of an array or a group."""
    name = str(rng.choice([name for name in sorted(files) if name.split("/")[-1] in METADATA]))
    with contextlib.suppress(ValueError, RecursionError):
        files[name] = json_bytes(twist_json(json.loads(files[name]), rng))
    return False


METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs")


def contents(folder: Path) -> Files:
    """Every file of a folder."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


# parameters


def yaml_seeds() -> list[Files]:
    """The parameters of the project, as they are and as JSON."""
    text = Path(__file__).parents[1].joinpath("params.yaml").read_bytes()
    return [{".yaml": text}, {".yaml": json_bytes(parse_yaml(text.decode()), 1)}]


def twist_yaml(files: Files, rng: Random) -> bool:
    """Exchange a value, or write one with tags, aliases, or very deep."""
    content = files[".yaml"]
    match int(rng.integers(4)):
        case 0:
            with contextlib.suppress(Exception):
                files[".yaml"] = json_bytes(twist_json(parse_yaml(content.decode()), rng))
        case 1:
            places = [match.end() for match in re.finditer(rb": ", content)]
            if places:
                at = places[rng.integers(len(places))]
                odd = YAML_ODD[rng.integers(len(YAML_ODD))]
                files[".yaml"] = content[:at] + odd + content[at:]
        case 2:
            return twist_lines(".yaml")(files, rng)
        case _:
            files[".yaml"] = YAML_ODD[rng.integers(len(YAML_ODD))] + content
    return False


YAML_ODD = (
    *(b"!!int ", b"!!float ", b"!!bool ", b"!!binary ", b"!!set ", b"!!omap ", b"!!timestamp "),
    *(b"!!python/object/apply:os.system ", b"&a ", b"*a ", b"? ", b"<<: ", b"| ", b"> ", b"--- "),
    *(b"[" * 3000, b"{a: " * 500, b"0x" + b"f" * 5000 + b" #", b"9" * 5000 + b" #", b"%YAML 9\n"),
    *(b"2024-99-99 #", b"1e999 #", b".nan #", b"0o7 #", b'"\\0" #', b'"\\ud800" #', b"~ #"),
    b"&a [x, x] \nb: &b [*a, *a]\nc: &c [*b, *b]\n",
)


def read_yaml(path: Path, files: Files, same: bool) -> None:  # noqa: ARG001
    """Read parameters; what passes can be written as JSON without NaN."""
    found = read_parameters(path)
    require(finite(found.generate.concentrations, found.metric.bounds), "not finite")
    with contextlib.suppress(GeonodeError):
        read_table(Path(found.spectra.source))
    json.dumps(found.model_dump(exclude={"presets"}), allow_nan=False)


# artifacts: damaged, or twisted and sealed again


def weights_seeds() -> list[Files]:
    """A few tensors."""
    tensors = {"weight": torch.arange(6.0).reshape(2, 3), "count": torch.tensor([1, 2])}
    return [_written(".safetensors", lambda path: weights.write_weights(path, tensors, {"a": "b"}))]


def _written(suffix: str, write: Callable[[Path], None]) -> Files:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"a{suffix}"
        write(path)
        if path.is_file():
            return {suffix: path.read_bytes()}
        return {f"{suffix}/{name}": data for name, data in contents(path).items()}


def twist_weights(files: Files, rng: Random) -> bool:
    """Exchange a value of the header or damage the data, and seal the file again."""
    content = files[".safetensors"]
    length = int.from_bytes(content[:8], "little")
    header, data = content[8 : 8 + length], content[8 + length :]
    with contextlib.suppress(ValueError, RecursionError):
        if rng.random() < 0.6:
            header = json_bytes(twist_json(json.loads(header), rng))
        else:
            header, data = (
                damage(part, rng) if rng.random() < 0.5 else part for part in (header, data)
            )
    claimed = int(
        rng.choice([len(header), len(header) + 1, 2**31, 2**62], p=[0.9, 0.05, 0.03, 0.02])
    )
    files[".safetensors"] = seal(claimed.to_bytes(8, "little") + header + data, weights._SEAL_AT)
    return False


def read_weights(path: Path, files: Files, same: bool) -> None:  # noqa: ARG001
    """Read tensors."""
    tensors, metadata = weights.read_weights(path)
    require(all(bool(tensor.isfinite().all()) for tensor in tensors.values()), "not finite")
    require(all(isinstance(text, str) for text in metadata.values()), "metadata are no text")


def document_seeds() -> list[Files]:
    """A description of a device."""
    content = {"kind": "cpu", "cores": 2, "share": 0.5, "nested": {"list": [1, 2.5, None]}}
    return [_written(".json", lambda path: document.write_document(path, content))]


def twist_document(files: Files, rng: Random) -> bool:
    """Exchange a value or damage the text, and seal the file again."""
    with contextlib.suppress(ValueError, RecursionError):
        content = json.loads(files[".json"])
        if rng.random() < 0.6:
            files[".json"] = json_bytes(twist_json(content, rng), 2) + b"\n"
        else:
            files[".json"] = damage(files[".json"], rng)
    files[".json"] = seal(files[".json"], document._SEAL_AT)
    return False


def read_document(path: Path, files: Files, same: bool) -> None:  # noqa: ARG001
    """Read a document, which JSON can express."""
    json.dumps(document.read_document(path), allow_nan=False)


def artifact_seeds() -> list[Files]:
    """A series of spectra."""
    text = text_seeds()[0]
    with tempfile.TemporaryDirectory() as folder:
        table = read_table(put(Path(folder), text))
    parameters = read_parameters(Path(__file__).parents[1] / "params.yaml").spectra
    chart = Chart.of("linear", None, table.concentrations)
    return [_written(".zarr", lambda path: write_series(path, table, chart, parameters))]


def twist_artifact(files: Files, rng: Random) -> bool:
    """Exchange a value in the metadata or damage a chunk, and seal all again."""
    if rng.random() < 0.7:
        twist_zarr(files, rng)
    else:
        damage_one(files, rng)
    with contextlib.suppress(ValueError, RecursionError, LookupError, TypeError, AttributeError):
        root = json.loads(files[".zarr/zarr.json"])
        if rng.random() < 0.9:
            others = {name.removeprefix(".zarr/"): data for name, data in files.items()}
            del others["zarr.json"]
            sums = {name: f"{zlib.crc32(data):08x}" for name, data in others.items()}
            root["attributes"] |= {"files": sums, "checksum": root["attributes"].pop("checksum")}
        content = json_bytes(root, 2) + b"\n"
        files[".zarr/zarr.json"] = seal(content, SEAL_AT)
    return False


def read_artifact(path: Path, files: Files, same: bool) -> None:  # noqa: ARG001
    """Read every array of an artifact, and the series that it is."""
    opened = artifact.open_artifact(path)
    for name in opened.names:
        about = opened.describe(name)
        try:
            require(opened[name].shape == about.shape, "shape of an array")
            opened.first_not_finite(name)
        except CorruptArtifactError:
            continue
    series = read_series(path)
    require(finite(series.axis, series.signal, series.positions), "series is not finite")
    require(series.signal.shape == (len(series.positions), len(series.axis)), "shape of signal")
    require(bool(series.axis_label and series.signal_label), "labels")


READERS = {
    "text": Reader(text_seeds, twist_text, read_measured),
    "Excel": Reader(excel_seeds, twist_excel, read_measured),
    "JCAMP-DX": Reader(jcamp_seeds, twist_lines(".jdx"), read_measured),
    "NetCDF": Reader(netcdf_seeds, twist_netcdf, read_measured),
    "Zarr": Reader(zarr_seeds, twist_zarr, read_measured),
    "parameters": Reader(yaml_seeds, twist_yaml, read_yaml),
    "weights": Reader(weights_seeds, twist_weights, read_weights),
    "document": Reader(document_seeds, twist_document, read_document),
    "artifact": Reader(artifact_seeds, twist_artifact, read_artifact),
}


# cases


@cache
def seeds_of(name: str) -> list[Files]:
    """Valid files of a reader."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return READERS[name].seeds()


def case(name: str, number: int, seed: int) -> tuple[Files, bool]:
    """Files of a case, and whether they still say what the seed says.

    Args:
        name: of the reader.
        number: of the case; each seed file is read once as it is.
        seed: of all cases.
    """
    rng = np.random.default_rng([seed, list(READERS).index(name), number])
    files, same = dict(seeds_of(name)[number % len(seeds_of(name))]), True
    if number < len(seeds_of(name)):
        return files, same
    for _ in range(int(rng.integers(1, 4))):
        if rng.random() < 0.7 and files:
            same &= READERS[name].twist(files, rng)
        elif files:
            same = False
            damage_one(files, rng)
    return files, same


def put(folder: Path, files: Files) -> Path:
    """Write files of a case; the path that is read."""
    path = folder / "case"
    for name, content in files.items():
        file = folder / f"case{name}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        path = folder / f"case{name.split('/')[0]}"
    return path


def outcome(name: str, files: Files, same: bool, folder: Path) -> str:
    """Outcome of a case: "valid", "typed", or else what went wrong."""
    path = put(folder, files)
    began = time.perf_counter()
    try:
        with warnings.catch_warnings(), limited(LONGEST):
            warnings.simplefilter("ignore")
            READERS[name].read(path, files, same)
        result = "valid"
    except GeonodeError as error:
        result = "typed" if str(error).strip() else "an error without a message"
    except (Exception, Hang) as error:
        result = " ".join(repr(error).split())[:200]
    if time.perf_counter() - began > LONGEST:
        return f"took more than {LONGEST:g} s"
    return result


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `Hang` in what takes longer."""

    def ring(*_: object) -> None:
        raise Hang(f"after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def fuzz(cases: int, seed: int, kept: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Read many cases.

    Args:
        cases: of all readers together.
        seed: of their damage.
        kept: folder for the files of failures.

    Returns:
        A row for every reader, and a line for every failure.
    """
    table, failures = [], []
    for place, name in enumerate(READERS):
        count: Counter[str] = Counter()
        numbers = range(cases // len(READERS) + (place < cases % len(READERS)))
        for number in numbers:
            files, same = case(name, number, seed)
            with tempfile.TemporaryDirectory() as folder:
                result = outcome(name, files, same, Path(folder))
            if result not in ("valid", "typed"):
                path = put(kept / f"{name}-{seed}-{number}", files)
                failures.append(f"{name} {seed} {number}: {result}; kept as {path}")
                result = "failure"
            count[result] += 1
        table.append(
            {
                "reader": name,
                "cases": len(numbers),
                "valid results": count["valid"],
                "typed errors": count["typed"],
                "failures": count["failure"],
            }
        )
    return table, failures


def main(
    cases: Annotated[int, typer.Option(help="Of all readers together.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Of the damage.")] = 0,
    kept: Annotated[Path, typer.Option(help="Folder for files that fail.")] = Path("fuzz-failures"),
) -> None:
    """Read hostile files in every format, and count what becomes of them."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # Zarr tells it of every error again
    table, failures = fuzz(cases, seed, kept)
    total = {"reader": "all"}
    total |= {key: sum(row[key] for row in table) for key in table[0] if key != "reader"}
    typer.echo(markdown([*table, total]))
    for failure in failures:
        typer.echo(failure, err=True)
    raise typer.Exit(1 if failures else 0)


if __name__ == "__main__":
    typer.run(main)
