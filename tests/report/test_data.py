import json

import numpy as np
import pytest

from geonode.errors import ArtifactError
from tests.report.run import SLOPE, Run


@pytest.mark.parametrize(
    ("chart", "kappa", "levels"),
    [("log", None, (0.1, 1.0, 10.0, 1000.0)), ("asinh", 5.0, (0.0, 10.0, 20.0, 40.0))],
)
def test_maps_and_paths_are_means_over_members_in_concentrations(chart, kappa, levels, tmp_path):
    report = Run(tmp_path, levels, chart=chart, kappa=kappa).write().report()
    position, maps = report.series.chart.position, report.maps
    nodes = np.linspace(-1, 1, 33)
    concentrations = report.series.chart.concentration(nodes)
    expected = (concentrations[1:] + concentrations[:-1]) / 2  # cells end between their centres
    assert np.allclose(maps["low"], np.repeat([concentrations[0], *expected], 11))
    assert np.allclose(maps["high"], np.repeat([*expected, concentrations[-1]], 11))
    assert np.allclose(maps["right"][:10], maps["left"][1:11])
    # members have ln sqrt(g) = a x and a x + 1
    assert np.allclose(maps["metric"], np.repeat(np.exp(2 * SLOPE * nodes + 1), 11), rtol=1e-5)
    assert np.allclose(maps["christoffel"], SLOPE)
    paths, (low, *_, high) = report.paths, report.names
    chosen = paths[(paths["source"] == low) & (paths["target"] == high)]
    curve = chosen[chosen["line"] == chosen["line"].iloc[0]]
    assert curve["line"].iloc[0] == "410 nm"
    middle = np.log((np.exp(-SLOPE) + np.exp(SLOPE)) / 2) / SLOPE  # exp(a x) is half-way
    assert np.allclose(position(curve["concentration"].to_numpy())[[0, 2, 4]], [-1, middle, 1])
    flat = chosen[chosen["line"] == "flat metric"]["concentration"].to_numpy()
    assert np.allclose(position(flat), np.linspace(-1, 1, 5), atol=1e-6)
    assert len(paths) == 12 * 6 * 5
    assert not (paths["source"] == paths["target"]).any()


SPOILT = {
    "predictions": "level,wavelength,measured,predicted,90% interval\n0,400,1,1,1\n",
    "metric_posterior": "concentration,g,deviation\n1,1,1\n",
    "posterior": "level,concentration,density\n0,0,x\n",
}


def test_parts_of_another_run_are_refused(run):
    def refused(file, text, named=None):
        kept = file.read_text(encoding="utf-8")
        if text is None:
            file.unlink()
        else:
            file.write_text(text, encoding="utf-8")
        with pytest.raises(ArtifactError, match=named or file.name):
            run.report()
        file.write_text(kept, encoding="utf-8")

    for name, text in SPOILT.items():
        refused(run.plot_file(name), text, name)
    folds = json.loads(run.metric_file("validate").read_text(encoding="utf-8"))
    folds["folds"] = {f"{name}5": fold for name, fold in folds["folds"].items()}
    refused(run.metric_file("validate"), json.dumps(folds))
    refused(run.metric_file("validate"), "{")
    refused(run.metric_file("metric"), '{"chart_kappa": {"all levels": 1.0}}')
    refused(run.plot_file("posterior"), None, "posterior.csv: not found")
    refused(run.metric_file("device"), None, "device.json: not found")
