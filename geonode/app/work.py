"""Work of the page: what was dropped, what is made of it, and the thread that computes."""

import logging
import re
import shutil
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass, field
from logging.handlers import BufferingHandler
from pathlib import Path
from threading import Event
from typing import Any, get_type_hints

from geonode.calibration.calibration_file import CalibrationFile
from geonode.calibration.results import write_results
from geonode.calibration.routine import Routine
from geonode.calibration.saved import load_calibration
from geonode.calibration.verdict import NAMES
from geonode.commands import job
from geonode.commands.common import options_said
from geonode.commands.spectra_file import calibrate
from geonode.config import SpectraParameters
from geonode.errors import GeonodeError
from geonode.progress import Progress
from geonode.reading.files import Choices
from geonode.reading.formats.excel import filled_sheets
from geonode.reading.refusals import errors_naming
from geonode.report.calibration_files import SAVED_CALIBRATION
from geonode.report.calibration_page import result_parts
from geonode.report.page import Part, Statement
from geonode.terminal import line_of

_LOGGER = logging.getLogger("geonode")

LABELS = ("quantity", "unit", "concentration_unit")
OF_SERIES = ("sheet", "target", *LABELS, "window", "replicates", "missing", "preprocess")
FILES = ("spectra", "concentrations", "standards", "validation", "dilution", "history")
"""Fields of forms: options of a series, and files."""
HINTS = get_type_hints(calibrate, include_extras=True)
HELP = {name: HINTS[name].__metadata__[0].help for name in HINTS if name != "return"}
"""What options mean, as the command says it."""
KNOWN = {"method": [*NAMES], "missing": ["mask"], "replicates": ["marks", "levels"], "target": []}
"""Values of options that are offered; those of others depend on the file."""


