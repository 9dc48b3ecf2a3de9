"""Kriging by the full system of equations: slow and plain."""

import numpy as np
import torch

from geonode.posterior.charts import positions
from geonode.posterior.smoothers import KERNELS, SMOOTHER_MEANS, dictionary


class Kriging:
    """Smoothers on the charts of some levels, each fitted to any of these and of the targets."""

    def __init__(self, levels, targets):
        place = positions(torch.from_numpy(levels)[None], torch.from_numpy(targets)[None])
        self.places = torch.cat([place.levels[0], place.targets[0]], dim=1).numpy()
        self.concentrations, self.highest = np.concatenate([levels, targets]), levels.max()

    def kernel(self, smoother, a, b):
        description = dictionary()
        on_chart = self.places[description.chart[smoother]]
        r = np.abs(on_chart[a][:, None] - on_chart[b]) / float(description.length[smoother])
        if KERNELS[description.kernel[smoother]] == "squared exponential":
            return np.exp(-(r**2) / 2)
        return (1 + 3**0.5 * r) * np.exp(-(3**0.5) * r)

    def terms(self, smoother, a):
        description = dictionary()
        on_chart = self.places[description.chart[smoother]]
        columns = {
            "1": np.ones(len(a)),
            "x": on_chart[a],
            "c": self.concentrations[a] / self.highest,
        }
        names = SMOOTHER_MEANS[description.mean[smoother]].split()
        return np.stack([columns[name] for name in names], axis=1)

    def system(self, smoother, kept):
        """Matrix of the equations, with the coefficients of the mean function last."""
        noise = float(dictionary().noise[smoother]) * np.eye(len(kept))
        h = self.terms(smoother, kept)
        zero = np.zeros((h.shape[1], h.shape[1]))
        return np.block([[self.kernel(smoother, kept, kept) + noise, h], [h.T, zero]])

    def predict(self, smoother, kept, at):
        """Weights of the kept places in the prediction of another, and its variance."""
        wanted = self.terms(smoother, [at])[0]
        right = np.concatenate([self.kernel(smoother, kept, [at])[:, 0], wanted])
        solution = np.linalg.solve(self.system(smoother, kept), right)
        return solution[: len(kept)], 1 - solution @ right
