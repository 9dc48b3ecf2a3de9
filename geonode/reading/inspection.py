"""Inspection of a file of spectra: content, quality, and the parameters that read it."""

import json
import re
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from geonode.reading.files import (
    UNCHOSEN,
    Choices,
    Missing,
    Window,
    errors_naming,
    read_known_sheet,
    sheet_and_table,
)
from geonode.reading.sense import doubts
from geonode.reading.sheet import Sheet
from geonode.spectra.chart import proposes_log
from geonode.spectra.noise import noise_along_the_axis
from geonode.spectra.table import SpectraTable, shortest

BARS = "▁▂▃▄▅▆▇█"
WIDEST_LINE = 48
"""Characters of a spectrum drawn in one line."""

_SIGNAL = re.compile(r"(?P<name>.+?)[\s_]*[(\[/]\s*(?P<unit>[^()\[\]]+?)\s*[)\]]?")


@dataclass(frozen=True, eq=False)
class Inspection:
    """A file as it was understood."""

    source: Path
    """The file."""
    sheet: Sheet
    """Its spectra."""
    table: SpectraTable
    """The series that they are."""
    window: Window
    """Part of the axis that was asked for; None: all of it."""
    choices: Choices
    """Choices that were made for it."""
    doubts: list[str]
    """What a reader should know, and what is possible and hardly meant (`sense.doubts`)."""
    noise: float
    """As `noise_along_the_axis`."""

    def text(self) -> str:
        """The inspection for people."""
        found, table = self.to_json(), self.table
        facts = {
            "levels": f"{len(table.scans)}, unit {table.concentration_unit or 'not in the file'}",
            "noise": noise_said(self.noise, found["replicate_noise"]),
            "not monotonic": f"{found['non_monotonic_share']:.0%} of the wavelengths, beyond noise",
        }
        names = [shortest(level) for level in table.concentrations]
        widest = max(map(len, names))
        spectra = [
            f"{name:>{widest}}  {line}  {scans} scan{'s' if scans > 1 else ''}"
            for name, line, scans in zip(names, found["lines"], found["scans"], strict=True)
        ]
        doubtful = [f"doubt: {line}" for line in self.doubts]
        command = f"as options: geonode inspect {self.options}"
        proposal = found["proposal"].rstrip()
        head = in_lines(found, facts)
        return "\n".join([*head, "", *spectra, "", *doubtful, proposal, "", command])

    def to_json(self) -> dict[str, Any]:
        """The inspection as plain numbers, texts and lists."""
        table = self.table
        return {
            **of_file(self.source, self.sheet, table.axis, table.masked),
            "levels": table.concentrations.tolist(),
            "scans": [len(scans) for scans in table.scans],
            "concentration_unit": table.concentration_unit,
            "replicate_noise": table.replicate_noise(),
            "noise": self.noise,
            "non_monotonic_share": table.non_monotonic_share(self.noise),
            "lines": one_line_spectra(table.spectra),
            "proposal": self.proposal(),
            "doubts": self.doubts,
            "options": self.options,
        }

    @property
    def options(self) -> str:
        """Words of a command line that reads the file in this way."""
        return options_of(self.source, self.window, self.choices)

    def proposal(self) -> str:
        """Block `spectra` of a parameter file, with the reasons as comments."""
        sheet, levels, window = self.sheet, self.table.concentrations, self.window
        match = _SIGNAL.fullmatch(sheet.signal or "")
        quantity, unit = (match["name"], match["unit"]) if match else (sheet.signal, None)
        of_levels, masked = self.table.concentration_unit, len(self.table.masked)
        said, not_said = "from the file", "the file does not say: put it in"
        values = {
            "source": (_quoted(str(self.source)), sheet.understood.format),
            **{key: (_quoted(value), "as it was asked for") for key, value in _made(self.choices)},
            "quantity": (
                _quoted((quantity or "").lower() or "signal"),
                said if quantity else not_said,
            ),
            "unit": (_quoted(unit or "1"), said if unit else not_said),
            "concentration_unit": (
                _quoted(of_levels or "unknown"),
                said if of_levels else not_said,
            ),
            "chart": (
                "log" if proposes_log(levels) else "linear",
                f"levels {levels[0]:g} to {levels[-1]:g}; the pipeline finds a chart by evidence "
                "anyway",
            ),
            "kappa": ("null", "of the asinh chart alone"),
            "window": (
                "null" if window is None else f"[{window[0]!r}, {window[1]!r}]",
                f"the axis runs from {sheet.axis.min():.10g} to {sheet.axis.max():.10g}",
            ),
            "missing": (
                "mask" if masked else "refuse",
                f"{masked} wavelengths left out" if masked else "no value is missing",
            ),
        }
        width = max(len(f"{key}: {value}") for key, (value, _) in values.items())
        lines = [
            f"  {f'{key}: {value}':<{width}}  # {_printable(reason)}"
            for key, (value, reason) in values.items()
        ]
        return "\n".join(["spectra:", *lines]) + "\n"


