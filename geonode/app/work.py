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
from geonode.calibration.provenance import unchanged
from geonode.calibration.results import write_results
from geonode.calibration.routine import Routine
from geonode.calibration.saved import load_calibration
from geonode.calibration.verdict import NAMES
from geonode.commands.common import misfits_said, options_said
from geonode.commands.job import calibrated_to_folder, estimated, inspected
from geonode.commands.spectra_file import block_of, spectra_parameters
from geonode.config import SpectraParameters
from geonode.errors import GeonodeError
from geonode.progress import Progress
from geonode.reading.files import Choices
from geonode.reading.formats.excel import filled_sheets
from geonode.report.calibration_files import SAVED_CALIBRATION
from geonode.report.calibration_page import result_parts
from geonode.report.page import Part, Statement
from geonode.terminal import line_of

_LOGGER = logging.getLogger("geonode")

DERIVATIVE_STEP = "{savgol: {window: 11, degree: 2, derivative: 1}}"
OF_SERIES = {key: list[str]() for key in ("sheet", "target", "concentration_unit")}
OF_SERIES |= {"replicates": ["marks", "levels"], "missing": ["mask"]}
OF_SERIES["preprocess"] = [f"[{steps}]" for steps in ("snv", DERIVATIVE_STEP, "asls", "asls, snv")]
NUMBERS = ("level", "precision", "window_from", "window_to")
FILES = ("spectra", "concentrations", "standards", "validation", "dilution", "history")
"""Fields of forms: options of a series, with known values of each, numbers, and files."""


