"""Resolve the device. Always runs: later stages rerun only if its description changes."""

from geonode.config import Parameters
from stages.command import stage
from stages.paths import DEVICE


@stage("device", "precision")
def app(parameters: Parameters) -> str:
    """Choose the device and its precision."""
    from geonode.compute.choice import choose
    from geonode.storage.document import write_json

    device = choose(parameters.device, parameters.precision)
    write_json(DEVICE, device)
    return "{device}: {name}, training {training}, geometry {geometry}".format(**device)


if __name__ == "__main__":
    app()