def of_file(
    source: Path,
    sheet: Sheet,
    axis: Float[np.ndarray, "wavelength"],
    masked: Float[np.ndarray, "masked"],
) -> dict[str, Any]:
    """How a file was understood, as plain numbers, texts and lists.

    Args:
        source: the file.
        sheet: its spectra.
        axis: the wavelengths that are kept.
        masked: those left out because a value is missing or a detector was stuck.
    """
    understood = sheet.understood
    return {
        "source": str(source),
        "format": understood.format,
        "axis_name": sheet.axis_name,
        "axis_unit": sheet.axis_unit,
        "axis_range": [float(axis[0]), float(axis[-1])],
        "axis_step": float(np.median(np.diff(axis))),
        "wavelengths": len(axis),
        "masked": masked.tolist(),
        "encoding": understood.encoding,
        "header_rows": list(understood.header_rows),
        "layouts": list(understood.layouts),
        "skipped": list(understood.skipped),
    }


def in_lines(found: dict[str, Any], facts: dict[str, str]) -> list[str]:
    """Lines of what `of_file` says, of further facts, and of the layouts."""
    (low, high), unit = found["axis_range"], found["axis_unit"]
    every = {
        "file": found["source"],
        "format": found["format"],
        "encoding": found["encoding"],
        "header": ", ".join(f"row {row}" for row in found["header_rows"]),
        "left out": "; ".join(found["skipped"]) or "nothing",
        "axis": f"{found['axis_name']}{'' if unit == '1' else f' ({unit})'}: "
        f"{found['wavelengths']} values, {low:g} to {high:g}, step {found['axis_step']:g}",
        "masked": ", ".join(f"{value:g}" for value in found["masked"]) or "none",
        **facts,
    }
    width = max(map(len, every))
    head = [f"{name:<{width}}  {' '.join(fact.split())}" for name, fact in every.items() if fact]
    layouts = enumerate(found["layouts"])
    return [*head, "", *(f"{'        ' if at else 'layout: '}{line}" for at, line in layouts)]


def noise_said(noise: float, of_replicates: float | None) -> str:
    """Noise from neighbours and from replicates, if there are some."""
    said = "no replicates" if of_replicates is None else f"{of_replicates:.3g} from replicates"
    return f"{noise:.3g} from neighbours, {said}"


def options_of(source: Path, window: Window, choices: Choices) -> str:
    """Words of a command line that reads a file in one way."""
    words = [] if window is None else ["--window", repr(window[0]), repr(window[1])]
    words += [word for key, value in _made(choices) for word in (f"--{key}", value)]
    name = str(source)
    return shlex.join([f"./{name}" if name.startswith("-") else name, *words])


def _made(choices: Choices) -> list[tuple[str, str]]:
    """Choices that were made, by the name of their parameter."""
    made = asdict(choices)
    return [(key, str(made[key])) for key in made if made[key] != getattr(UNCHOSEN, key)]


def inspect_file(
    path: Path,
    *,
    window: Window = None,
    missing: Missing = "mask",
    choices: Choices = UNCHOSEN,
) -> Inspection:
    """Look at a file of a series.

    Args:
        path: a file of any known format.
        window: part of the axis to look at, ends included (axis unit).
        missing: whether missing values are an error, or their wavelengths are left out and named.
        choices: what the file leaves open.

    Raises:
        SpectraError: as `read_table`.
    """
    with errors_naming(path):
        sheet = read_known_sheet(path, choices)
    return inspect_sheet(path, sheet, window, missing, choices)


def inspect_sheet(
    path: Path, sheet: Sheet, window: Window, missing: Missing, choices: Choices
) -> Inspection:
    """Look at a file of a series that was read already; arguments are those of `inspect_file`.

    Raises:
        SpectraError: as `read_table`.
    """
    with errors_naming(path):
        sheet, table = sheet_and_table(sheet, window, missing, choices.replicates)
    doubtful = [*sheet.understood.notes, *doubts(sheet, table)]
    noise = noise_along_the_axis(table.axis, np.concatenate(table.scans))
    return Inspection(path, sheet, table, window, choices, doubtful, noise)


def one_line_spectra(spectra: Float[np.ndarray, "level wavelength"]) -> list[str]:
    """Each spectrum as a line of bars, means of equal parts of the axis, all on one scale."""
    parts = np.array_split(spectra, min(WIDEST_LINE, spectra.shape[1]), axis=1)
    means = np.stack([part.mean(axis=1) for part in parts], axis=1)
    low, span = means.min(), np.ptp(means)
    heights = np.zeros_like(means) if span == 0 else (means - low) / span
    bars = np.minimum((heights * len(BARS)).astype(int), len(BARS) - 1)
    return ["".join(BARS[bar] for bar in line) for line in bars]


def _quoted(text: str) -> str:
    """A string as YAML writes it."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)


def _printable(text: str) -> str:
    """A remark in one line of characters that YAML allows."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
