"""Plots of DVC: the columns that dvc.yaml names, in the templates of the project."""

import csv
import json
import re
from configparser import ConfigParser

import pytest
from dvc_render.html import render_html
from dvc_render.vega import VegaRenderer

from geonode.parameters_file import parse_yaml
from tests.stages.conftest import ROOT

DECLARED = parse_yaml((ROOT / "dvc.yaml").read_text(encoding="utf-8"))


def plots():
    """File, x, columns of y and template of every plot of a table."""
    for stage in DECLARED["stages"].values():
        for plot in stage.get("plots", ()):
            ((path, options),) = plot.items()
            if path.endswith(".csv"):
                yield path, options["x"], [options["y"]], options["template"]
    for plot in DECLARED["plots"]:
        (options,) = plot.values()
        for path, columns in options["y"].items():
            yield path, options["x"], columns, options["template"]


@pytest.mark.parametrize(("path", "x", "columns", "template"), list(plots()))
def test_a_plot_shows_columns_of_its_table_and_tells_lines_apart(path, x, columns, template):
    with (ROOT / path).open(encoding="utf-8", newline="") as file:
        rows = [row | {"rev": "workspace"} for row in csv.DictReader(file)]
    assert {x, *columns} <= rows[0].keys()
    folder = str(ROOT / ".dvc/plots")
    renderer = VegaRenderer(
        rows, path, template=template, template_dir=folder, x=x, y=columns[-1], title="title"
    )
    content = renderer.get_filled_template()
    assert "<DVC_METRIC" not in json.dumps(content)
    facet, median = content.get("facet", {}).get("field"), "median" in json.dumps(content)
    points = [(row[x], row.get(facet)) for row in rows]
    assert median or len(points) == len(set(points))  # one line through every panel


def test_predictions_are_beside_what_was_measured():
    assert ["measured", "predicted"] in [columns for _, _, columns, _ in plots()]


def test_the_page_of_plots_loads_nothing_but_what_the_report_wrote(tmp_path):
    config = ConfigParser()
    config.read(ROOT / ".dvc/config")
    template = ROOT / ".dvc" / config["plots"]["html_template"]
    rows = [{"x": 1, "y": 2, "rev": "workspace"}]
    plot = VegaRenderer(rows, "plot", template="simple", x="x", y="y")
    page = render_html([plot], tmp_path / "dvc_plots/index.html", template).read_text()
    assert "vegaEmbed('#plot'" in page
    assert re.findall(r'(?:src|href)="(.*?)"', page) == ["../metrics/vega.js"]
    assert "metrics/vega.js" in DECLARED["stages"]["report"]["outs"]
