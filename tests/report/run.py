"""A run that needs no training: artifacts and metrics whose every number has a closed form."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from geonode.config import SpectraParameters
from geonode.report.data import Report
from geonode.report.sections import report_page
from geonode.spectra.chart import Chart
from geonode.spectra.series import level_names, read_series, write_series
from geonode.spectra.table import SpectraTable
from geonode.storage.lineage import read_seal

HOSTILE = "</script><script>hacked=1</script><img src=x onerror=hacked=1>\"'&amp;"
SLOPE = 0.8  # a of ln sqrt(g) = a x + b, so G = a
NOT_MEASURED = (
    *("r2", "mape", "pearson", "spectral_angle", "cosine"),
    *("peak_position_error", "fwhm_error"),
)
ESTIMATE = {
    "mode": 12.5,
    "mean": 13.5,
    "error": 2.5,
    "set90": [[1.5, 8.5], [12.5, 18.0]],
    "disconnected": True,
    "p_value": 0.25,
}
ESTIMATION = {"median_absolute_error": 2.5, "mean_absolute_error": 3.5, "coverage90": 0.75}
SCORES = ("rmse", "mae", "max_error", "area_error", "derivative_rmse", *NOT_MEASURED)


@dataclass
class Run:
    """What to write."""

    folder: Path
    levels: tuple[float, ...] = (0.0, 10.0, 20.0, 40.0)
    wavelengths: int = 11
    chart: str = "linear"
    kappa: float | None = None
    unit: str = "1"
    quantity: str = "absorbance"
    level_unit: str = "ppb"
    axis_name: str = "wavelength"
    axis_unit: str = "nm"
    source: str = "mine.csv"
    band: str = "90% interval"
    times: int = 5
    members: int = 2
    replicates: int = 2

    @property
    def names(self):
        return level_names(np.array(self.levels))

    @property
    def artifacts(self):
        """Spectra, grids and geodesics."""
        names = ("spectra", "christoffel", "geodesics")
        return [self.folder / "data" / f"{name}.zarr" for name in names]

    def write(self):
        self.signal = np.outer(np.arange(1.0, len(self.levels) + 1), self.axis / 100)
        self._write_spectra()
        self._write_grids()
        self._write_geodesics()
        self._write_tables()
        for name, content in self._metrics().items():
            self.metric_file(name).write_text(json.dumps(content), encoding="utf-8")
        return self

    def report(self):
        return Report.read(self.source, self.folder / "data", self.folder / "metrics")

    def page(self):
        return report_page(self.report()).html()

    def metric_file(self, name):
        return self.folder / ("data" if name == "device" else "metrics") / f"{name}.json"

    def plot_file(self, name):
        return self.folder / "metrics" / "plots" / f"{name}.csv"

    def change(self, name, **content):
        """Replace keys of one metrics file."""
        found = json.loads(self.metric_file(name).read_text(encoding="utf-8"))
        self.metric_file(name).write_text(json.dumps(found | content), encoding="utf-8")

    @property
    def axis(self):
        return np.linspace(400.0, 500.0, self.wavelengths)

    def _write_spectra(self):
        scans = [np.stack([row] * self.replicates) for row in self.signal]
        if self.replicates > 1:
            scans = [found + 0.01 * np.array([[-1.0], [1.0]]) for found in scans]
        levels = np.array(self.levels)
        table = SpectraTable(
            self.axis, self.axis_name, self.axis_unit, levels, scans, np.array([]), None
        )
        parameters = SpectraParameters(
            source=self.source,
            quantity=self.quantity,
            unit=self.unit,
            concentration_unit=self.level_unit,
            chart=self.chart,
            kappa=self.kappa,
        )
        chart = Chart.of(self.chart, self.kappa, levels)
        write_series(self.artifacts[0], table, chart, parameters)
        self.series = read_series(self.artifacts[0])

    def _made_from(self, count):
        return {path.name: read_seal(path).checksum for path in self.artifacts[:count]}

    def _write_grids(self):
        """Member m has ln sqrt(g) = a x + m."""
        nodes = np.linspace(-1.0, 1.0, 33)
        shape = (self.members, 1, len(nodes), self.wavelengths)
        member = np.arange(self.members)[:, None, None, None]
        grids = {
            "ln_sqrt_g": np.broadcast_to(SLOPE * nodes[:, None] + member, shape),
            "christoffel": np.full(shape, SLOPE),
        }
        attributes = {"made_from": self._made_from(1)}
        with self.series.artifact_writer(self.artifacts[1], attributes) as writer:
            writer.coordinate("position", nodes, units="1", long_name="charted", dims=("node",))
            dims = ("member", "fold", "node", "wavelength")
            for name, values in grids.items():
                writer.stored(name, dims, values.astype("float32"), units="1", long_name=name)

    def _write_geodesics(self):
        """In the metric above exp(a x) is linear in t."""
        count = len(self.levels)
        pairs = [(i, j) for i in range(count) for j in range(count) if i != j]
        source, target = np.array(pairs).T
        ends = np.exp(SLOPE * self.series.positions)
        times = np.linspace(0.0, 1.0, self.times)
        paths = np.log(ends[source, None] + times * (ends[target] - ends[source])[:, None]) / SLOPE
        shape = (self.members, len(pairs), self.wavelengths)
        attributes = {"members": self.members, "made_from": self._made_from(2)}
        with self.series.artifact_writer(self.artifacts[2], attributes) as writer:
            levels = np.array(self.levels)
            for name, index in (("source", source), ("target", target)):
                writer.coordinate(name, levels[index], units="1", long_name=name, dims=("pair",))
            if self.times:
                writer.coordinate("time", times, units="1", long_name="t")
                one = np.repeat(paths[:, None], self.wavelengths, axis=1).astype("float32")
                values = np.broadcast_to(one, (*shape, self.times))
                dims = ("member", "pair", "wavelength", "time")
                writer.stored("trajectory", dims, values, units="1", long_name="trajectory")

    def _write_tables(self):
        plots = self.folder / "metrics" / "plots"
        plots.mkdir(parents=True)
        table = {
            "level": np.repeat(self.names, self.wavelengths),
            "wavelength": np.tile(self.axis, len(self.levels)),
            "measured": self.signal.ravel(),
            "predicted": self.signal.ravel() + 0.25,
            self.band: 0.5,
        }
        pd.DataFrame(table).to_csv(self.plot_file("predictions"), index=False)
        # density 1 / width over the whole range; sqrt(g) = 2 / sqrt(c high), known to a half
        low, high = self.levels[0], self.levels[-1]
        points = np.linspace(low, high, 9)
        levels, at = np.repeat(self.names, len(points)), np.tile(points, len(self.names))
        density = {"level": levels, "concentration": at, "density": 1 / (high - low)}
        pd.DataFrame(density).to_csv(self.plot_file("posterior"), index=False)
        mean = 2 / np.sqrt(points[1:] * high)
        metric = {"concentration": points[1:], "sqrt_g": mean, "deviation": mean / 2}
        pd.DataFrame(metric).to_csv(self.plot_file("metric_posterior"), index=False)

    def _metrics(self):
        names = self.names
        scores = {"q2": 0.375, "pooled_r2": 0.5, "interior_pooled_r2": 0.25, "mean_r2": None}
        scores |= {"rmse": 0.25}
        better = scores | {"rmse": 0.125, "pooled_r2": 0.75}
        kappas = {f"without {name}": None for name in names} | {"all levels": self.kappa}
        if self.chart == "log":
            kappas["all levels"] = 0.0
        held = {"all": 0.8, "interior": 0.7, "ends": 1.0, "half_width": 0.5}
        validate = {
            **scores,
            "folds": {name: dict.fromkeys(SCORES, 0.25) for name in names},
            "baselines": {"nearest": scores | {"rmse": 0.75}, "natural_cubic": better},
            "best_baseline": "natural_cubic",
            "best_baseline_rmse": 0.125,
            "chosen_baseline_rmse": 0.5,
            "skill": 0.5,
            "coverage": {"90": held},
            "coverage90": 0.8,
            "estimation": ESTIMATION | {"levels": dict.fromkeys(names, ESTIMATE)},
            "calibrations": {},
            "kinds": {
                name: {"blend": 0.25, "posterior": 0.5, "path": 0.75, "weight_of_paths": 0.375}
                for name in names
            },
            "published_method": None,
        }
        counts = {"geodesics": 1000, "unconverged": 0, "checked_on_network": 64}
        noise = 0.014 if self.replicates > 1 else None
        return {
            "spectra": {"scans": 8, "replicate_noise": noise, "non_monotonic_share": 0.0},
            "metric": {"chart_kappa": kappas},
            "christoffel": {},
            "geodesics": counts,
            "decoders": {},
            "validate": validate,
            "device": dict.fromkeys(("name", "training", "geometry"), "x") | {"device": "cpu"},
        }
