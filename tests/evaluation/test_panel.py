from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from geonode.compute.device import resolve
from geonode.evaluation.baselines import BASELINES
from geonode.evaluation.evaluate import CHOSEN_BASELINE, GEONODE, by_baselines
from geonode.evaluation.panel import Panel
from geonode.parameters_file import read_parameters

ROOT = Path(__file__).parents[2]
KINDS = ("cpu", "cuda", "mps")

TINY = {
    "device": "cpu",
    "inner.members": 1,
    "metric.members": 1,
    "metric.epochs": 3,
    "metric.wavelengths": 5,
    "decoders.members": 1,
    "decoders.epochs": 3,
    "decoders.wavelengths": 5,
}


def tiny(**changes):
    """Parameters of the project, cut down to seconds; dots in keys are double underscores."""
    given = {key.replace("__", "."): value for key, value in changes.items()}
    return read_parameters(ROOT / "params.yaml", TINY | given)


def write_series(file, levels=5, scale=1.0):
    """A wide CSV of smooth spectra at nine wavelengths that are not monotonic in concentration."""
    wavelengths, concentrations = np.linspace(400, 700, 9), np.linspace(1, 40, levels)
    spectra = scale * (0.3 + 0.1 * np.cos(concentrations[:, None] / 20 + wavelengths / 300))
    rows = [["wavelength_nm", *concentrations], *np.column_stack([wavelengths, *spectra])]
    text = "\n".join(",".join(map(str, row)) for row in rows)
    file.write_text(f"{text}\n", encoding="utf-8")


@pytest.fixture
def folder(tmp_path):
    """Two good series."""
    path = tmp_path / "series"
    path.mkdir()
    write_series(path / "a.csv", levels=4)
    write_series(path / "b.csv")
    return path


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """Two good series among others, with all scores but without any training; and the order."""
    path, reported = tmp_path_factory.mktemp("series"), []
    for name, levels, scale in (("a", 4, 1), ("b", 5, 1), ("few", 3, 1), ("flat", 4, 0)):
        write_series(path / f"{name}.csv", levels=levels, scale=scale)
    write_series(path / "=few, a formula.csv", levels=3)
    (path / "text.csv").write_text("no table\n", encoding="utf-8")
    (path / "folder.csv").mkdir()
    found = Panel.of(path, tiny(preset="fast"))
    order = [name for name in found.score(reported.append) if name in ("a", "b")]
    assert sum(reported) <= sum(found.steps(name) for name in found.series)
    return found, order


def test_every_method_is_scored_on_every_series(scored):
    found, order = scored
    assert order == ["b", "a"]  # those with most work first
    table = found.table[found.table.error.isna()].set_index(["series", "method"])
    methods = [*BASELINES, "pls", "pcr", "single_wavelength", GEONODE]
    assert set(table.loc["a"].index) == set(methods)  # too few to choose a baseline
    assert set(table.loc["b"].index) == {*methods, CHOSEN_BASELINE}
    assert (table.levels == [4] * len(methods) + [5] * (len(methods) + 1)).all()
    expected = by_baselines(found.series["b"])
    for name in BASELINES:
        assert table.rmse["b", name] == expected[name].scores["rmse"]
    ours = table.loc["b", GEONODE]
    assert ours[["coverage90", "concentration_error", "q2"]].notna().all()
    assert pd.isna(table.concentration_error["b", "linear"])


def test_a_series_that_cannot_be_scored_stops_no_other(scored):
    found, _ = scored
    assert set(found.failed) == {"=few, a formula", "few", "text", "folder", "flat"}
    assert "found 3 concentrations" in found.failed["few"]
    assert "found spectra that are zero" in found.failed["flat"]
    table = found.table
    assert set(table.series[table.error.isna()]) == {"a", "b"}
    assert table.series.value_counts()["flat"] == 1
    assert list(found.overview().index) == sorted({"a", "b", *found.failed})


def test_the_file_holds_the_table(scored, tmp_path):
    found, _ = scored
    found.write(tmp_path / "new/out.csv")
    read = pd.read_csv(tmp_path / "new/out.csv")
    assert read.series[0] == "'=few, a formula"  # so that no spreadsheet computes it
    read.loc[0, "series"] = "=few, a formula"
    pd.testing.assert_frame_equal(read, found.table, check_dtype=False, rtol=1e-15)


def test_posteriors_of_a_shape_together_are_those_of_each_series(folder, scored, monkeypatch):
    write_series(folder / "flat.csv", levels=4, scale=0.0)  # of the shape of a
    monkeypatch.setattr(Panel, "batched", True)  # as on a GPU
    together = Panel.of(folder, tiny(preset="fast"))
    list(together.score())
    assert together.failed.keys() == {"flat"}
    tables = (
        one.table[one.table.error.isna()]
        .drop(columns="seconds")
        .sort_values(["series", "method"], ignore_index=True)
        for one in (together, scored[0])
    )
    pd.testing.assert_frame_equal(*tables, rtol=1e-9)


def test_a_series_has_the_parameters_beside_its_file(folder):
    (folder / "b.yaml").write_text("{chart: log, window: [450, 650]}\n", encoding="utf-8")
    series = Panel.of(folder, tiny()).series
    assert series["a"].chart.kappa == np.inf
    assert series["b"].chart.kappa == 0
    np.testing.assert_array_equal(series["b"].axis, [475, 512.5, 550, 587.5, 625])
    assert len(series["a"].axis) == 9


# for people


def row(series, method, rmse=None, **others):
    return {"series": series, "method": method, "rmse": rmse} | others


ROWS = {
    "worse": [row("worse", GEONODE, 4.0, levels=12), row("worse", "linear", 2.0)],
    "b": [
        row("b", GEONODE, 0.5, pooled_r2=0.98765),
        row("b", "mean", 5.0),
        row("b", "low_rank_pchip", 4.0),
        row("b", CHOSEN_BASELINE, 2.0),
        row("b", "pls", concentration_error=0.25),
    ],
    "none": [{"series": "none", "error": "too few"}],
    "perfect baseline": [
        row("perfect baseline", GEONODE, 1.0),
        row("perfect baseline", "mean", 0.0),
    ],
}


def panel_of(rows):
    return Panel(tiny(), resolve("cpu", tiny().precision), rows=rows)


def test_the_mean_ratio_is_geometric_and_of_those_that_have_one():
    words = "geometric mean of RMSE / RMSE of the best baseline: "
    assert panel_of(ROWS).text().splitlines()[-1] == f"{words}0.5"  # of 2 and 1/8
    for rows in ({"none": ROWS["none"]}, {}):
        assert panel_of(rows).text().splitlines()[-1] == f"{words}-"


def test_the_overview_is_sorted_and_shows_four_digits():
    _, *lines, _ = [line.split() for line in panel_of(ROWS).text().splitlines()]
    assert [line[0] for line in lines] == ["b", "none", "perfect", "worse"]
    assert " ".join(lines[0]) == "b - - 0.9877 - 0.5 low_rank_pchip 4 0.125 0.75 - - 0.25"
    assert set(lines[1]) == {"none", "-"}
    assert lines[2][6:10] == ["1", "mean", "0", "-"]
