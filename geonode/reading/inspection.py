"""Inspection of a file of spectra: content, quality, and the parameters that read it."""

import json
import re
import shlex
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from jaxtyping import Float

from geonode.config import SpectraParameters
from geonode.reading.files import Choices
from geonode.reading.sense import doubts
from geonode.reading.series_file import table_of
from geonode.reading.sheet import Sheet
from geonode.spectra.chart import proposes_log
from geonode.spectra.noise import noise_along_the_axis
from geonode.spectra.table import SpectraTable, shortest
from geonode.terminal import printable

BARS = "▁▂▃▄▅▆▇█"
WIDEST_LINE = 48
"""Characters of a spectrum drawn in one line."""

_SIGNAL = re.compile(r"(?P<name>.+?)[\s_]*[(\[/]\s*(?P<unit>[^()\[\]]+?)\s*[)\]]?")


@dataclass(frozen=True, eq=False)
class Inspection:
    """A file of a series as it was understood."""

    parameters: SpectraParameters
    """Parameters by which it was read."""
    sheet: Sheet
    """Its spectra."""
    table: SpectraTable
    """The series that they are."""
    doubts: list[str]
    """Remarks for a reader, and what is possible and hardly meant (`sense.doubts`)."""
    noise: float
    """Noise by `noise_along_the_axis`."""

    @classmethod
    def of(cls, sheet: Sheet, parameters: SpectraParameters) -> "Inspection":
        """Look at a sheet of one amount, of `known_sheet`, that was read by parameters.

        Raises:
            SpectraError: it is no series.
        """
        sheet, table = table_of(sheet, parameters)
        noise = noise_along_the_axis(table.axis, np.concatenate(table.scans))
        return cls(parameters, sheet, table, doubts(sheet, table), noise)

    def text(self) -> str:
        """The inspection for people."""
        found, table = self.to_json(), self.table
        facts = {
            "levels": f"{len(table.scans)}, unit {table.concentration_unit or 'not in the file'}",
            "noise": noise_in_words(self.noise, found["replicate_noise"]),
            "not monotonic": f"{found['non_monotonic_share']:.0%} of the wavelengths, beyond noise",
        }
        names = [shortest(level) for level in table.concentrations]
        widest = max(map(len, names))
        spectra = [
            f"{name:>{widest}}  {line}  {scans} scan{'s' if scans > 1 else ''}"
            for name, line, scans in zip(names, found["lines"], found["scans"], strict=True)
        ]
        doubtful = [f"doubt: {line}" for line in self.doubts]
        command = f"as options: geonode inspect {found['options']}"
        proposal = found["proposal"].rstrip()
        head = in_lines(found, facts)
        return "\n".join([*head, "", *spectra, "", *doubtful, proposal, "", command])

    def to_json(self) -> dict[str, Any]:
        """The inspection as plain numbers, texts and lists."""
        table = self.table
        return {
            **facts_of_file(self.parameters, self.sheet, table.axis, table.masked),
            "levels": table.concentrations.tolist(),
            "scans": [len(scans) for scans in table.scans],
            "concentration_unit": table.concentration_unit,
            "replicate_noise": table.replicate_noise(),
            "noise": self.noise,
            "non_monotonic_share": table.non_monotonic_share(self.noise),
            "lines": one_line_spectra(table.spectra),
            "proposal": self.proposal(),
            "doubts": self.doubts,
        }

    def proposal(self) -> str:
        """Block `spectra` of a parameter file, with the reasons as comments."""
        sheet, levels, window = self.sheet, self.table.concentrations, self.parameters.window
        match = _SIGNAL.fullmatch(sheet.signal or "")
        quantity, unit = (match["name"], match["unit"]) if match else (sheet.signal, None)
        of_levels, masked = self.table.concentration_unit, len(self.table.masked)

        def given(value: str | None, instead: str) -> tuple[str, str]:
            missing = "the file does not say: put it in"
            return _quoted(value or instead), "from the file" if value else missing

        made = _choices_made(self.parameters)
        chart = f"levels {levels[0]:g} to {levels[-1]:g}; the pipeline finds a chart by evidence"
        values = {
            "source": (_quoted(self.parameters.source), sheet.understood.format),
            **{key: (_quoted(value), "as it was asked for") for key, value in made},
            "quantity": given((quantity or "").lower(), "signal"),
            "unit": given(unit, "1"),
            "concentration_unit": given(of_levels, "unknown"),
            "chart": ("log" if proposes_log(levels) else "linear", f"{chart} anyway"),
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
            f"  {f'{key}: {value}':<{width}}  # {printable(' '.join(reason.split()))}"
            for key, (value, reason) in values.items()
        ]
        return "\n".join(["spectra:", *lines]) + "\n"


def facts_of_file(
    parameters: SpectraParameters,
    sheet: Sheet,
    axis: Float[np.ndarray, "wavelength"],
    masked: Float[np.ndarray, "masked"],
) -> dict[str, Any]:
    """Facts of a file as it was understood: plain numbers, texts and lists.

    Args:
        parameters: by which it was read.
        sheet: its spectra.
        axis: the wavelengths that are kept.
        masked: those left out because a value is missing or a detector was stuck.
    """
    understood = sheet.understood
    return {
        "source": parameters.source,
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
        "options": _options(parameters),
    }


def in_lines(found: dict[str, Any], facts: dict[str, str]) -> list[str]:
    """Lines of `facts_of_file`, of further facts, and of the layouts."""
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


def noise_in_words(noise: float, of_replicates: float | None) -> str:
    """Noise from neighbours and from replicates, if there are some."""
    known = "no replicates" if of_replicates is None else f"{of_replicates:.3g} from replicates"
    return f"{noise:.3g} from neighbours, {known}"


def one_line_spectra(spectra: Float[np.ndarray, "level wavelength"]) -> list[str]:
    """Each spectrum as a line of bars, means of equal parts of the axis, all on one scale."""
    parts = np.array_split(spectra, min(WIDEST_LINE, spectra.shape[1]), axis=1)
    means = np.stack([part.mean(axis=1) for part in parts], axis=1)
    low, span = means.min(), np.ptp(means)
    heights = np.zeros_like(means) if span == 0 else (means - low) / span
    bars = np.minimum((heights * len(BARS)).astype(int), len(BARS) - 1)
    return ["".join(BARS[bar] for bar in line) for line in bars]


def _options(parameters: SpectraParameters) -> str:
    """Words of a command line that reads the file in this way."""
    window, name = parameters.window, parameters.source
    words = [] if window is None else ["--window", repr(window[0]), repr(window[1])]
    words += [word for key, value in _choices_made(parameters) for word in (f"--{key}", value)]
    return shlex.join([f"./{name}" if name.startswith("-") else name, *words])


def _choices_made(parameters: SpectraParameters) -> list[tuple[str, str]]:
    """Choices that were made, by the name of their parameter."""
    given = [(one.name, getattr(parameters, one.name)) for one in fields(Choices)]
    return [(key, value) for key, value in given if value not in (None, "ask")]


def _quoted(text: str) -> str:
    """A string as YAML writes it."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)
