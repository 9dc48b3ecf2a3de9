"""Prior learned on simulated series: the rule of weights, and half widths of intervals.

It is one sealed file of the package, made by `make prior`, with its provenance in the metadata.
"""

import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float

from geonode.compute.device import CPU
from geonode.errors import CorruptArtifactError
from geonode.posterior.rule import WeightRule
from geonode.storage.weights import read_weights, write_weights

PACKAGED = Path(__file__).parent / "prior.safetensors"

PROBABILITIES = (0.5, 0.8, 0.9, 0.95)
"""Nominal coverages of the intervals."""

COVERAGE = 0.9
"""Nominal coverage of the intervals and sets that are drawn and printed."""

PRIOR_WAVELENGTHS = 48
"""Wavelengths of the simulated spectra that the rule was learned from."""

CALIBRATED = ("counts", "half_widths", "masses")
"""Attributes of a prior that `research.simulated_sets` finds."""


@dataclass(frozen=True)
class Prior:
    """Rule of weights and half widths of intervals, learned on simulated series."""

    rule: WeightRule
    """Rule of weights of the smoothers and of the expected error, on the device on which posteriors
    are to be computed."""
    counts: Float[np.ndarray, "count"]
    """Numbers of training levels with calibrated half widths, ascending."""
    half_widths: Float[np.ndarray, "count side probability"]
    """Half the width of the intervals of `PROBABILITIES` in units of the predicted deviation, for
    targets inside (0) and outside (1) of the training levels."""
    masses: Float[np.ndarray, "count side"]
    """Posterior probability of all more likely concentrations, below which a concentration inside
    (0) or outside (1) of the training levels belongs to the 90% set."""
    provenance: dict[str, str]  # command, parameters and device of the learning

    def intervals(
        self, levels: int, inside: Bool[np.ndarray, "target"]
    ) -> Float[np.ndarray, "target probability"]:
        """Half widths of intervals in units of the predicted deviation, linear between `counts`."""
        return self._of_count(self.half_widths, levels)[1 - inside.astype(int)]

    def mass_of_sets(
        self, levels: int, inside: Bool[np.ndarray, "node"]
    ) -> Float[np.ndarray, "node"]:
        """Largest probability of more likely concentrations in a set, linear between `counts`."""
        return self._of_count(self.masses, levels)[1 - inside.astype(int)]

    def _of_count(self, values: np.ndarray, levels: int) -> np.ndarray:
        place = float(np.interp(levels, self.counts, np.arange(len(self.counts))))
        low = min(int(place), len(self.counts) - 2)
        return (low + 1 - place) * values[low] + (place - low) * values[low + 1]

    def write(self, path: Path) -> None:
        """Write as a sealed file of tensors.

        Raises:
            ArtifactError: it cannot be written.
        """
        tensors = {f"rule.{name}": part for name, part in self.rule.state_dict().items()}
        for name in CALIBRATED:
            tensors[name] = torch.from_numpy(getattr(self, name))
        write_weights(path, tensors, {"provenance": json.dumps(self.provenance)})


def read_prior(path: Path) -> Prior:
    """Read a file of `Prior.write`.

    Raises:
        MissingArtifactError, CorruptArtifactError: the file is absent, damaged, or no prior.
    """
    tensors, metadata = read_weights(path)
    try:
        provenance = json.loads(metadata["provenance"])
        rule = WeightRule(int(provenance["networks"]), int(provenance["width"]))
        state = {
            name.removeprefix("rule."): part
            for name, part in tensors.items()
            if name.startswith("rule.")
        }
        rule.load_state_dict(state)
        calibrated = {name: tensors[name].numpy() for name in CALIBRATED}
        return Prior(rule.eval(), **calibrated, provenance=provenance)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise CorruptArtifactError(path, f"contains no prior ({error!r:.80})") from error


@cache
def packaged_prior(place: torch.device = CPU) -> Prior:
    """Prior of this version of the package, on a device with double precision.

    Its networks, which were learned in single precision, compute in double: the last digit of a
    weight would move estimates by 1e-6, and hangs on the instructions of the processor.
    """
    found = read_prior(PACKAGED)
    return replace(found, rule=found.rule.to(place, torch.float64))
