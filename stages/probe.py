"""Resolve device, code and parameters. Always runs: later stages rerun only if theirs change.

It also reports outputs that fail their seals: DVC takes a file of unchanged size and time for
unchanged, and does not run the stage that would find it damaged. And it reports what makes every
stage slow to start.
"""

import logging
from pathlib import Path

from geonode.config import Parameters
from stages.command import stage
from stages.inputs import write_inputs
from stages.paths import DECLARED, DEVICE, METRICS

_LOG = logging.getLogger("geonode.stages")


@stage("device", "precision")
def app(parameters: Parameters) -> str:
    """Choose the device and its precision, describe this machine and what stages depend on."""
    from geonode.compute.choice import choose
    from geonode.machine import compiled_anew, machine
    from geonode.storage.document import write_document, write_metrics
    from geonode.storage.integrity import damaged

    for finding in damaged(Path()) if DECLARED.is_file() else ():
        _LOG.warning("%s", finding.message)
    if (slow := compiled_anew("torch")) is not None:
        _LOG.warning("%s", slow)
    device = choose(parameters.device, parameters.precision)
    write_document(DEVICE, device)
    write_inputs(parameters)
    write_metrics(METRICS / "env.json", {**device, **machine()})
    return "{device}: {name}, training {training}, geometry {geometry}".format(**device)


if __name__ == "__main__":
    app()
