"""Paths of the pipeline, relative to the folder it runs in."""

from pathlib import Path

PARAMETERS = Path("params.yaml")

DATA = Path("data")

DEVICE = Path("data/device.json")
SYNTHETIC = Path("data/synthetic.csv")
SPECTRA = Path("data/spectra.zarr")
METRIC = Path("data/metric.safetensors")
CHRISTOFFEL = Path("data/christoffel.zarr")
GEODESICS = Path("data/geodesics.zarr")
DECODERS = Path("data/decoders.safetensors")
CALIBRATION = Path("data/calibration.safetensors")
CHECKPOINTS = Path("data/checkpoints")  # of unfinished trainings
WORK = Path("data/work.json")
SHARED = Path("data/shared")  # between the processes of a running stage

RECORDS = Path("data/records")  # resources used by the stages of the pipeline, NAME.json each

METRICS = Path("metrics")
PLOTS = Path("metrics/plots")

PIPELINE = (
    "probe",
    "generate",
    "spectra",
    "metric",
    "christoffel",
    "geodesics",
    "decoders",
    "validate",
    "calibrate",
)
"""Stages whose time counts as that of the pipeline, in order."""
