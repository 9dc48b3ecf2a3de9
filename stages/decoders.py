"""Train the leave-one-out decoders."""

from geonode.config import Parameters
from stages.command import progress, stage
from stages.paths import CHECKPOINTS, DECODERS, DEVICE, GEODESICS, METRICS, PLOTS, SPECTRA


@stage("decoders")
def app(parameters: Parameters) -> str:
    """Train the decoders of all folds and members, from path features to the measured signal."""
    from geonode.devices.device import Device
    from geonode.geodesics.solved import read_features
    from geonode.learning.decoders import KINDS
    from geonode.learning.trainer import history_csv
    from geonode.spectra.series import read_series
    from geonode.storage.document import read_document, write_metrics, write_text

    block = parameters.decoders
    device = Device.from_description(read_document(DEVICE))
    series = read_series(SPECTRA)
    features = read_features(GEODESICS, series)
    folds = len(series.concentrations) + 1
    with progress("training decoders", block.members * folds * block.epochs) as report:
        decoders, history = KINDS[block.kind](
            series.signal, features, block, device, CHECKPOINTS / "decoders", report
        )
    decoders.write(DECODERS)
    write_text(PLOTS / "training.csv", history_csv(history, ("loss",), folds, block))
    models = history.shape[2]
    last = float(history[-1].mean()) if len(history) else None
    write_metrics(METRICS / "decoders.json", {"kind": block.kind, "models": models, "loss": last})
    trained = "" if last is None else f", loss {last:.4f}"
    return f"{models} decoders ({block.kind}){trained} -> {DECODERS}"


if __name__ == "__main__":
    app()
