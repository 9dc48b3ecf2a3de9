"""Resolve the device. Always runs: later stages rerun only if the answer changes."""

from geonode.config import Parameters
from stages.command import stage
from stages.paths import DEVICE, METRICS


@stage("device", "memory_mb", "precision")
def app(parameters: Parameters) -> str:
    """Find out which device computes, in which precision, and describe this machine."""
    from geonode.devices.device import environment, resolve
    from geonode.storage.document import write_document, write_metrics

    device = resolve(parameters.device, parameters.precision, parameters.memory_mb)
    write_document(DEVICE, device.describe())
    write_metrics(METRICS / "env.json", environment(device))
    return f"{device.kind}: {device.name}, training {device.training}, geometry {device.geometry}"


if __name__ == "__main__":
    app()
