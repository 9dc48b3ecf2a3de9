"""Train the leave-one-out decoders."""

from geonode.config import Parameters
from stages.command import progress, stage
from stages.paths import CHECKPOINTS, DECODERS, DEVICE, GEODESICS, METRICS, PLOTS, SPECTRA


@stage("decoders")
def app(parameters: Parameters) -> str:
    """Train the decoders of all folds and members, from path features to the measured signal."""
    from geonode.devices.device import Device
    from geonode.geodesics.solved import read_features
    from geonode.learning.path_decoder import fit_decoders
    from geonode.learning.trainer import history_csv
    from geonode.spectra.series import read_series
    from geonode.storage.document import read_document, write_metrics, write_text

    block = parameters.decoders
    device = Device.from_description(read_document(DEVICE))
    series = read_series(SPECTRA)
    features = read_features(GEODESICS, series)
    folds = len(series.concentrations) + 1
    models = block.members * folds
    with progress("training decoders", models * block.epochs) as report:
        decoders, history = fit_decoders(
            series.signal,
            features,
            block,
            device=device.place,
            dtype=device.training,
            report=report,
            scratch=CHECKPOINTS / "decoders",
        )
    decoders.write(DECODERS)
    write_text(PLOTS / "training.csv", history_csv(history, ("loss",), folds, block))
    last = float(history[-1].mean())
    write_metrics(METRICS / "decoders.json", {"models": models, "loss": last})
    return f"{models} decoders, loss {last:.4f} -> {DECODERS}"


if __name__ == "__main__":
    app()
