"""A small series of a response that rises and falls, and a model of it as a pipeline writes it."""

import numpy as np

from geonode.config import InnerParameters, Parameters, SpectraParameters
from geonode.prediction.model import SpectralModel
from geonode.spectra.chart import Chart
from geonode.spectra.series import read_series, write_series
from geonode.spectra.table import SpectraTable
from geonode.storage.lineage import consistent_artifacts
from tests.learning.series import cpu, decoder_parameters, metric_parameters

LEVELS = np.array([0.0, 15.0, 30.0, 45.0, 60.0])
AXIS = np.linspace(400.0, 700.0, 31)


def spectra_at(concentrations, axis=AXIS):
    """A peak that is highest at 30 and the same at 30 - d and 30 + d, on a sloping ground."""
    height = 1 - (np.asarray(concentrations, float)[:, None] - 30) ** 2 / 1800
    return 0.2 + 0.0002 * (axis - 400) + height * np.exp(-(((axis - 550) / 50) ** 2))


def write_model(root, kind="posterior"):
    """Write what the pipeline writes of the series without inner folds: for all kinds but path."""
    noise = np.random.default_rng(0).normal(0, 0.002, (len(LEVELS), len(AXIS)))
    scans = list((spectra_at(LEVELS) + noise)[:, None])
    table = SpectraTable(AXIS, "wavelength", "nm", LEVELS, scans, np.empty(0))
    about = SpectraParameters(
        source="none.csv",
        quantity="absorbance",
        unit="1",
        concentration_unit="ppb",
        chart="linear",
        kappa=None,
        window=None,
        missing="refuse",
    )
    folder = root / "data"
    write_series(folder / "spectra.zarr", table, Chart.of("linear", None, LEVELS), about)
    series = read_series(folder / "spectra.zarr")
    parameters = Parameters(
        inner=InnerParameters(members=0, levels=None),
        metric=metric_parameters(learning="flat"),
        decoders=decoder_parameters(kind=kind, wavelengths=len(AXIS)),
    )
    model = SpectralModel.fit(series, parameters, cpu())
    with consistent_artifacts(folder / "spectra.zarr") as made_from:
        model.learned.write(folder / "metric.safetensors", made_from)
    with consistent_artifacts(folder / "spectra.zarr", folder / "metric.safetensors") as made_from:
        model.blend.write(folder / "decoders.safetensors", made_from)
    return root
