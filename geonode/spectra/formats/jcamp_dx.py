"""Spectra as JCAMP-DX: a file of linked blocks, or a folder with one file a spectrum.

A spectrum is called by its title, or by its concentration where every block has the label
`##CONCENTRATIONS=`, as `10 ppb` or `(arsenic, 10, ppb)`: one component, as nothing tells which of
several the series is about. `30 ppb__r2` as title marks a further scan, with the label too.

McDonald and Wilks, JCAMP-DX: A Standard Form for Exchange of Infrared Spectra in Computer Readable
Form, Appl. Spectrosc. 42 (1988) 151. Blocks are parsed by the package jcamp, which forgives what
the standard does not: here a block without the number of points that it announces, whose checks
fail, or whose repeat counts that package does not know is refused. Points are XYDATA, evenly
spaced and possibly compressed, or XYPOINTS.
"""

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from geonode.errors import SpectraError
from geonode.spectra.common_axis import on_common_axis
from geonode.spectra.formats.text import read_text
from geonode.spectra.sheet import Sheet, Understood, require_values, shortest
from geonode.storage.seal import require_file

SUFFIXES = (".jdx", ".dx", ".jcamp")

LONGEST_LINE = 1024
"""Characters; the standard has 80."""

LARGEST_TEXT = 2**23
"""Characters of a file, which are parsed one by one."""

MOST_POINTS = 2**20
"""Of a spectrum."""

AXES = {
    "NANOMETERS": ("wavelength", "nm"),
    "NM": ("wavelength", "nm"),
    "MICROMETERS": ("wavelength", "um"),
    "1/CM": ("wavenumber", "cm-1"),
    "CM-1": ("wavenumber", "cm-1"),
}
"""Name and unit of the axis, by XUNITS."""

HALF = 0.51
"""Steps of the axis that an X may be off by rounding."""

_DIFFERENCE = re.compile(r"[%J-Rj-r]")
_POINTS = {"xydata", "xypoints", "peak table", "peaktable", "ntuples"}  # labels of what follows
_USED = {"title", "concentrations", "data type", "xunits", "yunits"}  # of texts
_REPEATS = {mark: more for more, mark in enumerate("STUVWXYZs")}  # points that a count adds
# A repeat count after anything but one difference, or of more digits than one.
_UNKNOWN_REPEAT = re.compile(r"(?<![%J-Rj-r0-9])[0-9]*[S-Zs]|[S-Zs][0-9S-Zs]")
_COMPONENT = re.compile(r"\s*(?:\(NCU\)\s*)?\([^(),]*,([^(),]+),([^(),]+)\)\s*")
_SCAN_MARK = re.compile(r".*(__r[0-9]+)", re.DOTALL)


class Block(NamedTuple):
    """One spectrum of a file."""

    title: str
    concentration: str | None
    axis_name: str
    axis_unit: str
    signal: str | None
    axis: Float[np.ndarray, "wavelength"]
    values: Float[np.ndarray, "wavelength"]


def read_jcamp(path: Path) -> Sheet:
    """Spectra of a file.

    Raises:
        SpectraError: it is damaged or is no spectrum, or the spectra have not the same units, or
            axes that cannot be brought to one.
        OSError, UnicodeDecodeError: it cannot be read.
    """
    blocks = _blocks(path)
    return _sheet(blocks, [f"block {number}" for number in range(1, len(blocks) + 1)])


def read_jcamp_files(files: list[Path]) -> Sheet:
    """Spectra of several files.

    Raises:
        SpectraError, OSError, UnicodeDecodeError: as `read_jcamp`.
    """
    blocks, places, values = [], [], 0
    for file in files:
        try:
            found = _blocks(file)
        except SpectraError as error:
            raise SpectraError(f"{file.name}: {error}") from error
        blocks += found
        values += sum(len(block.axis) for block in found)
        require_values(values)
        places += [f"{file.name}, block {number}" for number in range(1, len(found) + 1)]
    return _sheet(blocks, places)


