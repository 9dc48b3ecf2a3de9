"""Maps of an image by a calibration file, of one substance and of several."""

from dataclasses import replace

import numpy as np
import pytest
import xarray

from geonode.calibration.saved import load_calibration, save_calibration
from tests.calibration import beer
from tests.commands.calling import call
from tests.estimation.images import store
from tests.mixtures import beer as mixed


def image(path, spectra, axis):
    """Two rows of pixels: a spectrum is missing a value, and another is like none."""
    values = spectra.reshape(2, -1, len(axis)).copy()
    values[0, 0, 3], values[1, 1] = np.nan, values[1, 1, ::-1] + 2
    return store(path, values, axis=np.asarray(axis, float), chunks=(1, 2, len(axis)))


def mapped(folder, *words):
    result = call("estimate", folder / "image.zarr", *words, "--out", folder / "maps.zarr")
    assert result.exit_code == 0, result.output
    with xarray.open_zarr(folder / "maps.zarr", consolidated=False) as found:
        return found.load()


@pytest.fixture(scope="module")
def mixtures(tmp_path_factory, mixture):
    folder = tmp_path_factory.mktemp("mixtures")
    save_calibration(folder / "calibration.safetensors", mixture)
    known = np.vstack([mixed.UNKNOWN, mixed.UNKNOWN[::-1], [[5, 11.5], [4, 6]]])
    image(folder / "image.zarr", mixed.spectra(known), mixed.NM)
    return folder, known.reshape(2, -1, 2)


def test_a_mixture_has_a_map_of_every_substance(mixtures):
    folder, known = mixtures
    file = folder / "calibration.safetensors"
    found = mapped(folder, "--calibration", file, "--batch-size", 3, "--user", "me")
    flags = found["flags"].values
    assert (flags[0, 0], flags[1, 1]) == (4, flags[1, 1] | 2)
    assert flags[1, 3] == 8  # 11.5 is beyond the samples
    good = flags == 0
    assert good.sum() == 7
    numbers = load_calibration(file).model.calibration.estimate(mixed.spectra(known[good]))
    for at, name in enumerate(("lead", "zinc")):
        np.testing.assert_allclose(found[f"amount_{name}"].values[good], known[good, at], atol=0.1)
        assert found[f"amount_{name}"].units == "ppm"
        for end, layer in enumerate(("low90", "high90")):
            own = found[f"{layer}_{name}"].values
            np.testing.assert_allclose(own[good], numbers.intervals[:, at, end], rtol=1e-6)
            assert np.isnan(own[0, 0])
    assert (found["misfit"].values[good] < 1).all()
    record = (folder / "maps.record.csv").read_text()
    assert "user,me" in record
    assert "mostly" in record


def test_substances_are_named_apart(mixture):
    series = replace(mixture.series, substances=("a/b", "a b", "a b 2"), units=("1",) * 3)
    named = replace(mixture.model, series=series)
    of_each = "a_b_1", "a_b_2", "a_b_2_3"
    names = [f"{of}_{name}" for name in of_each for of in ("amount", "low90", "high90")]
    assert [*named.layers] == [*names, "misfit"]


@pytest.mark.parametrize("geonode", [True, False])
def test_a_pixel_is_what_a_file_of_its_spectrum_gives(tmp_path, calibration, geonode):
    if not geonode:
        without = replace(calibration.model.calibration, curve=None)
        calibration = replace(calibration, model=replace(calibration.model, calibration=without))
    file = tmp_path / "calibration.safetensors"
    save_calibration(file, calibration)
    spectra = beer.spectra_at([0.5, 2, -0.05, 4, 6, 10.3])
    image(tmp_path / "image.zarr", spectra, beer.AXIS)
    found = mapped(tmp_path, "--calibration", file)
    flags = [found["flags"].values[at] & 6 for at in ((0, 0), (1, 1), (1, 2))]
    assert flags == [4, 2 * geonode, 0]
    assert found["flags"].values[0, 1:].tolist() == [0, 0]  # the levels begin at zero
    assert found["flags"].values[1, 2] == 8  # 10.3 is beyond them, and determined
    each = load_calibration(file).model.estimates(spectra[[1, 2, 3, 5]], [*"abcd"])
    numbers = np.array([one.numbers[0] for one in each])
    assert numbers[1, 0] < 0
    assert ("p_value" in found) == geonode
    rows, columns = [0, 0, 1, 1], [1, 2, 0, 2]
    for name, column in zip(("concentration", "low90", "high90"), numbers.T, strict=True):
        np.testing.assert_allclose(found[name].values[rows, columns], column, rtol=1e-9)
