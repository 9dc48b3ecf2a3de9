import json

import numpy as np
import pytest

from geonode.errors import ArtifactError, MissingArtifactError
from geonode.report.data import sample
from tests.report.run import SLOPE, Run


def test_everything_of_a_run_is_read(written):
    report = written.report()
    assert report.names == ["0", "10", "20", "40"]
    assert report.scans.tolist() == [2, 2, 2, 2]
    assert (report.level_unit, report.axis_unit, report.signal_unit) == ("ppb", "nm", "1")
    assert np.allclose(report.predictions.predicted - written.signal, 0.25, atol=1e-5)
    assert np.allclose(report.predictions.half_width, 0.5)
    assert report.predictions.band == "90% interval"
    assert report.metrics["summary"] == {}
    log = report.training["the decoders"]
    assert log.epochs == [[0, 5, 10]] * 5
    assert list(log.terms) == ["loss", "learning_rate"]
    expected = 1.5 * np.exp([0.0, -5.0, -10.0])  # members end in 1 and 2 times that
    assert np.allclose(log.terms["loss"], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("chart", "kappa", "levels"),
    [
        ("log", None, (0.1, 1.0, 10.0, 1000.0)),
        ("asinh", 5.0, (0.0, 10.0, 20.0, 40.0)),
    ],
)
def test_maps_and_paths_are_means_over_members_in_concentrations(chart, kappa, levels, tmp_path):
    report = Run(tmp_path, levels, chart=chart, kappa=kappa).write().report()
    maps = report.maps
    positions = report.series.chart.position(maps.concentrations)
    assert np.allclose(positions, np.linspace(-1, 1, 33), atol=1e-6)
    # members have ln sqrt(g) = a x and a x + 1
    expected = np.exp(2 * SLOPE * positions + 1)
    assert np.allclose(maps.metric, expected[:, None], rtol=1e-5)
    assert np.allclose(maps.symbol, SLOPE)
    paths = report.paths
    assert (paths.source[0], paths.target[0], len(paths.source)) == (0, 1, 12)
    assert np.allclose(paths.concentrations[:, :, 0], np.array(levels)[paths.source][:, None])
    x = report.series.chart.position(paths.concentrations[2])  # from the lowest to the highest
    middle = np.log((np.exp(-SLOPE) + np.exp(SLOPE)) / 2) / SLOPE
    assert np.allclose(x[:, 2], middle, atol=1e-6)
    assert np.allclose(report.series.chart.position(paths.flat[2]), np.linspace(-1, 1, 5))


def test_posteriors_are_read_and_tables_without_lines_are_none(run):
    report = run.report()
    assert list(report.posteriors) == ["0", "10", "20", "40"]
    assert np.allclose(report.posteriors["40"].concentrations, np.linspace(0, 40, 9))
    assert np.allclose(report.posteriors["40"].density, 1 / 40)
    metric = report.posterior_metric
    assert np.allclose(metric.concentrations, np.linspace(5, 40, 8))
    assert np.allclose(metric.mean, 2 / np.sqrt(40 * metric.concentrations), rtol=1e-5)
    assert np.allclose(metric.deviation, metric.mean / 2, rtol=1e-5)
    run.empty("posterior", "metric_posterior")
    report = run.report()
    assert (report.posteriors, report.posterior_metric) == (None, None)


def test_a_posterior_keeps_every_point_that_is_seen(run):
    density = [0.0] * 6 + [0.25, 0.5, 1e-5] + [0.0] * 7
    rows = [f"20,{place},{value}" for place, value in enumerate(density)]
    text = "\n".join(["level,concentration,density", *rows, ""])
    run.plot_file("posterior").write_text(text, encoding="utf-8")
    found = run.report().posteriors["20"]
    assert found.concentrations.tolist() == [0, 5, 6, 7, 8, 15]
    assert found.density.tolist() == [0, 0, 0.25, 0.5, 1e-5, 0]


def test_an_absent_metrics_file_is_named_but_where_it_says_nothing_of_the_series(run):
    run.metric_file("env").unlink()
    assert run.report().metrics["env"] == {}
    for name in ("spectra", "metric", "geodesics", "decoders", "validate"):
        content = run.metric_file(name).read_bytes()
        run.metric_file(name).unlink()
        with pytest.raises(MissingArtifactError, match=f"{name}.json"):
            run.report()
        run.metric_file(name).write_bytes(content)


def cut_predictions(run):
    file = run.plot_file("predictions")
    file.write_text("".join(file.read_text().splitlines(True)[:-1]), encoding="utf-8")


def other_levels(run):
    scores = json.loads(run.metric_file("validate").read_text(encoding="utf-8"))
    run.change("validate", folds={f"{name}5": fold for name, fold in scores["folds"].items()})


def other_chart(run):
    kappas = dict.fromkeys([*"abcd", "all levels"], 1.0)
    run.change("metric", chart_kappa=kappas)


def more_folds(run):
    file = run.plot_file("training")
    file.write_text(file.read_text() + "0,5,0,1.0,0.01\n", encoding="utf-8")


def other_posterior(run):
    run.plot_file("posterior").write_text("level,concentration,density\n7,1,1\n")


def other_metric(run):
    run.plot_file("metric_posterior").write_text("concentration,g,deviation\n1,1,1\n")


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (cut_predictions, "predictions.csv"),
        (other_levels, "validate.json"),
        (other_chart, "geodesics.zarr"),
        (more_folds, "training.csv"),
        (other_posterior, "posterior.csv"),
        (other_metric, "metric_posterior.csv"),
        (lambda run: run.metric_file("validate").write_text("{"), "validate.json"),
        (lambda run: run.plot_file("training").write_text("epoch,fold,loss\n0,0,x\n"), "training"),
    ],
)
def test_parts_of_another_run_are_refused(spoil, named, run):
    spoil(run)
    with pytest.raises(ArtifactError, match=named):
        run.report()


def test_a_sample_has_both_ends_and_no_more_than_asked():
    assert sample(5, 10).tolist() == [0, 1, 2, 3, 4]
    chosen = sample(1000, 7)
    assert (chosen[0], chosen[-1], len(chosen)) == (0, 999, 7)
    assert np.ptp(np.diff(chosen)) <= 1
