"""Inspection of a file of spectra: content, quality, and the parameters that read it."""

import json
import re
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from geonode.spectra.reading import UNCHOSEN, Choices, Missing, Window, sheet_and_series
from geonode.spectra.sense import doubts
from geonode.spectra.sheet import Sheet, shortest
from geonode.spectra.table import SpectraTable

BARS = "▁▂▃▄▅▆▇█"
WIDEST_LINE = 48
"""Characters of a spectrum drawn in one line."""

DECADES = 2
"""That levels without a zero must span, more than, for a logarithmic chart to be proposed."""

_SIGNAL = re.compile(r"(?P<name>.+?)[\s_]*[(\[/]\s*(?P<unit>[^()\[\]]+?)\s*[)\]]?")


@dataclass(frozen=True)
class Inspection:
    """A file as it was understood.

    Attributes:
        source: the file.
        format: how it was understood, in words.
        levels: ascending.
        scans: of every level.
        concentration_unit: as the file names it; None if it does not.
        axis_name, axis_unit: of the spectral axis; unit "1" if unknown.
        axis_range: its ends.
        axis_step: median distance of neighbours.
        wavelengths: how many are kept.
        masked: those that were left out because a value was missing.
        replicate_noise: as `SpectraTable.replicate_noise`; None without replicates.
        noise: as `noise_along_the_axis`.
        non_monotonic_share: as `SpectraTable.non_monotonic_share`.
        lines: mean spectrum of every level in one line, all on one scale.
        proposal: block `spectra` of a parameter file.
        doubts: what a reader should know, and what is possible and hardly meant (`sense.doubts`).
        encoding: of text; None for other formats.
        header_rows: rows of names and units above the table.
        skipped: what was left out, such as "rows 1 to 12 (above the table)".
        options: the words of a command line that reads the file in this way.
    """

    source: str
    format: str
    levels: list[float]
    scans: list[int]
    concentration_unit: str | None
    axis_name: str
    axis_unit: str
    axis_range: tuple[float, float]
    axis_step: float
    wavelengths: int
    masked: list[float]
    replicate_noise: float | None
    noise: float
    non_monotonic_share: float
    lines: list[str]
    proposal: str
    doubts: list[str]
    encoding: str | None
    header_rows: list[int]
    skipped: list[str]
    options: str

    def text(self) -> str:
        """For people."""
        low, high = self.axis_range
        replicates = self.replicate_noise
        axis = self.axis_name + ("" if self.axis_unit == "1" else f" ({self.axis_unit})")
        facts = {
            "file": self.source,
            "format": self.format,
            "encoding": self.encoding,
            "header": ", ".join(f"row {row}" for row in self.header_rows),
            "left out": "; ".join(self.skipped) or "nothing",
            "axis": f"{axis}: {self.wavelengths} values, {low:g} to {high:g}, "
            f"step {self.axis_step:g}",
            "masked": ", ".join(f"{value:g}" for value in self.masked) or "none",
            "levels": f"{len(self.levels)}, unit {self.concentration_unit or 'not in the file'}",
            "noise": f"{self.noise:.3g} from neighbours, "
            + ("no replicates" if replicates is None else f"{replicates:.3g} from replicates"),
            "not monotonic": f"{self.non_monotonic_share:.0%} of the wavelengths",
        }
        width = max(map(len, facts))
        head = [
            f"{name:<{width}}  {' '.join(fact.split())}" for name, fact in facts.items() if fact
        ]
        names = [shortest(level) for level in self.levels]
        widest = max(map(len, names))
        spectra = [
            f"{name:>{widest}}  {line}  {scans} scan{'s' if scans > 1 else ''}"
            for name, line, scans in zip(names, self.lines, self.scans, strict=True)
        ]
        doubts = [f"doubt: {line}" for line in self.doubts]
        command = f"as options: geonode inspect {self.options}"
        return "\n".join([*head, "", *spectra, "", *doubts, self.proposal.rstrip(), "", command])

    def to_json(self) -> dict[str, Any]:
        """Mapping of plain numbers, texts and lists."""
        return asdict(self) | {"axis_range": list(self.axis_range)}


def inspect_file(
    path: Path,
    *,
    window: Window = None,
    missing: Missing = "mask",
    choices: Choices = UNCHOSEN,
) -> Inspection:
    """Look at a file of a series.

    Args:
        path: of any known format.
        window: part of the axis to look at, ends included (axis unit).
        missing: whether missing values are an error, or their wavelengths are left out and named.
        choices: what the file leaves open.

    Raises:
        SpectraError: as `read_table`.
    """
    sheet, table = sheet_and_series(path, window, missing, choices)
    axis = table.axis
    return Inspection(
        source=str(path),
        format=sheet.understood.format,
        levels=table.concentrations.tolist(),
        scans=[len(scans) for scans in table.scans],
        concentration_unit=table.concentration_unit,
        axis_name=table.axis_name,
        axis_unit=table.axis_unit,
        axis_range=(float(axis[0]), float(axis[-1])),
        axis_step=float(np.median(np.diff(axis))),
        wavelengths=len(axis),
        masked=table.masked.tolist(),
        replicate_noise=table.replicate_noise(),
        noise=noise_along_the_axis(axis, np.concatenate(table.scans)),
        non_monotonic_share=table.non_monotonic_share(),
        lines=one_line_spectra(table.spectra),
        proposal=_proposal(path, sheet, table, window, choices),
        doubts=[*sheet.understood.notes, *doubts(sheet, table)],
        encoding=sheet.understood.encoding,
        header_rows=list(sheet.understood.header_rows),
        skipped=list(sheet.understood.skipped),
        options=_options(path, window, choices),
    )