@dataclass(eq=False)
class Dropped:
    """A series, a saved calibration, or unknowns, and what is made of it."""

    number: int
    folder: Path  # of its files alone, where it is worked on: files are named without it
    by: Path | None  # the calibration file that estimates unknowns
    ended: Event  # whether its work is to stop
    chosen: dict[str, str] = field(default_factory=lambda: defaultdict(str))
    files: dict[str, list[Path]] = field(default_factory=lambda: {name: [] for name in FILES})
    lists: dict[str, list[str]] = field(default_factory=KNOWN.copy)
    """Texts and files of its forms, and values that are offered, by field."""
    title: str = ""  # names of its first files
    understood: str = ""  # the inspection of a series
    refused: str = ""  # why something was not done, in one line
    doubts: list[str] = field(default_factory=list)  # on the files, as they are logged
    state: str = ""  # name of the work that is under way, or waits
    done: float = 0.0  # share of it
    parts: list[Part] = field(default_factory=list)  # of its result, as on other pages
    calibration: Path | None = None  # what unknowns can be estimated by
    is_usable: bool = True  # by the verdict of the calibration
    results: dict[str, Path] = field(default_factory=dict)  # files to download, by name

    def take(self, form: Iterable[tuple[str, Any]]) -> None:
        """Keep the texts of a form, and its files under names without a path."""
        for name, value in form:
            if isinstance(value, str):
                self.chosen[name] = value.strip()
            elif value.filename and name in FILES:
                safe = re.sub(r"[^\w .,+%()-]", "_", value.filename)[-60:].strip(" .-")
                path = self.folder / name / (safe or "file")
                path.parent.mkdir(parents=True, exist_ok=True)
                while path.exists():
                    path = path.with_stem(f"{path.stem}_")
                path.write_bytes(value.file.read())
                self.files[name].append(path.relative_to(self.folder))
        self.title = ", ".join([path.name for paths in self.files.values() for path in paths][:3])

    @contextmanager
    def shown(self, label: str, total: int) -> Iterator[Progress]:
        """Context that shows progress on the page, and stops when that ends."""

        def report(units: int) -> None:
            self.done += units / total
            if self.ended.is_set():
                raise KeyboardInterrupt

        self.state, self.done = label, 0.0
        yield report

    def run(self, work: Callable[[], None]) -> None:
        """Do work in place of what was done before; an error becomes one line."""
        self.refused, self.parts, self.calibration, self.results = "", [], None, {}
        _LOGGER.addHandler(doubts := BufferingHandler(10_000))
        try:
            if not self.files["spectra"]:
                raise GeonodeError("found no file of spectra, expected one or more")
            with chdir(self.folder):
                work()
        except Exception as error:
            if (line := line_of(error)) is None:
                traceback.print_exc()
            fault = f"found a fault of geonode, which the terminal describes: {error!r}"
            self.refused = options_said(line or fault)
        finally:
            _LOGGER.removeHandler(doubts)
            self.doubts = [log.getMessage() for log in doubts.buffer]
            self.state = ""

    def inspect(self) -> None:
        """Look at a series as the form chooses, or at a saved calibration."""
        self.understood, first = "", self.files["spectra"][0]
        if first.suffix == Path(SAVED_CALIBRATION).suffix:
            return self._keep(load_calibration(first), None, self.folder / first)
        with errors_naming(first):
            self.lists["sheet"] = filled_sheets(first) if first.suffix.lower() == ".xlsx" else []
        inspection = job.inspected(self._parameters())
        self.lists["target"] = inspection.to_json().get("substances", self.lists["target"])
        self.understood = inspection.text()

    def calibrate(self) -> None:
        """Calibrate with a series."""
        read, folder = self._parameters(), Path("calibration")
        how = job.block_of("calibrate", **self._given("method", "level", "precision")).calibrate
        use = (), (), None, self.chosen["user"]
        file = job.calibrated_to_folder(read, how, folder, *use, overwrite=True, shown=self.shown)
        self._keep(file, folder, self.folder / folder / SAVED_CALIBRATION)

    def estimate(self) -> None:
        """Estimate unknowns by a calibration file."""
        assert self.by
        file, by = job.opened(self.by, self._given("level").get("level"))
        if not (file.model.is_usable or self.chosen["accept"]):
            raise GeonodeError(f"{file.model.sentence} Accept it to estimate in spite of this.")
        controls = [one for one in map(str.strip, self.chosen["controls"].splitlines()) if one]
        known = self._file("validation"), self._file("standards")
        table, before = self._file("concentrations"), self._file("history")
        if before and not controls:
            raise GeonodeError("found a table of controls, expected controls of today too")
        choices = Choices(**self._given("sheet", "target"), concentrations=table)
        dilution = str(self._file("dilution") or self.chosen["dilution"]) or None
        checks, align = (controls, *known, choices, None, dilution), bool(self.chosen["align"])
        routine = Routine.read(file.series, self.files["spectra"], *checks, align=align)
        folder = Path("estimates")
        history = folder / "history.csv" if controls else None
        if before:
            shutil.copyfile(before, folder / "history.csv")
        file = job.estimated(file, by, routine, self.chosen["user"], self.shown, history)
        for name in ("estimates.xlsx", "estimates.csv"):
            write_results(file, folder / name)
        self._keep(file, folder, None)

    def _given(self, *names: str) -> dict[str, Any]:
        """Texts of its forms by name, numbers where they are; no empty ones."""
        given: dict[str, Any] = {name: self.chosen[name] for name in names if self.chosen[name]}
        for name in given.keys() & {"level", "precision", "window"}:
            with suppress(ValueError):  # what is no number is refused as it is
                first, *others = map(float, given[name].split())
                given[name] = [first, *others] if others else first
        return given

    def _file(self, field: str) -> Path | None:
        """First file of a field of its forms."""
        return next(iter(self.files[field]), None)

    def _parameters(self) -> SpectraParameters:
        spectra, options = self.files["spectra"], self._given(*OF_SERIES)
        options["concentrations"] = self._file("concentrations")
        return job.spectra_parameters(spectra[0].parent if spectra[1:] else spectra[0], **options)

    def _keep(self, file: CalibrationFile[Any], folder: Path | None, by: Path | None) -> None:
        """Keep results, those of a folder, and a calibration that can estimate unknowns."""
        self.calibration, self.is_usable = by, file.model.is_usable
        self.parts = [*result_parts(file), [Statement(file.model.sentence, file.model.is_sound)]]
        made = sorted(folder.glob("[!.]*")) if folder else []
        self.results = {path.name: self.folder / path for path in made}


class Desk:
    """All items of a run, and the one thread that reads and computes: nothing competes with it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.items, self.ended = folder, dict[int, Dropped](), Event()
        self.thread = ThreadPoolExecutor(1)

    def add(self, by: Path | None) -> Dropped:
        """A new item, of unknowns if a calibration is given."""
        number = len(self.items) + 1
        self.items[number] = Dropped(number, self.folder / str(number), by, self.ended)
        (self.items[number].folder / "estimates").mkdir(parents=True)
        return self.items[number]

    def end(self) -> None:
        """End all work, that under way at its next step."""
        self.ended.set()
        self.thread.shutdown(cancel_futures=True)
