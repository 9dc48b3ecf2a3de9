"""Where the pipeline keeps what it makes, relative to the folder it runs in."""

from pathlib import Path

PARAMETERS = Path("params.yaml")
DECLARED = Path("dvc.yaml")

DATA = Path("data")

DEVICE = Path("data/device.json")
SYNTHETIC = Path("data/synthetic.csv")
SPECTRA = Path("data/spectra.zarr")
METRIC = Path("data/metric.safetensors")
CHRISTOFFEL = Path("data/christoffel.zarr")
GEODESICS = Path("data/geodesics.zarr")
DECODERS = Path("data/decoders.safetensors")
CHECKPOINTS = Path("data/checkpoints")  # of trainings that are not done
SHARED = Path("data/shared")  # by the processes of a stage while it runs

RECORDS = Path("data/records")  # what the stages of the pipeline took, NAME.json each

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
)
"""The stages whose seconds are those of the pipeline, in the order in which they run."""
