"""Path features at the training wavelengths, straight from the metric networks.

What decoders are trained on, without the grid: for the many folds in which two levels are left out
and of which nothing else is asked.
"""

import numpy as np
import torch
from jaxtyping import Float, Int

from geonode.devices.device import on_device
from geonode.geodesics.panels import Panels
from geonode.geodesics.problem import ordered_pairs
from geonode.geometry.learned import LearnedMetrics
from geonode.spectra.series import Series

NODES = 8  # of the quadrature in every gap between neighbouring concentrations


def path_features(
    learned: LearnedMetrics,
    series: Series,
    chosen: Int[np.ndarray, "training"],
) -> Float[np.ndarray, "member fold pair training feature"]:
    """Features of the geodesics between all levels, in float64 on the CPU.

    Args:
        learned: metrics of the folds.
        series: the levels and wavelengths.
        chosen: indices of the wavelengths.
    """
    cpu = torch.device("cpu")
    source, target = ordered_pairs(len(series.concentrations))
    wavelengths = on_device(series.wavelengths[chosen], cpu, torch.float64)
    positions = on_device(learned.positions(series.concentrations), cpu, torch.float64)
    metric = learned.metric(cpu)
    features = []
    for model in range(metric.network.models):
        _, fold = learned.index(model)
        panels = Panels.between(positions[fold : fold + 1], NODES)
        paths = panels.geometry(metric[model], wavelengths, source[None], target[None])
        features.append(paths.features[0].float().numpy())
    return np.stack(features).reshape(learned.members, len(learned.charts), *features[0].shape)
