"""Write the report: one page of measurements, predictions and missing values."""

from pathlib import Path

from geonode.config import Parameters
from stages.command import progress, stage
from stages.paths import DATA, METRICS, PLOTS


@stage()
def app(parameters: Parameters) -> str:
    """Write one self-contained page of figures and scores, and draw the left-out levels."""
    from geonode.report.data import Report
    from geonode.report.figures import folds_panels
    from geonode.report.kit import library
    from geonode.report.sections import report_page
    from geonode.storage.document import write_text

    found = Report.read(Path(parameters.spectra.source).name, DATA, METRICS)
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
