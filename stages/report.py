"""Write the report: one page of measurements, predictions and missing values."""

from pathlib import Path

from geonode.config import Parameters
from stages.command import progress, stage
from stages.paths import CHRISTOFFEL, DEVICE, GEODESICS, METRICS, PLOTS, SPECTRA


@stage()
def app(parameters: Parameters) -> str:
    """Write one self-contained page of figures and scores, and draw the left-out levels."""
    from geonode.report.data import Report
    from geonode.report.figures import folds_panels
    from geonode.report.kit import library
    from geonode.report.sections import report_page
    from geonode.storage.document import write_text
    from geonode.storage.lineage import consistent_artifacts

    source = Path(parameters.spectra.source).name
    with consistent_artifacts(SPECTRA, CHRISTOFFEL, GEODESICS):
        found = Report.read(source, DEVICE, SPECTRA, CHRISTOFFEL, GEODESICS, METRICS)
    path = METRICS / "report.html"
    with progress("drawing", 2) as report:
        text = report_page(found).html()
        write_text(path, text)
        write_text(METRICS / "vega.js", library())  # for `dvc plots show` without a network
        report(1)
        folds_panels(found).save_png(PLOTS / "folds.png")
        report(1)
    return f"{len(text.encode()) / 1e6:.1f} MB -> {path}"


if __name__ == "__main__":
    app()
