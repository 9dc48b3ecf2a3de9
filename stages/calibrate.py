"""Calibrate with the measured series, to estimate unknown spectra by it."""

from dataclasses import replace

from geonode.config import Parameters, SpectraParameters
from stages.command import progress, stage
from stages.paths import CALIBRATION, SPECTRA


@stage("calibrate")
def app(parameters: Parameters) -> str:
    """Calibrate as `geonode calibrate` does, and write the file that `geonode estimate` takes."""
    from geonode.calibration.calibration_file import CalibrationFile, model_of
    from geonode.calibration.provenance import about_series, unchanged
    from geonode.calibration.saved import save_calibration
    from geonode.spectra.series import read_series

    with unchanged(SPECTRA) as files:
        series = read_series(SPECTRA)
    how = parameters.calibrate
    with progress("calibrating", model_of(series).steps(series)) as report:
        found = CalibrationFile.of(SPECTRA.name, series, how, report)
    about = about_series(SpectraParameters(source=str(SPECTRA)), how, files)
    save_calibration(CALIBRATION, replace(found, about=about))
    return f"{found.model.counted} calibrated, unknowns by {found.method} -> {CALIBRATION}"


if __name__ == "__main__":
    app()