@dataclass(eq=False)
class Dropped:
    """A series, a saved calibration, or unknowns, and what is made of it."""

    number: int
    folder: Path  # of its files alone
    by: Path | None  # the calibration file that estimates unknowns
    ended: Event  # whether its work is to stop
    chosen: dict[str, str] = field(default_factory=lambda: defaultdict(str))
    files: dict[str, list[Path]] = field(default_factory=lambda: {name: [] for name in FILES})
    lists: dict[str, list[str]] = field(default_factory=lambda: OF_SERIES | {"method": [*NAMES]})
    """Texts and files of its forms, and values that are offered, by field."""
    understood: str = ""  # the inspection of a series
    refused: str = ""  # why something was not done, in one line
    doubts: list[str] = field(default_factory=list)  # on the files, as they are logged
    state: str = ""  # name of the work that is under way, or waits
    done: tuple[int, int] = 0, 0  # units of this work, and all
    parts: list[Part] = field(default_factory=list)  # of its result, as on other pages
    calibration: Path | None = None  # what unknowns can be estimated by
    is_usable: bool = True  # by the verdict of the calibration
    results: dict[str, Path] = field(default_factory=dict)  # files to download, by name

    @property
    def title(self) -> str:
        """Names of its first files."""
        return ", ".join([path.name for paths in self.files.values() for path in paths][:3])

    @property
    def is_series(self) -> bool:
        """True where it can be calibrated with."""
        saved = any(path.suffix == Path(SAVED_CALIBRATION).suffix for path in self.files["spectra"])
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
        self.refused, self.parts, self.calibration, self.results = "", [], None, {}
        _LOGGER.addHandler(doubts := BufferingHandler(10_000))
        try:
            if not self.files["spectra"]:
                raise GeonodeError("found no file of spectra, expected one or more")
            work()
        except Exception as error:
            if (line := line_of(error)) is None:
                traceback.print_exc()
            fault = f"found a fault of geonode, which the terminal describes: {error!r}"
            self.refused = options_said(line or fault)
        finally:
            _LOGGER.removeHandler(doubts)
            texts = [self.understood, self.refused, *(log.getMessage() for log in doubts.buffer)]
            texts = [text.replace(f"{self.folder}{os.sep}", "") for text in texts]
            self.understood, self.refused, *self.doubts = texts
            self.state = ""

    def inspect(self) -> None:
        """Look at a series as the form chooses, or at a saved calibration."""
        self.understood, first = "", self.files["spectra"][0]
        if not self.is_series:
            return self._keep(load_calibration(first), None, first)
        self.lists["sheet"] = filled_sheets(first) if first.suffix.lower() == ".xlsx" else []
        inspection = inspected(self._parameters())
        self.lists["target"] = inspection.to_json().get("substances", self.lists["target"])
        self.understood = inspection.text()

    def calibrate(self) -> None:
        """Calibrate with a series."""
        folder, user = self.folder / "calibration", self.chosen["user"] or None
        how = block_of("calibrate", **self._given("method", "level", "precision")).calibrate
        read = self._parameters()
        file = calibrated_to_folder(read, how, folder, user=user, overwrite=True, shown=self.shown)
        self._keep(file, folder, folder / SAVED_CALIBRATION)

    def estimate(self) -> None:
        """Estimate unknowns by a calibration file."""
        assert self.by
        with unchanged(self.by) as read:
            file = load_calibration(self.by)
        if not (file.model.is_usable or self.chosen["accept"]):
            raise GeonodeError(f"{file.model.sentence} Accept it to estimate in spite of this.")
        level = {"level": file.model.level} | self._given("level")
        file = file.at(block_of("calibrate", **level).calibrate.level)
        given, folder = defaultdict(lambda: None, self._given(*FILES)), self.folder / "estimates"
        controls = [*filter(None, map(str.strip, self.chosen["controls"].splitlines()))]
        if given["history"] and not controls:
            raise GeonodeError("found a table of controls, expected controls of today too")
        choices = Choices(**self._given("sheet", "target", "concentrations"))
        checks = controls, given["validation"], given["standards"], choices, None
        dilution, align = given["dilution"] and str(given["dilution"]), bool(self.chosen["align"])
        routine = Routine.read(file.series, self.files["spectra"], *checks, dilution, align=align)
        folder.mkdir(exist_ok=True)
        history = folder / "history.csv" if controls else None
        if given["history"]:
            shutil.copyfile(given["history"], folder / "history.csv")
        by, user = (self.by.name, read[self.by]), self.chosen["user"] or None
        file = estimated(file, by, routine, user, self.shown, history)
        for name in ("estimates.xlsx", "estimates.csv"):
            write_results(file, folder / name)
        self._keep(file, folder, None)

    def _given(self, *names: str) -> dict[str, Any]:
        """Texts and first files of its forms by name, numbers where they are; no empty ones."""
        given: dict[str, Any] = {name: self.chosen[name] for name in names if self.chosen[name]}
        for name in given.keys() & {*NUMBERS}:
            with suppress(ValueError):  # what is no number is refused as it is
                given[name] = float(given[name])
        return given | {name: self.files[name][0] for name in names if self.files.get(name)}

    def _parameters(self) -> SpectraParameters:
        spectra, options = self.files["spectra"], self._given(*OF_SERIES, "concentrations")
        if window := self._given("window_from", "window_to"):
            options["window"] = [*window.values()]  # one end alone is refused
        return spectra_parameters(spectra[0].parent if spectra[1:] else spectra[0], **options)

    def _keep(self, file: CalibrationFile[Any], folder: Path | None, by: Path | None) -> None:
        """Keep results, those of a folder, and a calibration that can estimate unknowns."""
        self.calibration, self.is_usable = by, file.model.is_usable
        total = sum(len(estimates) for _, estimates in file.unknowns)
        misfits = [Statement(misfits_said(file.misfits, total), False)] if file.misfits else []
        verdict = Statement(file.model.sentence, file.model.is_sound)
        self.parts = [*result_parts(file), [*misfits, verdict]]
        made = sorted(folder.glob("[!.]*")) if folder else []
        self.results = {path.name: path for path in made}


class Desk:
    """All items of a run, and the one thread that reads and computes: nothing competes with it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.items, self.ended = folder, dict[int, Dropped](), Event()
        self._thread = ThreadPoolExecutor(1)

    def add(self, by: Path | None) -> Dropped:
        """A new item, of unknowns if a calibration is given."""
        number = len(self.items) + 1
        self.items[number] = Dropped(number, self.folder / str(number), by, self.ended)
        return self.items[number]

    def start(self, item: Dropped, work: Callable[[], None]) -> None:
        """Let the thread do work of an item."""
        item.state = "waiting"
        self._thread.submit(item.run, work)

    def end(self) -> None:
        """End all work, that under way at its next step."""
        self.ended.set()
        self._thread.shutdown(cancel_futures=True)
