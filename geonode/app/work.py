"""Work of the page: what was dropped, what is made of it, and the thread that computes."""

import logging
import os
import re
import shutil
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from logging.handlers import BufferingHandler
from pathlib import Path
from threading import Event
from typing import Any

from geonode.calibration.calibration_file import CalibrationFile
from geonode.calibration.results import brief_unknowns, write_results
from geonode.calibration.routine import Routine, unchanged
from geonode.calibration.saved import load_calibration
from geonode.commands.common import misfits_said, options_said
from geonode.commands.job import calibrated_to_folder, checks_said, estimated, inspected
from geonode.commands.spectra_file import spectra_parameters
from geonode.config import CalibrateParameters, SpectraParameters
from geonode.progress import Progress
from geonode.reading.files import Choices
from geonode.reading.formats.excel import filled_sheets
from geonode.report.calibration_files import CALIBRATION
from geonode.storage.table import Table
from geonode.terminal import line_of

_LOGGER = logging.getLogger("geonode")

OPTIONS = {key: list[str]() for key in ("sheet", "target", "concentration_unit")}
OPTIONS |= {"replicates": ["marks", "levels"], "missing": ["mask"]}
FILES = ("spectra", "concentrations", "standards", "validation")
"""Fields of forms: options of a series, with what they can be if that is known, and files."""


