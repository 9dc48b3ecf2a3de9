"""The stage `calibrate`: what `geonode calibrate` does, with the series of the pipeline."""

import numpy as np
import pandas as pd

from geonode.calibration.calibration_file import CalibrationFile
from geonode.calibration.saved import load_calibration
from geonode.config import CalibrateParameters
from geonode.spectra.series import read_series
from tests.commands.calling import call
from tests.stages.conftest import assert_refused


def test_the_pipeline_writes_the_file_that_estimate_takes(project, run):
    assert run("generate").exit_code == run("spectra").exit_code == 0
    file = project / "data/calibration.safetensors"
    assert_refused(run("calibrate", "--method", "ols"), "method: found 'ols', expected auto, str")
    assert not file.exists()
    done = run("calibrate", "--method", "pls")
    assert done.stdout.startswith("6 levels calibrated, unknowns by PLS"), done.output
    series = read_series(project / "data/spectra.zarr")
    made = CalibrationFile.of("spectra.zarr", series, CalibrateParameters(method="pls"))
    found = load_calibration(file)
    for one, other in zip(found.estimate(series.signal), made.estimate(series.signal), strict=True):
        np.testing.assert_array_equal(one, other)
    assert found.about["option method"] == "pls"
    assert found.about["calibrated with"] == "spectra.zarr"
    done = call("estimate", "data/synthetic.csv", "--out", "out.csv")
    assert done.exit_code in (0, 1), done.output  # one scan in a hundred fits nowhere
    table = pd.read_csv("out.csv")
    assert table["method"].unique().tolist() == ["PLS"]
