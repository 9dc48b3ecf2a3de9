from typer.testing import CliRunner

from stages.report import app
from tests.stages.conftest import ROOT


def test_the_stage_writes_the_page_and_the_figure_of_the_left_out_levels(run, monkeypatch):
    monkeypatch.chdir(run.folder)
    result = CliRunner().invoke(app, ["--params", str(ROOT / "params.yaml")])
    assert result.exit_code == 0, result.output
    assert "synthetic.csv" in (run.folder / "metrics/report.html").read_text(encoding="utf-8")
    figure = (run.folder / "metrics/plots/folds.png").read_bytes()
    assert figure.startswith(b"\x89PNG")