@dataclass(eq=False)
class Item:
    """A series, a saved calibration, or unknowns, and what is made of it."""

    number: int
    folder: Path  # of its files alone
    by: Path | None  # the calibration file that estimates unknowns
    ended: Event  # whether its work is to stop
    chosen: dict[str, str] = field(default_factory=lambda: defaultdict(str))
    files: dict[str, list[Path]] = field(default_factory=lambda: {name: [] for name in FILES})
    lists: dict[str, list[str]] = field(default_factory=lambda: {**OPTIONS})
    """Texts and files of its forms, and what a text can be, by field."""
    understood: str = ""  # the inspection of a series
    refused: str = ""  # why something was not done, in one line
    doubts: list[str] = field(default_factory=list)  # on the files, as they are logged
    state: str = ""  # name of the work that is under way, or waits
    done: tuple[int, int] = 0, 0  # units of this work, and all
    statements: list[tuple[str, bool | None]] = field(default_factory=list)  # and if good
    estimates: Table | None = None
    calibration: Path | None = None  # what unknowns can be estimated by
    results: dict[str, Path] = field(default_factory=dict)  # files to download, by name

    @property
    def title(self) -> str:
        """Names of its first files."""
        return ", ".join([one.name for of_field in self.files.values() for one in of_field][:3])

    @property
    def is_series(self) -> bool:
        """Whether it can be calibrated with."""
        saved = any(one.suffix == Path(CALIBRATION).suffix for one in self.files["spectra"])
        return self.by is None and not saved

    def take(self, form: Iterable[tuple[str, Any]]) -> None:
        """Keep the texts of a form, and its files under names without a path."""
        for name, value in form:
            if isinstance(value, str):
                self.chosen[name] = value.strip()
            elif value.filename and name in FILES:
                last = re.split(r"[/\\]", value.filename)[-1]
                safe = re.sub(r"[^\w .,+%()-]", "_", last)[-60:].strip(" .-")
                path = self.folder / name / (safe or "file")
                path.parent.mkdir(parents=True, exist_ok=True)
                while path.exists():
                    path = path.with_stem(f"{path.stem}_")
                with path.open("xb") as target:
                    shutil.copyfileobj(value.file, target)
                self.files[name].append(path)

    @contextmanager
    def shown(self, label: str, total: int) -> Iterator[Progress]:
        """Context that shows progress on the page, and stops when that ends."""

        def report(units: int) -> None:
            self.done = self.done[0] + units, total
            if self.ended.is_set():
                raise KeyboardInterrupt

        self.state, self.done = label, (0, total)
        yield report

    def run(self, work: Callable[[], None]) -> None:
        """Do work in place of what was done before; an error becomes one line."""
        self.refused, self.statements, self.calibration, self.results = "", [], None, {}
        _LOGGER.addHandler(doubts := BufferingHandler(10_000))
        try:
            work()
        except Exception as error:
            if (line := line_of(error)) is None:
                traceback.print_exc()
            said = line or f"found a fault of geonode, told on the terminal: {error!r}"
            self.refused = options_said(said)
        finally:
            _LOGGER.removeHandler(doubts)
            told = self.understood, self.refused, *(one.getMessage() for one in doubts.buffer)
            texts = [text.replace(f"{self.folder}{os.sep}", "") for text in told]
            self.understood, self.refused, *self.doubts = texts
            self.state = ""

    def inspect(self) -> None:
        """Look at a series as the form chooses, or at a saved calibration."""
        self.understood, first = "", self.files["spectra"][0]
        if not self.is_series:
            self.statements = [(load_calibration(first).model.sentence, None)]
            self.calibration = first
            return
        self.lists["sheet"] = filled_sheets(first) if first.suffix.lower() == ".xlsx" else []
        found = inspected(self._parameters())
        self.lists["target"] = found.to_json().get("substances", self.lists["target"])
        self.understood = found.text()

    def calibrate(self) -> None:
        """Calibrate with a series."""
        folder, user = self.folder / "calibration", self.chosen["user"] or None
        asked = self._parameters(), CalibrateParameters(), folder
        found = calibrated_to_folder(*asked, user=user, overwrite=True, shown=self.shown)
        self.calibration = folder / CALIBRATION
        self._keep(found, folder)

    def estimate(self) -> None:
        """Estimate unknowns by a calibration file."""
        assert self.by
        with unchanged(self.by) as read:
            found = load_calibration(self.by)
        sheet, target, user = (self.chosen[name] or None for name in ("sheet", "target", "user"))
        known = (self.files[name] for name in ("validation", "standards", "concentrations"))
        validation, standards, second = (next(iter(one), None) for one in known)
        controls = [*filter(None, map(str.strip, self.chosen["controls"].splitlines()))]
        checks = controls, validation, standards, Choices(sheet, second, target=target)
        routine = Routine.read(found.series, self.files["spectra"], *checks)
        found = estimated(found, (self.by.name, read[self.by]), routine, user, self.shown)
        folder = self.folder / "estimates"
        folder.mkdir()
        for name in ("estimates.xlsx", "estimates.csv"):
            write_results(found, folder / name)
        self._keep(found, folder)

    def _parameters(self) -> SpectraParameters:
        spectra, second = self.files["spectra"], self.files["concentrations"]
        options: dict[str, Any] = {key: self.chosen[key] or None for key in OPTIONS}
        options["concentrations"] = second[0] if second else None
        window: list[Any] = [self.chosen["window_from"], self.chosen["window_to"]]
        if any(window):
            with suppress(ValueError):  # what is no number is refused as it is
                window = [*map(float, window)]
            options["window"] = window
        return spectra_parameters(spectra[0].parent if spectra[1:] else spectra[0], **options)

    def _keep(self, found: CalibrationFile[Any], folder: Path) -> None:
        self.statements = [*checks_said(found)]
        if found.misfits:
            total = sum(len(estimates) for _, estimates in found.unknowns)
            self.statements.append((misfits_said(found.misfits, total), False))
        if found.correction:
            self.statements.append((f"estimates are {found.correction.sentence(found.unit)}", None))
        self.statements.append((found.model.sentence, None))
        self.estimates = brief_unknowns(found) if found.unknowns else None
        self.results = {path.name: path for path in sorted(folder.iterdir())}


class Desk:
    """All items of a run, and the one thread that reads and computes: nothing competes with it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.items, self.ended = folder, dict[int, Item](), Event()
        self._thread = ThreadPoolExecutor(1)

    def add(self, by: Path | None) -> Item:
        """A new item, of unknowns if a calibration is given."""
        number = len(self.items) + 1
        self.items[number] = Item(number, self.folder / str(number), by, self.ended)
        return self.items[number]

    def start(self, item: Item, work: Callable[[], None]) -> None:
        """Let the thread do work of an item."""
        item.state = "waiting"
        self._thread.submit(item.run, work)

    def end(self) -> None:
        """End all work, that under way at its next step."""
        self.ended.set()
        self._thread.shutdown(cancel_futures=True)