def _sheet(blocks: list[Block], places: list[str]) -> Sheet:
    first = blocks[0]
    for block, place in zip(blocks, places, strict=True):
        for what, one, other in (
            ("axis", (block.axis_name, block.axis_unit), (first.axis_name, first.axis_unit)),
            ("signal", block.signal, first.signal),
        ):
            if one != other:
                raise SpectraError(
                    f"{place}: found {what} {one}, expected {other} as in {places[0]}"
                )
        # Blocks of a file have one axis; another one contradicts them.
        if place.startswith("block") and not np.array_equal(block.axis, first.axis):
            raise SpectraError(
                f"{place}: found another axis than in {places[0]} ({len(block.axis)} and "
                f"{len(first.axis)} points); bring all spectra to one axis"
            )
    axis, values, notes = on_common_axis(
        [block.axis for block in blocks], [block.values for block in blocks], places
    )
    by_label = all(block.concentration is not None for block in blocks)
    names = [str(block.concentration) if by_label else block.title for block in blocks]
    return Sheet(
        names=names,
        axis=axis,
        axis_name=first.axis_name,
        axis_unit=first.axis_unit,
        values=values,
        name_places=places,
        axis_places=[f"point {number}" for number in range(1, len(axis) + 1)],
        understood=Understood("JCAMP-DX, one block a spectrum", notes=notes),
        # A bare number as title may count samples.
        names_are="concentrations" if by_label else "other",
        signal=first.signal,
    )


def _blocks(path: Path) -> list[Block]:
    """Spectra of one file."""
    import jcamp  # type: ignore[import-untyped]  # noqa: PLC0415 - for this format alone

    lines, data = _readable(read_text(require_file(path), LONGEST_LINE, LARGEST_TEXT).lines)
    said = io.StringIO()
    try:
        # Failed checks are printed, which is all that happens to them.
        with contextlib.redirect_stdout(said):
            content = jcamp.read(lines)
        found = content.get("children", [content])
        if failed := said.getvalue().strip():
            raise SpectraError(
                f"found points that are not as NPOINTS, FIRSTX and LASTX have them "
                f"({failed.splitlines()[0]:.120}); export the spectrum again"
            )
        if not found or len(found) != len(data):
            raise SpectraError("found a block without, or with several, XYDATA or XYPOINTS")
        return [_block(block, of_it) for block, of_it in zip(found, data, strict=True)]
    except SpectraError:
        raise
    except Exception as error:  # of a damaged block, whatever it is
        raise SpectraError(f"found no JCAMP-DX spectra ({error!r:.80})") from error


def _readable(lines: list[str]) -> tuple[list[str], list[list[str]]]:
    """Lines that the package is to read, without remarks, and those of points of every block.

    Raises:
        SpectraError: a number of points is absent or too large, a label or what its points repeat
            is too long, or a point is no plain number.
    """
    readable, data = list[str](), list[list[str]]()
    label, length, announced, repeated, counted = "", 0, 0, 0, 0
    for number, found in enumerate(lines, start=1):
        line = found
        if line.startswith("##"):
            head, mark, rest = found.partition("=")
            line = " ".join(head.split()) + mark + rest
            label, length, repeated = _label(line), 0, 0
            if label == "npoints":
                announced = _count(line.partition("=")[2].strip())
                counted += announced
                require_values(counted)
            elif label in _POINTS:
                data.append([])
        elif label in _POINTS:
            repeated += sum(line.count(mark) * more for mark, more in _REPEATS.items())
            if _UNKNOWN_REPEAT.search(line) or repeated > announced:
                raise SpectraError(
                    f"line {number}: found repeat counts that are not read, or of more points than "
                    f"NPOINTS, {announced}; export without compression"
                )
            if "_" in line or not line.isascii():
                raise SpectraError(f"line {number}: found {line[:40]!r}, expected plain numbers")
            if line.strip() and not line.startswith("$$"):
                data[-1].append(line)
        elif label not in _USED:
            continue
        length += len(line)
        if label in _USED and length > LONGEST_LINE:
            raise SpectraError(
                f"line {number}: found {label.upper()} of {length} characters, expected at most "
                f"{LONGEST_LINE}; shorten it"
            )
        readable.append(line)
    if not counted:
        raise SpectraError("found no NPOINTS, expected JCAMP-DX spectra")
    return readable, data


