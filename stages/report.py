"""Write the report: one page of measurements, predictions and missing values."""

from pathlib import Path

from geonode.config import Parameters
from stages.command import progress, stage
from stages.paths import CHRISTOFFEL, GEODESICS, METRICS, PLOTS, SPECTRA


@stage()
def app(parameters: Parameters) -> str:
    """Write one self-contained page of figures and scores, and draw the left-out levels."""
    from geonode.report.page import page
    from geonode.report.png_folds import folds_figure
    from geonode.report.png_style import save_figure
    from geonode.report.reading import read_report
    from geonode.storage.document import write_text
    from geonode.storage.lineage import consistent_artifacts

    source = Path(parameters.spectra.source).name
    with consistent_artifacts(SPECTRA, CHRISTOFFEL, GEODESICS):
        found = read_report(source, SPECTRA, CHRISTOFFEL, GEODESICS, METRICS)
    path = METRICS / "report.html"
    predictions = found.predictions
    band = (predictions.band, predictions.half_width)
    r2 = [scores["r2"] for scores in found.scores["folds"].values()]
    with progress("drawing", 2) as report:
        text = page(found)
        write_text(path, text)
        report(1)
        figure = folds_figure(found.series, predictions.predicted, band, r2)
        save_figure(figure, PLOTS / "folds.png")
        report(1)
    return f"{len(text.encode()) / 1e6:.1f} MB -> {path}"


if __name__ == "__main__":
    app()
