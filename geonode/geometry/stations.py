"""Geodesics between stations, from integrals over the gaps between neighbouring ones.

Every road from a metric to path features leads through here: networks by quadrature (`panels`),
grids by their antiderivatives (`solvers.closed_form`). A path is whole gaps. With l and M the sums
over them of the integrals of sqrt(g) and x sqrt(g), v0 = +-l / sqrt(g(a)), the length is l, the
mean position M / l and the largest speed l / min sqrt(g).
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonode.compute.kernels.available import usable

FEATURES = ("final_position", "mean_position", "length", "maximum_speed", "wavelength")
"""Path features, in which a decoder sees a geodesic: x(1); integral of x dt; |l|; |l| / min sqrt(g)
over the path; w."""


@dataclass(frozen=True)
class Stations:
    """Metrics at the stations between which geodesics run, and between neighbouring ones."""

    positions: Float[Tensor, "*model station"]  # ascending chart positions
    length: Float[Tensor, "*model gap wavelength"]
    moment: Float[Tensor, "*model gap wavelength"]
    """Integrals of sqrt(g) and x sqrt(g) from one station to the next."""
    slowest: Float[Tensor, "*model gap wavelength"]
    """Least sqrt(g) from one station to the next, both included."""
    root: Float[Tensor, "*model station wavelength"]  # sqrt(g) at the stations
    wavelengths: Float[Tensor, "wavelength"]  # charted wavelengths of the columns

    def __getitem__(self, model: int) -> "Stations":
        """Stations of one of several metrics."""
        parts = ("positions", "length", "moment", "slowest", "root")
        return replace(self, **{name: getattr(self, name)[model] for name in parts})

    def features(
        self, source: Int[Tensor, "*model pair"], target: Int[Tensor, "*model pair"]
    ) -> Float[Tensor, "*model pair wavelength feature"]:
        """Path features in the order of `FEATURES`; of every model, and with gradients.

        Source and target are indices of stations.
        """
        low, high = torch.minimum(source, target), torch.maximum(source, target)
        gap = torch.arange(self.length.shape[-2], device=low.device)
        on_path = (gap >= low[..., None]) & (gap < high[..., None])
        span = on_path.to(self.length)
        length = span @ self.length
        slowest = self.slowest[..., None, :, :].masked_fill(~on_path[..., None], torch.inf)
        features = [
            self.positions.gather(-1, target)[..., None].expand_as(length),
            (span @ self.moment) / length,
            length,
            length / slowest.amin(-2),
            self.wavelengths.expand_as(length),
        ]
        return torch.stack(features, dim=-1)

    def every_path(
        self, v0: Float[Tensor, "pair wavelength"] | None = None
    ) -> tuple[Float[Tensor, "pair wavelength"], Float[Tensor, "pair wavelength feature"]]:
        """First velocities and features of every ordered pair of stations, sources outermost.

        For one model, without gradients, and faster than `features`. In memory one feature follows
        the other: the last dimension is outermost.

        Args:
            v0: first velocities found by another method. The length is then ∣v0∣ sqrt(g) at the
                source, and mean position and largest speed follow from it.
        """
        if usable(self.positions.device):
            from geonode.compute.kernels.closed_form import all_pairs  # noqa: PLC0415 - needs Triton

            return all_pairs(
                *(self.positions, self.length, self.moment),
                *(self.slowest, self.root, self.wavelengths),
                v0,
            )
        count, columns = self.root.shape
        found = self.root.new_empty(count * (count - 1), columns) if v0 is None else v0
        features = self.root.new_empty(len(FEATURES), *found.shape)
        for upward in (True, False):
            self._join(upward, v0 is not None, found, features)
        return found, features.movedim(0, -1)

    def _join(self, upward: bool, given: bool, v0: Tensor, features: Tensor) -> None:
        """Fill in the rows of all targets on one side of their source."""
        # Those of a source are neighbours: their sums and minima are those of the source before and
        # of one gap more.
        count = len(self.positions)
        length, moment = torch.zeros_like(self.root), torch.zeros_like(self.root)
        least = torch.full_like(self.root, torch.inf)
        for source in reversed(range(count - 1)) if upward else range(1, count):
            gap = source if upward else source - 1
            targets = slice(source + 1, count) if upward else slice(0, source)
            # the rows of a source have one for every station but itself
            first = source * (count - 1) + (source if upward else 0)
            rows = slice(first, first + targets.stop - targets.start)
            length[targets] += self.length[gap]
            moment[targets] += self.moment[gap]
            least[targets].clamp_(max=self.slowest[gap])
            final, mean, size, fastest, place = features[:, rows]
            root = self.root[source]
            if given:
                torch.mul(v0[rows], root, out=size).abs_()
            else:
                size.copy_(length[targets])
                torch.div(size, root if upward else -root, out=v0[rows])
            final.copy_(self.positions[targets, None].expand_as(size))
            torch.div(moment[targets], size, out=mean)
            torch.div(size, least[targets], out=fastest)
            place.copy_(self.wavelengths.expand_as(size))
