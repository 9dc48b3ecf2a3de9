"""Geodesics between stations, from what a metric is at the stations: no grid, no integration.

With the arc length S, the moment M (integral of x sqrt(g)), sqrt(g) and its minimum between
neighbouring stations, first velocity and path features of a geodesic are a few operations: l =
S(b) - S(a), v0 = l / sqrt(g(a)), mean position (M(b) - M(a)) / l, largest speed |l| / min sqrt(g).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonode.devices.kernels.available import usable
from geonode.geodesics.features import FEATURES


@dataclass(frozen=True)
class Stations:
    """A metric at the stations between which geodesics run, in the format of its grid.

    Attributes:
        positions: ascending chart positions.
        arc_length, moment: integrals of sqrt(g) and x sqrt(g) up to the stations.
        root: sqrt(g).
        slowest: least sqrt(g) from one station to the next, both included.
        wavelengths: charted wavelengths of the columns.
    """

    positions: Float[Tensor, "station"]
    arc_length: Float[Tensor, "station wavelength"]
    moment: Float[Tensor, "station wavelength"]
    root: Float[Tensor, "station wavelength"]
    slowest: Float[Tensor, "gap wavelength"]
    wavelengths: Float[Tensor, "wavelength"]

    def paths(
        self, source: Int[Tensor, "pair"], target: Int[Tensor, "pair"]
    ) -> tuple[Float[Tensor, "pair wavelength"], Float[Tensor, "pair wavelength feature"]]:
        """First velocities, and path features in the order of `FEATURES`, of some pairs.

        Args:
            source: indices of stations.
            target: those of others.
        """
        speed = self.arc_length[target] - self.arc_length[source]
        low, high = torch.minimum(source, target), torch.maximum(source, target)
        least = torch.full_like(speed, torch.inf)
        for gap, slowest in enumerate(self.slowest):
            on_path = (low <= gap) & (gap < high)
            least[on_path] = torch.minimum(least[on_path], slowest)
        features = [
            self.positions[target][:, None].expand_as(speed),
            (self.moment[target] - self.moment[source]) / speed,
            speed.abs(),
            speed.abs() / least,
            self.wavelengths.expand_as(speed),
        ]
        return speed / self.root[source], torch.stack(features, dim=-1)

    def every_path(
        self,
    ) -> tuple[Float[Tensor, "pair wavelength"], Float[Tensor, "pair wavelength feature"]]:
        """The same of every ordered pair of different stations, sources outermost.

        All targets above a source, and all below it, are joined at once: their rows are neighbours,
        and the minimum on their paths is that of the source before and of one gap more. Features
        lie in memory one after the other, the last dimension outermost.
        """
        if usable(self.positions.device):
            from geonode.devices.kernels.closed_form import all_pairs  # noqa: PLC0415 - needs Triton

            return all_pairs(
                *(self.positions, self.arc_length, self.moment),
                *(self.root, self.slowest, self.wavelengths),
            )
        count, columns = self.arc_length.shape
        v0 = self.arc_length.new_empty(count * (count - 1), columns)
        features = self.arc_length.new_empty(len(FEATURES), *v0.shape)
        least = torch.full_like(self.arc_length, torch.inf)
        for source in reversed(range(count - 1)):
            least[source + 1 :].clamp_(max=self.slowest[source])
            self._join(source, slice(source + 1, None), least, v0, features)
        least.fill_(torch.inf)
        for source in range(1, count):
            least[:source].clamp_(max=self.slowest[source - 1])
            self._join(source, slice(0, source), least, v0, features)
        return v0, features.movedim(0, -1)

    def _join(
        self, source: int, targets: slice, least: Tensor, v0: Tensor, features: Tensor
    ) -> None:
        """Fill in the rows of one source, to all targets on one side of it."""
        count = len(self.positions)
        # the rows of a source have one for every station but itself
        shift = source * (count - 1) - (targets.start > source)
        rows = slice(shift + targets.start, shift + (targets.stop or count))
        final, mean, length, fastest, place = features[:, rows]
        speed = torch.sub(self.arc_length[targets], self.arc_length[source])
        torch.div(speed, self.root[source], out=v0[rows])
        final.copy_(self.positions[targets, None].expand_as(speed))
        torch.sub(self.moment[targets], self.moment[source], out=mean).div_(speed)
        torch.abs(speed, out=length)
        torch.div(length, least[targets], out=fastest)
        place.copy_(self.wavelengths.expand_as(speed))
