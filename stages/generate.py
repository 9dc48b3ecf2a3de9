"""Write synthetic spectra of a known non-monotonic response, in the format a user brings."""

from geonode.config import Parameters
from stages.command import stage
from stages.paths import SYNTHETIC


@stage("generate")
def app(parameters: Parameters) -> str:
    """Write synthetic spectra of a known non-monotonic response, as a wide CSV."""
    from geonode.spectra.synthetic import synthetic_scans
    from geonode.spectra.table import to_csv
    from geonode.storage.document import write_text

    table = synthetic_scans(parameters.generate)
    write_text(SYNTHETIC, to_csv(table))
    return f"{len(table.concentrations)} levels x {len(table.axis)} wavelengths -> {SYNTHETIC}"


if __name__ == "__main__":
    app()
