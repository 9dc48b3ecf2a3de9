"""An artifact with every kind of array."""

import numpy as np

from geonode.storage.artifact_writer import artifact_writer

ATTRIBUTES = {
    "chart": "linear",
    "kappa": None,
    "text": 'a "checksum": "00000000" µ',
    "levels": [0, 1],
}
RANDOM = np.random.default_rng(0)
VALUES = {
    "christoffel": RANDOM.standard_normal((2, 2, 5, 7)),
    "converged": RANDOM.random((2, 3)) < 0.5,
    "features": RANDOM.standard_normal((2, 3, 7)).astype("float32"),
    "pair": np.arange(3),
    "source": np.array([0.0, 0.0, 10.0]),
    "start": np.zeros(3, "int32"),
    "velocity": RANDOM.standard_normal((2, 3, 7)).astype("float32"),
    "wavelength": np.linspace(200.0, 800.0, 7),
}
BLOCKS = ((0, 0), (0, 1), (1, 0), (1, 1))


def write(path, blocks=BLOCKS):
    with artifact_writer(path, ATTRIBUTES) as writer:
        for name, units in (("wavelength", "nm"), ("pair", "1")):
            writer.coordinate(name, VALUES[name], units=units, long_name=name.title())
        dims = ("pair",)
        writer.coordinate("source", VALUES["source"], dims=dims, units="ppb", long_name="From")
        for name, dims in (
            ("converged", ("member", "pair")),
            ("start", ("pair",)),
            ("features", ("member", "pair", "wavelength")),
            ("velocity", ("member", "pair", "wavelength")),
        ):
            writer.stored(name, dims, VALUES[name], units="1", long_name=name.title())
        dims, symbol = ("member", "fold", "node", "wavelength"), VALUES["christoffel"]
        writer.mapped("christoffel", dims, symbol.shape, "f8", units="1", long_name="Symbol")
        for index in blocks:
            writer.write("christoffel", index, symbol[index])
    return path
