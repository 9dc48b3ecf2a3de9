"""Read, validate and chart the measured table."""

import numpy as np

from geonode.config import Parameters
from stages.command import stage, write_scores
from stages.paths import SPECTRA


@stage("spectra")
def app(parameters: Parameters) -> str:
    """Read, validate and chart the table of spectra named by spectra.source."""
    from geonode.reading.series_file import measured_table
    from geonode.spectra.chart import Chart
    from geonode.spectra.noise import noise_along_the_axis
    from geonode.spectra.series import write_series

    block = parameters.spectra
    table = measured_table(block)
    chart = Chart.of(block.chart, block.kappa, table.concentrations)
    noise = noise_along_the_axis(table.axis, np.concatenate(table.scans))
    write_series(SPECTRA, table, chart, block)
    write_scores(
        "spectra",
        {
            "levels": len(table.concentrations),
            "wavelengths": len(table.axis),
            "masked_wavelengths": len(table.masked),
            "scans": sum(len(scans) for scans in table.scans),
            "replicate_noise": table.replicate_noise(),
            "non_monotonic_share": table.non_monotonic_share(noise),
        },
    )
    masked = f", {len(table.masked)} masked" if len(table.masked) else ""
    return (
        f"{len(table.concentrations)} levels x {len(table.axis)} wavelengths{masked} -> {SPECTRA}"
    )


if __name__ == "__main__":
    app()
