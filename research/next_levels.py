"""Value of proposed levels: levels of a series are hidden, then measured in turn.

A series begins with its ends and its middle level. The next of the hidden levels is the one with
the largest expected error, the one farthest from all others, or a random one. After every step the
predictor predicts what is still hidden: `python -m research.next_levels DIR`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from jaxtyping import Float

from geonode.parameters_file import read_parameters
from geonode.posterior.next_levels import expected_errors
from geonode.progress import bar
from geonode.reading.folder import parameters_of_folder
from geonode.reading.series_file import read_series_csv
from geonode.spectra.chart import proposes_log
from geonode.spectra.series import Series
from stages.paths import PARAMETERS

FEWEST = 6
"""Levels of a series that has enough of them to hide."""

Choice = Callable[[list[int], list[int]], int]
"""Next level (index) by those that are measured and those that are hidden."""


@dataclass(frozen=True)
class Hiding:
    """A series whose levels are hidden."""

    series: Series  # as measured
    random: np.random.Generator  # chooses by chance

    def by_expected_error(self, measured: list[int], hidden: list[int]) -> int:
        """The hidden level whose prediction is least sure."""
        return hidden[int(np.argmax(self._predicted(measured, hidden)[1]))]

    def by_distance(self, measured: list[int], hidden: list[int]) -> int:
        """The hidden level farthest from all measured ones; over decades, by ratios."""
        levels = self.series.concentrations
        place = np.log(levels) if proposes_log(levels) else levels
        gaps = np.abs(place[hidden][:, None] - place[measured]).min(axis=1)
        return hidden[int(np.argmax(gaps))]

    def by_chance(self, measured: list[int], hidden: list[int]) -> int:  # noqa: ARG002
        """Any hidden level."""
        return int(self.random.choice(hidden))

    def errors(self, choose: Choice) -> Float[np.ndarray, "step"]:
        """Root of the summed squared error of all hidden spectra, after every step."""
        count = len(self.series.concentrations)
        measured = [0, count // 2, count - 1]
        found = []
        while count - len(measured) > 1:
            hidden = [level for level in range(count) if level not in measured]
            measured = sorted([*measured, choose(measured, hidden)])
            hidden = [level for level in hidden if level not in measured]
            spectra, _ = self._predicted(measured, hidden)
            found.append(np.sqrt(np.sum((spectra - self.series.signal[hidden]) ** 2)))
        return np.array(found)

    def _predicted(self, measured: list[int], hidden: list[int]) -> tuple[np.ndarray, np.ndarray]:
        levels, spectra = self.series.concentrations, self.series.signal
        return expected_errors(levels[measured], spectra[measured], levels[hidden])


def main(
    folder: Annotated[Path, typer.Argument(help="Of files of spectra, one a series.")],
    orders: Annotated[int, typer.Option(help="Random orders of a series.")] = 12,
) -> None:
    """Compare the proposed order with even and random ones on every series of a folder."""
    common = read_parameters(PARAMETERS).spectra
    series = {
        name: read_series_csv(own) for name, own in parameters_of_folder(folder, common).items()
    }
    series = {name: one for name, one in series.items() if len(one.concentrations) >= FEWEST}
    logarithms = []
    typer.echo("series: error after every step, proposed / even, / random")
    with bar("hiding levels", len(series)) as report:
        for name, one in series.items():
            hiding = Hiding(one, np.random.default_rng(0))
            proposed, even = (
                np.log(hiding.errors(choose)).mean()
                for choose in (hiding.by_expected_error, hiding.by_distance)
            )
            by_chance = np.mean([np.log(hiding.errors(hiding.by_chance)) for _ in range(orders)])
            logarithms.append([proposed - even, proposed - by_chance])
            typer.echo("{}: {:.2f} {:.2f}".format(name, *np.exp(logarithms[-1])))
            report(1)
    typer.echo("geometric mean: {:.2f} {:.2f}".format(*np.exp(np.mean(logarithms, axis=0))))
    typer.echo("median: {:.2f} {:.2f}".format(*np.exp(np.median(logarithms, axis=0))))


if __name__ == "__main__":
    typer.run(main)
