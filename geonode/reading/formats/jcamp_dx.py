"""Spectra as JCAMP-DX: a file of one block a spectrum, possibly linked.

A spectrum is called by its title, or by its concentration where every block has the label
`##CONCENTRATIONS=`, as `10 ppb` or `(arsenic, 10, ppb)`. Which of several components the series is
about has to be asked for. The mark of a further scan, as in the title
`30 ppb__r2`, goes with the label too.

McDonald and Wilks, JCAMP-DX: A Standard Form for Exchange of Infrared Spectra in Computer Readable
Form, Appl. Spectrosc. 42 (1988) 151. Points are evenly spaced ordinates, (X++(Y..Y)), as plain
numbers or compressed (packed, squeezed, differences, repeat counts), or pairs, (XY..XY). Every
check that a block offers is made: number of points, ends and step of the axis, the X of every line,
the first ordinate of a line after differences, FIRSTY. `?` is an ordinate that is missing. A comma
between digits is a decimal mark or parts the numbers: the number of points decides.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float

from geonode.errors import SpectraError
from geonode.reading.formats.delimited import read_text
from geonode.reading.headers import AXIS_OF_UNIT, axis_header
from geonode.reading.refusals import errors_naming, require_at_most
from geonode.reading.sheet import Sheet, Understood, joined_amounts, to_number
from geonode.spectra.arrays import require_values
from geonode.spectra.table import shortest
from geonode.storage.seal import require_file

JCAMP_SUFFIXES = (".jdx", ".dx", ".jcamp")

LONGEST_JCAMP_LINE = 1024
"""Characters of a line or a label; the standard has lines of 80."""

LARGEST_JCAMP = 2**23
"""Bytes of a file."""

MOST_POINTS = 2**20
"""Points of a spectrum."""

HALF = 0.51
"""Steps of the axis by which an X may be off through rounding."""

_POINTS = ("XYDATA", "XYPOINTS")
_TEXTS = ("TITLE", "CONCENTRATIONS", "DATATYPE", "XUNITS", "YUNITS", "BLOCKS")
_NUMBER_LABELS = ("NPOINTS", "FIRSTX", "LASTX", "DELTAX", "XFACTOR", "YFACTOR", "FIRSTY")
_COMPONENT = re.compile(r"\(([^(),]*),([^(),]+),([^(),]+)\)")
_MARK_IN_TITLE = re.compile(r".*(__r[0-9]+)", re.DOTALL)

# A letter stands for a sign and a first digit: of a value, of a difference (d), or of a repeat
# count (r). An exponent has a sign, as the letter E alone is the digit 5.
_EXPONENT = re.compile(r"[0-9.][eE][+-][0-9]")
_DECIMAL_COMMA = re.compile(r"(?<=[0-9]),(?=[0-9])")
_PACKED = re.compile(r"(?<=[0-9.])(?=[+-])")
_LETTERS = str.maketrans(
    {
        letter: f" {mark}{digit}"
        for mark, letters in (("", "@ABCDEFGHI"), ("d", "%JKLMNOPQR"), ("r", " STUVWXYZs"))
        for digit, letter in enumerate(letters)
        if letter != " "
    }
    | {
        letter: f" {mark}-{digit}"
        for mark, letters in (("", "abcdefghi"), ("d", "jklmnopqr"))
        for digit, letter in enumerate(letters, start=1)
    }
)


@dataclass
class _Block:
    """Labels of a block that are read, and the numbered lines of its points."""

    texts: dict[str, str] = field(default_factory=dict)
    lines: list[tuple[int, str]] = field(default_factory=list)

    @property
    def points(self) -> str | None:
        """Form of its points; None if it has none."""
        return self.texts.get("XYDATA", self.texts.get("XYPOINTS"))

    @property
    def axis_name_and_unit(self) -> tuple[str, str]:
        """Name and unit of the axis; "axis" and "1" if unknown."""
        written = self.texts.get("XUNITS") or "1"
        known = axis_header(written)[1]
        unit = written if known == "1" else known
        is_raman = unit == "cm-1" and "RAMAN" in self.texts.get("DATATYPE", "").upper()
        return "raman_shift" if is_raman else AXIS_OF_UNIT.get(unit, "axis"), unit

    @property
    def components(self) -> dict[str, str]:
        """Concentrations with their units, by the names of the components."""
        found = _COMPONENT.findall(self.texts.get("CONCENTRATIONS", ""))
        return {name.strip(): f"{number.strip()} {unit.strip()}" for name, number, unit in found}

    @property
    def concentration(self) -> str | None:
        """The only concentration of the block, with the mark of the scan in its title."""
        text = self.texts.get("CONCENTRATIONS")
        if text is None or len(self.components) > 1:
            return None
        if self.components:
            (text,) = self.components.values()
        elif (number := to_number(text, None)) is not None:
            text = shortest(number)
        mark = _MARK_IN_TITLE.fullmatch(self.texts.get("TITLE", ""))
        return text + (mark[1] if mark else "")

    @property
    def count(self) -> int:
        """Number of points that the block announces."""
        text = self.texts.get("NPOINTS", "")
        if not re.fullmatch("[0-9]{1,9}", text) or not 0 < int(text) <= MOST_POINTS:
            found = f"{text[:20]} points" if text else "no NPOINTS"
            raise SpectraError(f"found {found}, expected a number of at most {MOST_POINTS}")
        return int(text)

    def number(self, label: str, default: float | None = None) -> float:
        """Number that a label gives, or the default."""
        if label not in self.texts and default is not None:
            return default
        text = self.texts.get(label, "")
        number = to_number(text, None)
        if number is None or not np.isfinite(number):
            raise SpectraError(f"{label}: found {text[:40]!r}, expected a finite number")
        return number

    def spectrum(self) -> tuple[Float[np.ndarray, "wavelength"], Float[np.ndarray, "wavelength"]]:
        """Axis and ordinates.

        Raises:
            SpectraError: points are of an unknown form, or fail a check.
        """
        form = (self.points or "").replace(" ", "").upper()
        if form not in ("(X++(Y..Y))", "(XY..XY)"):
            expected = "(X++(Y..Y)) or (XY..XY)"
            raise SpectraError(f"found points of the form {form[:40]!r}, expected {expected}")
        axis, values = self._pairs() if form == "(XY..XY)" else self._even_points()
        factor = self.number("YFACTOR", 1.0)
        values = values * factor
        first = self.number("FIRSTY", values[0]) if np.isfinite(values[0]) else values[0]
        tolerance = abs(factor) + 1e-2 * np.nanmax(np.abs(values), initial=0)
        if abs(values[0] - first) > tolerance:
            raise SpectraError(f"found {values[0]:g} as first value, expected {first:g} (FIRSTY)")
        return axis, values

    def _even_points(self) -> tuple[np.ndarray, np.ndarray]:
        axis = np.linspace(self.number("FIRSTX"), self.number("LASTX"), self.count)
        if "DELTAX" in self.texts:  # its rounding sums up along the axis
            last = axis[0] + self.number("DELTAX") * (len(axis) - 1)
            _require_near("DELTAX", last, axis[-1], axis)
        values: list[float] = []
        factor, repeats_last = self.number("XFACTOR", 1.0), False
        for place, (number, line) in enumerate(self.lines, start=1):
            at, found, in_differences = _ordinates(number, line, self.count)
            if repeats_last:
                if not found or found[0] != values[-1]:
                    raise SpectraError(
                        f"line {number}: found {found[:1]} after {values[-1]:g}, expected that "
                        "value again, as a check of the differences; export the spectrum again"
                    )
                del values[-1]
            if len(values) < len(axis):
                what = f"X of line {place} of points"
                _require_near(what, at * factor, axis[len(values)], axis)
            values += found
            repeats_last = in_differences
            if len(values) > len(axis):
                break
        self._require_count(len(values))
        return axis, np.array(values)

    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        numbers = self._numbers(self.lines)
        if len(numbers) != 2 * self.count:  # unless commas are decimal marks
            point = [(row, _DECIMAL_COMMA.sub(".", line)) for row, line in self.lines]
            numbers = self._numbers(point)
        axis, values = np.array(numbers[::2]) * self.number("XFACTOR", 1.0), np.array(numbers[1::2])
        self._require_count(len(numbers) / 2)
        _require_near("FIRSTX", self.number("FIRSTX", axis[0]), axis[0], axis)
        _require_near("LASTX", self.number("LASTX", axis[-1]), axis[-1], axis)
        return axis, values

    def _numbers(self, lines: list[tuple[int, str]]) -> list[float]:
        """Numbers of lines of pairs, NaN for an ordinate that is missing."""
        numbers: list[float] = []
        for row, line in lines:
            for text in filter(None, re.split(r"[,;\s]+", line)):
                is_missing = text == "?" and len(numbers) % 2 == 1
                number = np.nan if is_missing else to_number(text)
                if number is None or not (is_missing or np.isfinite(number)):
                    raise SpectraError(f"line {row}: found {text[:40]!r}, expected plain numbers")
                numbers.append(number)
        return numbers

    def _require_count(self, found: float) -> None:
        if found != self.count:
            raise SpectraError(f"found {found:g} points, expected {self.count} (NPOINTS)")


def read_jcamp(path: Path) -> Sheet:
    """Spectra of a file, one of each block, with the concentrations of its components.

    Raises:
        SpectraError: it is damaged or contains no spectra, or their axes or units differ.
        OSError, UnicodeDecodeError: it cannot be read.
    """
    blocks = list(_blocks(read_text(require_file(path), LONGEST_JCAMP_LINE, LARGEST_JCAMP)[0]))
    places = [f"block {number}" for number in range(1, len(blocks) + 1)]
    if not blocks or any(block.points is None for block in blocks):
        raise SpectraError("found a block without XYDATA or XYPOINTS, expected JCAMP-DX spectra")
    require_values(sum(block.count for block in blocks))
    spectra = []
    for block, place in zip(blocks, places, strict=True):
        with errors_naming(place):
            spectra.append(block.spectrum())
    axis, first, (name, unit) = spectra[0][0], blocks[0], blocks[0].axis_name_and_unit
    for block, place, (own, _) in zip(blocks, places, spectra, strict=True):
        one, other = (
            "{} in {}, {}".format(*found.axis_name_and_unit, found.texts.get("YUNITS", "no YUNITS"))
            for found in (block, first)
        )
        if one.lower() != other.lower():
            raise SpectraError(f"{place}: found {one}, expected {other} as in {places[0]}")
        if not np.array_equal(own, axis):
            raise SpectraError(
                f"{place}: found another axis than in {places[0]} ({len(own)} and "
                f"{len(axis)} points); bring all spectra to one axis"
            )
    concentrations = [block.concentration for block in blocks]
    by_label = None not in concentrations
    titles = [block.texts.get("TITLE", "") for block in blocks]
    return Sheet(
        names=[str(found) for found in concentrations] if by_label else titles,
        axis=axis,
        axis_name=name,
        axis_unit=unit,
        values=np.stack([values for _, values in spectra]),
        name_places=places,
        axis_places=[f"point {number}" for number in range(1, len(axis) + 1)],
        understood=Understood("JCAMP-DX, one block a spectrum"),
        # A bare number as title may count samples.
        of_samples=not by_label,
        signal=first.texts.get("YUNITS"),
        amounts=joined_amounts(
            [block.components for block in blocks],
            places,
            is_sure=any(len(block.components) > 1 for block in blocks),
        ),
    )


def _blocks(lines: list[str]) -> Iterator[_Block]:
    """Blocks of a file but those that only link others; a file that was cut is refused."""
    block, label, linked, count = _Block(), "", 0, 0
    for number, found in enumerate([*lines, "##TITLE="], start=1):
        line = found.partition("$$")[0].strip()
        if line.startswith("##"):
            head, _, text = line.lstrip("#").partition("=")
            label = re.sub(r"[\s/_-]", "", head).upper()
            if label == "TITLE" and block.points is not None:
                raise SpectraError(f"line {number}: found no END of a block, expected ##END=")
            if label in _POINTS and block.points is not None:
                raise SpectraError(f"line {number}: found points twice in one block, expected once")
            is_link = block.texts.get("DATATYPE", "").upper() == "LINK"
            if is_link and label == "TITLE":
                announced = block.texts.get("BLOCKS", "")
                linked = int(announced) if re.fullmatch("[0-9]{1,9}", announced) else 0
            elif label == "END" and not block.texts:
                linked = 0  # all of the link are there
            if label == "END" and block.texts and (block.points or not is_link):
                count += 1
                yield block
            if number > len(lines) and (linked > count or (block.texts and not is_link)):
                raise SpectraError(
                    f"found the end of the file behind {count} whole blocks, expected ##END= of "
                    "every block; export the file again"
                )
            if label in ("TITLE", "END"):
                block = _Block()
            if label in _TEXTS + _NUMBER_LABELS + _POINTS:
                block.texts[label] = text.strip()
        elif label in _POINTS and line:
            block.lines.append((number, line))
        elif label in _TEXTS and line:
            block.texts[label] = f"{block.texts[label]} {line}".strip()
            length, what = len(block.texts[label]), f"characters of {label} up to line {number}"
            require_at_most(LONGEST_JCAMP_LINE, length, what)


def _ordinates(number: int, line: str, most: int) -> tuple[float, list[float], bool]:
    """X and ordinates of a line, and whether the last of them is a difference."""
    spaced = _PACKED.sub(" ", _DECIMAL_COMMA.sub(".", line))
    tokens = (spaced if _EXPONENT.search(line) else spaced.translate(_LETTERS)).split()
    numbers = [to_number(token.lstrip("dr")) for token in tokens]
    values: list[float] = []
    step: float | None = None
    for token, found in zip(tokens[1:], numbers[1:], strict=True):
        mark = token[0] if token[0] in "dr" else ""
        if token == "?":
            values.append(np.nan)
            continue
        if found is None or not np.isfinite(found) or (mark and not values) or len(values) > most:
            break
        if mark == "r":
            values += [values[-1] + (step or 0) * n for n in range(1, min(int(found), most + 1))]
            continue
        step = found if mark == "d" else None
        values.append(found if step is None else values[-1] + step)
    else:
        if tokens[0][0] not in "dr" and numbers[0] is not None:
            return numbers[0], values, step is not None
    comma = ", and a comma only as decimal mark" if "," in line else ""
    raise SpectraError(f"line {number}: found {line[:40]!r}, expected numbers of JCAMP-DX{comma}")


def _require_near(what: str, found: float, expected: float, axis: np.ndarray) -> None:
    """Refuse an X that is off the axis by more than half a step."""
    step = (axis[-1] - axis[0]) / max(1, len(axis) - 1)
    if not abs(found - expected) <= HALF * abs(step):
        raise SpectraError(
            f"{what}: found {found:.10g}, expected {expected:.10g} by the points and the ends "
            "of the axis (FIRSTX, LASTX, NPOINTS, XFACTOR); they contradict each other: "
            "export the spectrum again"
        )
