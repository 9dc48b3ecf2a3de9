"""Simulated mixtures of 2 to 5 substances by class: each has one difficulty.

"several" has each with a chance of 0.3. `simulated_mixtures` has interactions of substances beside.
"""

import numpy as np

from geonode.errors import MixtureError
from geonode.mixtures.design import Design
from research.simulated_mixtures import Mixtures

CLASSES = (
    *("plain", "few", "many", "grid", "correlated", "closed", "replicates", "weak", "interferent"),
    *("drift", "scatter", "nir", "saturating", "filter", "shifts", "uneven", "amounts", "several"),
    *("gain", "powder", "film"),
)
PARTS = {
    "gain": ("gain",),
    "powder": ("gain", "nir", "interferent", "drift", "closed"),
    "film": ("gain", "nir", "interferent"),
}
"""Classes that preprocessing helps: with a gain, as of path or scatter, and wide bands."""

UNKNOWNS = 40


def simulate(kind: str, seed: int) -> Mixtures:
    """Simulate a calibration of one of `CLASSES`."""
    random = np.random.default_rng([seed, CLASSES.index(kind)])
    first = CLASSES[: CLASSES.index("several") + 1]
    has = {one: kind == one or (kind == "several" and random.random() < 0.3) for one in first}
    has |= dict.fromkeys(PARTS.get(kind, ()), True)
    substances = int(random.integers(2, 6))
    samples = int(np.exp(random.uniform(np.log(3 * substances + 4), np.log(80))))
    if has["few"]:
        samples = int(random.integers(2 * substances + 4, 2 * substances + 9))
    if has["many"]:
        samples = int(random.integers(100, 201))
    while True:
        nominal = _designed(random, has, substances, samples)
        try:
            tied = Design.of(nominal[:samples]).tied
        except MixtureError:
            continue
        if not tied:
            break
    true = nominal * np.exp(0.003 * random.normal(size=nominal.shape))
    if has["amounts"]:
        true = nominal * np.exp(random.uniform(0.01, 0.05) * random.normal(size=nominal.shape))
    signal = _recorded(random, has, _signal(random, has, true), samples)
    amounts = nominal * np.exp(random.uniform(-4, 4, substances))
    return Mixtures(amounts[:samples], signal[:samples], amounts[samples:], signal[samples:])


def _designed(
    random: np.random.Generator, has: dict[str, bool], substances: int, samples: int
) -> np.ndarray:
    """Amounts of samples and unknowns, between 0 and about 1."""
    count = samples + UNKNOWNS
    found = random.random((count, substances))
    if has["correlated"]:
        share, common = random.uniform(0.6, 0.85), random.normal(size=(count, 1))
        own = random.normal(size=found.shape)
        found = 1 / (1 + np.exp(-1.5 * (share**0.5 * common + (1 - share) ** 0.5 * own)))
    if has["closed"]:
        found = random.dirichlet(np.ones(substances), count) * random.uniform(0.7, 1, (count, 1))
    if has["grid"]:
        levels = random.integers(2, 5)
        found[:samples] = np.round(found[:samples] * levels) / levels
    if has["replicates"]:
        found[:samples] = found[:samples][
            np.arange(samples) % max(samples // 3, 2 * substances + 3)
        ]
    low, high = found[:samples].min(axis=0), found[:samples].max(axis=0)
    found[samples:] = np.clip(found[samples:], low, high)
    return found


def _bands(random: np.random.Generator, count: int, wavelengths: int, wide: bool) -> np.ndarray:
    """Sums of bands, the highest value 1."""
    axis, found = np.linspace(0, 1, wavelengths), np.zeros((count, wavelengths))
    for one in found:
        for _ in range(random.integers(2, 9) if wide else random.integers(1, 4)):
            width = np.exp(random.uniform(*np.log([0.05, 0.25] if wide else [0.02, 0.12])))
            place = random.random()
            one[:] += random.random() * np.exp(-(((axis - place) / width) ** 2) / 2)
    return found / found.max(axis=1, keepdims=True)


def _signal(random: np.random.Generator, has: dict[str, bool], true: np.ndarray) -> np.ndarray:
    """Signal without errors of instruments."""
    count, substances = true.shape
    wavelengths = 700 if has["nir"] else 100
    pure = _bands(random, substances, wavelengths, has["nir"])
    pure *= np.exp(0.5 * random.normal(size=(substances, 1)))
    if has["nir"]:
        pure = pure + random.uniform(0.5, 3) * _bands(random, 1, wavelengths, wide=True)
    if has["weak"]:
        pure[-1] /= 100
    active = true
    if has["saturating"]:
        strength = np.exp(random.uniform(np.log(0.3), np.log(4), substances))
        bound = true @ strength if random.random() < 0.5 else true * strength
        active = true * (1 + strength) / (1 + bound.reshape(count, -1))
    signal = active @ pure
    if has["shifts"]:
        by_amounts = np.tanh(true @ random.normal(size=substances)) * random.uniform(0, 0.03)
        moved = by_amounts + random.uniform(0, 0.004) * random.normal(size=count)
        axis = np.linspace(0, 1, wavelengths)
        shifted = zip(axis - moved[:, None], signal, strict=True)
        signal = np.stack([np.interp(places, axis, one) for places, one in shifted])
    if has["filter"]:
        absorbed = true @ np.exp(0.6 * random.normal(size=substances) - 0.7)
        signal = signal * (-np.expm1(-absorbed) / absorbed.clip(1e-9))[:, None]
        signal = signal * np.exp(-true @ (0.5 * _bands(random, substances, wavelengths, wide=True)))
    return signal


def _recorded(
    random: np.random.Generator, has: dict[str, bool], signal: np.ndarray, samples: int
) -> np.ndarray:
    """Signal with other matter, drift, scatter and noise."""
    (count, wavelengths), spread = signal.shape, signal[:samples].std(axis=0).mean()
    axis = np.linspace(-1, 1, wavelengths)

    def each() -> np.ndarray:
        return random.normal(size=(count, 1))

    if has["interferent"]:
        matter = _bands(random, int(random.integers(1, 9)), wavelengths, has["nir"])
        sizes = np.exp(random.uniform(np.log(0.03), np.log(2), len(matter)))
        signal = signal + spread * random.random((count, len(matter))) * sizes @ matter
    if has["scatter"]:
        signal = signal * np.exp(random.uniform(0.01, 0.1) * each())
    if has.get("gain"):
        signal = signal * np.exp(np.exp(random.uniform(np.log(0.03), np.log(0.4))) * each())
    if has["drift"] or has["scatter"]:
        size = spread * np.exp(random.uniform(np.log(0.01), np.log(0.3)))
        signal = signal + size * (each() + each() * axis + 0.5 * each() * axis**2)
    noise = spread * np.exp(random.uniform(np.log(1e-3), np.log(3e-2)))
    if has["weak"] or has["nir"]:
        noise = noise / 30
    sizes = np.full(signal.shape, noise)
    if has["uneven"]:
        sizes = noise * (0.3 + 3 * np.abs(signal) / np.abs(signal).max())
        sizes = sizes * np.exp(0.8 * random.normal(size=wavelengths) + 0.4 * each())
    return signal + sizes * random.normal(size=signal.shape)
