"""Resolve the device. Always runs: later stages rerun only if its description changes."""

import logging

from geonode.config import Parameters
from stages.command import stage
from stages.paths import DEVICE, METRICS

_LOG = logging.getLogger("geonode.stages")


@stage("device", "precision")
def app(parameters: Parameters) -> str:
    """Choose the device and its precision, and describe this machine."""
    from geonode.compute.choice import choose
    from geonode.machine import compiled_anew, machine
    from geonode.storage.document import write_json

    if (slow := compiled_anew("torch")) is not None:
        _LOG.warning("%s", slow)
    device = choose(parameters.device, parameters.precision)
    write_json(DEVICE, device)
    write_json(METRICS / "env.json", {**device, **machine()})
    return "{device}: {name}, training {training}, geometry {geometry}".format(**device)


if __name__ == "__main__":
    app()