def _label(line: str) -> str:
    """Label of a line as the package reads it; empty if it has none."""
    return line.strip("#").partition("=")[0].strip().lower() if line.startswith("##") else ""


def _count(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) > MOST_POINTS:
        raise SpectraError(
            f"found {text[:20]} points, expected a number of at most {MOST_POINTS} (NPOINTS)"
        )
    return int(text)


def _check_axis(content: dict[str, Any], axis: np.ndarray, lines: list[str]) -> None:
    """Refuse an axis that its ends, its step and the X of every line do not agree about.

    Raises:
        SpectraError: they do not.
    """
    first, last = content.get("firstx", axis[0]), content.get("lastx", axis[-1])
    step = (axis[-1] - axis[0]) / max(1, len(axis) - 1)
    checks = [("FIRSTX", first, axis[0]), ("LASTX", last, axis[-1])]
    if "deltax" in content and "xydata" in content:
        # Sums up to what the ends are apart.
        checks.append(("DELTAX", axis[0] + content["deltax"] * (len(axis) - 1), axis[-1]))
    if "xydata" in content:
        checks += _x_of_lines(content, axis, lines)
    for what, found, expected in checks:
        if not abs(found - expected) <= HALF * abs(step):
            raise SpectraError(
                f"{what}: found {found:.10g}, expected {expected:.10g} by the points and the ends "
                "of the axis (FIRSTX, LASTX, NPOINTS, XFACTOR); they contradict each other: "
                "export the spectrum again"
            )


def _x_of_lines(
    content: dict[str, Any], axis: np.ndarray, lines: list[str]
) -> Iterator[tuple[str, float, float]]:
    """Kind, X and axis value of every line."""
    from jcamp import parse  # noqa: PLC0415 - for this format alone

    differences = bool(lines) and _DIFFERENCE.search(lines[0]) is not None
    done, factor = 0, content.get("xfactor", 1)
    for number, line in enumerate(lines, start=1):
        at, *points = parse(line)
        repeated = 1 if differences and done else 0  # the last point, as a check
        if done - repeated < len(axis):
            yield f"X of line {number} of points", at * factor, axis[done - repeated]
        done += len(points) - repeated


def _block(content: dict[str, Any], lines: list[str]) -> Block:
    axis, values = np.asarray(content["x"], float), np.asarray(content["y"], float)
    if not len(axis) == len(values) == content["npoints"] > 0:
        raise SpectraError(
            f"found {len(values)} points, expected {content['npoints']} (NPOINTS); only XYDATA "
            "and XYPOINTS are read"
        )
    if not (np.isfinite(axis).all() and np.isfinite(values).all()):
        raise SpectraError("found NaN or infinity, expected finite numbers")
    _check_axis(content, axis, lines)
    first = content.get("firsty", values[0])
    tolerance = abs(content.get("yfactor", 1)) + 1e-2 * np.abs(values).max()
    if not abs(values[0] - first) <= tolerance:
        raise SpectraError(f"found {values[0]:g} as first value, expected {first} (FIRSTY)")
    unit = str(content.get("xunits", "")).strip()
    name, unit = AXES.get(unit.upper(), ("axis", unit or "1"))
    if unit == "cm-1" and "RAMAN" in str(content.get("data type", "")).upper():
        name = "raman_shift"
    title = str(content.get("title", "")).strip()
    signal = content.get("yunits")
    return Block(
        title=title,
        concentration=_concentration(content.get("concentrations"), title),
        axis_name=name,
        axis_unit=unit,
        signal=None if signal is None else str(signal).strip(),
        axis=axis,
        values=values,
    )


def _concentration(label: Any, title: str) -> str | None:
    """The concentration that a block names, with the mark of the scan that its title has."""
    if label is None:
        return None
    mark = _SCAN_MARK.fullmatch(title)
    text = shortest(float(label)) if isinstance(label, int | float) else str(label).strip()
    component = _COMPONENT.fullmatch(text)
    if component:
        text = f"{component[1].strip()} {component[2].strip()}"
    return text + (mark[1] if mark else "")