def noise_along_the_axis(
    axis: Float[np.ndarray, "wavelength"], scans: Float[np.ndarray, "scan wavelength"]
) -> float:
    """Standard deviation of white noise, from every value about the line through its neighbours.

    On an even axis that distance is half a second difference, which a smooth spectrum hardly has.
    Pseudo-residuals: Gasser, Sroka and Jennen-Steinmetz, Biometrika 73 (1986) 625, section 2. Their
    scale is 1.4826 times the median of their sizes, which bands sharper than the step do not
    spoil: Stoehr et al., ASP Conf. Ser. 394 (2008) 505 (DER_SNR). An instrument that smooths its
    spectra has more noise than this shows.

    Args:
        axis: ascending, at least three values.
        scans: each on this axis.
    """
    left, right = np.diff(axis)[:-1], np.diff(axis)[1:]
    before, after = right / (left + right), left / (left + right)
    residuals = before * scans[:, :-2] + after * scans[:, 2:] - scans[:, 1:-1]
    scaled = residuals / np.sqrt(before**2 + after**2 + 1)
    return float(1.4826 * np.median(np.abs(scaled)))


def one_line_spectra(spectra: Float[np.ndarray, "level wavelength"]) -> list[str]:
    """Every spectrum as a line of bars, means of equal parts of the axis, all on one scale."""
    parts = np.array_split(spectra, min(WIDEST_LINE, spectra.shape[1]), axis=1)
    means = np.stack([part.mean(axis=1) for part in parts], axis=1)
    low, span = means.min(), np.ptp(means)
    heights = np.zeros_like(means) if span == 0 else (means - low) / span
    bars = np.minimum((heights * len(BARS)).astype(int), len(BARS) - 1)
    return ["".join(BARS[bar] for bar in line) for line in bars]


def proposes_log(levels: Float[np.ndarray, "level"]) -> bool:
    """Whether levels, ascending, span enough decades above zero for a logarithmic chart."""
    return bool(levels[0] > 0 and levels[-1] > levels[0] * 10**DECADES)


def _options(path: Path, window: Window, choices: Choices) -> str:
    """Words of a command line."""
    words = [str(path)]
    words += [] if window is None else ["--window", repr(window[0]), repr(window[1])]
    words += [word for key, value in _chosen(choices) for word in (f"--{key}", value)]
    return shlex.join(words)


def _chosen(choices: Choices) -> list[tuple[str, str]]:
    """Choices that were made, by the name of their parameter."""
    made = asdict(choices)
    return [(key, str(made[key])) for key in made if made[key] != getattr(UNCHOSEN, key)]


def _proposal(
    path: Path, sheet: Sheet, table: SpectraTable, window: Window, choices: Choices
) -> str:
    """Block `spectra` of a parameter file, with what it was concluded from as comments."""
    levels, unit = table.concentrations, table.concentration_unit
    match = _SIGNAL.fullmatch(sheet.signal or "")
    quantity, signal_unit = (match["name"], match["unit"]) if match else (sheet.signal, None)
    log = proposes_log(levels)
    span = f"{levels[0]:g} to {levels[-1]:g}"
    low, high = sheet.axis.min(), sheet.axis.max()
    masked = len(table.masked)
    limits = "null" if window is None else f"[{window[0]!r}, {window[1]!r}]"
    not_named = "the file does not say: put it in"
    values = {
        "source": (_quoted(str(path)), sheet.understood.format),
        **{key: (_quoted(value), "as it was asked for") for key, value in _chosen(choices)},
        "quantity": (
            _quoted((quantity or "").lower() or "signal"),
            "from the file" if quantity else not_named,
        ),
        "unit": (_quoted(signal_unit or "1"), "from the file" if signal_unit else not_named),
        "concentration_unit": (_quoted(unit or "unknown"), "from the file" if unit else not_named),
        "chart": (
            "log" if log else "linear",
            f"levels {span}; the pipeline finds a chart by evidence anyway",
        ),
        "kappa": ("null", "of the asinh chart alone"),
        "window": (limits, f"the axis runs from {low:.10g} to {high:.10g}"),
        "missing": (
            "mask" if masked else "refuse",
            f"{masked} wavelengths with missing values" if masked else "no value is missing",
        ),
    }
    width = max(len(f"{key}: {value}") for key, (value, _) in values.items())
    lines = [
        f"  {f'{key}: {value}':<{width}}  # {_printable(said)}"
        for key, (value, said) in values.items()
    ]
    return "\n".join(["spectra:", *lines]) + "\n"


def _quoted(text: str) -> str:
    """A string as YAML writes it."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)


def _printable(text: str) -> str:
    """A remark in one line, of characters that YAML allows."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
