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
WAVELENGTH = np.linspace(200.0, 800.0, 7)
SOURCE = np.array([0.0, 0.0, 10.0])
CHRISTOFFEL = RANDOM.standard_normal((2, 2, 5, 7))
CONVERGED = RANDOM.random((2, 3)) < 0.5
FEATURES = RANDOM.standard_normal((2, 3, 7)).astype("float32")
VELOCITY = RANDOM.standard_normal((2, 3, 7)).astype("float32")
VALUES = {
    "christoffel": CHRISTOFFEL,
    "converged": CONVERGED,
    "features": FEATURES,
    "pair": np.arange(3),
    "source": SOURCE,
    "start": np.zeros(3, "int32"),
    "velocity": VELOCITY,
    "wavelength": WAVELENGTH,
}
BLOCKS = ((0, 0), (0, 1), (1, 0), (1, 1))


def write(path, blocks=BLOCKS):
    with artifact_writer(path, ATTRIBUTES) as writer:
        writer.coordinate("wavelength", WAVELENGTH, units="nm", long_name="Wavelength")
        writer.coordinate("pair", VALUES["pair"], units="1", long_name="Pair")
        writer.coordinate("source", SOURCE, dims=("pair",), units="ppb", long_name="From")
        writer.stored("converged", ("member", "pair"), CONVERGED, units="1", long_name="Solved")
        writer.stored("start", ("pair",), VALUES["start"], units="1", long_name="All zeros")
        dims = ("member", "fold", "node", "wavelength")
        about = {"units": "1", "long_name": "Christoffel symbol"}
        writer.mapped("christoffel", dims, CHRISTOFFEL.shape, "f8", **about)
        for index in blocks:
            writer.write("christoffel", index, CHRISTOFFEL[index])
        dims = ("member", "pair", "wavelength")
        for name, values in (("features", FEATURES), ("velocity", VELOCITY)):
            writer.stored(name, dims, values, units="1", long_name=name.title())
    return path
