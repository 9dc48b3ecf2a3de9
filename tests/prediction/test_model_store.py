import os
from dataclasses import replace

import numpy as np
import pytest
import torch

from geonode.config import InnerParameters, Parameters
from geonode.prediction import model_store
from geonode.prediction.model import SpectralModel
from geonode.prediction.model_store import DECODERS_FILE, ModelStore, key_of
from geonode.progress import silent
from geonode.spectra.chart import Chart
from geonode.spectra.replicates import Replicates
from tests.learning.series import cpu, decoder_parameters, metric_parameters, series, spectra
from tests.storage.damage import flip

SERIES = series(5, 9)


def parameters_of(epochs=2):
    metric = metric_parameters(epochs=epochs)
    decoders = decoder_parameters(epochs=epochs, kind="blend")
    inner = InnerParameters(members=1, levels=None)
    return Parameters(inner=inner, metric=metric, decoders=decoders)


def fit(report=silent):
    return SpectralModel.fit(SERIES, parameters_of(), cpu(), report)


@pytest.fixture(scope="module")
def model():
    """What is learned, by a store that the tests do not look at."""
    fitted = fit()
    return fitted.learned, fitted.blend


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A store that no other test uses."""
    monkeypatch.setenv("GEONODE_CACHE", str(tmp_path / "cache"))
    return ModelStore.of_user()


def test_a_series_is_learned_once(own, monkeypatch):
    steps = [[], []]
    first = fit(report=steps[0].append)
    monkeypatch.setattr("geonode.prediction.model.learn", None)  # nobody calls it
    again = fit(report=steps[1].append)
    assert len(own.entries()) == 1
    assert sum(steps[0]) == sum(steps[1]) > 0
    assert again.learned.charts == first.learned.charts
    np.testing.assert_array_equal(again.features, first.features)
    one, other = (found.left_out() for found in (first, again))
    np.testing.assert_array_equal(one.spectra, other.spectra)
    np.testing.assert_array_equal(one.half_width, other.half_width)


def test_key_is_of_all_that_decides(monkeypatch):
    chart = Chart.of("asinh", 10.0, SERIES.concentrations)
    scans = Replicates.of([np.stack([row, row + 1]) for row in SERIES.signal])
    cases = [
        *[(SERIES, parameters_of(), cpu()), (SERIES, parameters_of(epochs=3), cpu())],
        (SERIES, parameters_of(), cpu(torch.float64)),
        (series(5, 9, np.nextafter(spectra(5, 9), 1)), parameters_of(), cpu()),
        (replace(SERIES, charts=(chart,)), parameters_of(), cpu()),
        (replace(SERIES, replicates=scans), parameters_of(), cpu()),
    ]
    keys = [key_of(*case) for case in cases]
    monkeypatch.setattr(model_store, "code_digest", lambda: "another version")
    keys.append(key_of(*cases[0]))
    assert len(set(keys)) == len(keys)


def test_damaged_entry_is_learned_again(own, model, caplog):
    fit()
    (entry,) = own.entries()
    flip(entry / DECODERS_FILE)
    again = fit()
    assert "learned again" in caplog.text
    assert torch.equal(again.learned.network.weights[0], model[0].network.weights[0])
    assert own.read(entry.name) is not None


def test_the_entry_not_used_for_longest_goes(own, model, monkeypatch):
    keys = ["a" * 64, "b" * 64, "c" * 64]
    own.write(keys[0], *model)
    own.write(keys[1], *model)
    for age, key in enumerate(keys[1::-1]):  # the second is older than the first
        os.utime(own.folder / key, (age, age))
    assert own.read(keys[1]) is not None
    monkeypatch.setattr(model_store, "LARGEST_BYTES", 2 * own.entries()[own.folder / keys[0]])
    own.write(keys[2], *model)
    assert [entry.name for entry in own.entries()] == [keys[1], keys[2]]


def test_nothing_but_entries_is_removed(own, model, monkeypatch):
    monkeypatch.setattr(model_store, "LARGEST_BYTES", 1)
    places = ["data/x", "a.txt", "0123/x"]
    for place in places:
        (own.folder / place).parent.mkdir(parents=True, exist_ok=True)
        (own.folder / place).write_text(place)
    own.write("3" * 64, *model)  # which is itself too large for such a store
    assert own.entries() == {}
    assert [(own.folder / place).read_text() for place in places] == places


def test_a_user_without_a_home_has_no_store_and_a_warning(monkeypatch, caplog):
    def homeless(*_):
        raise RuntimeError("could not determine the home directory")

    monkeypatch.delenv("GEONODE_CACHE")
    monkeypatch.setattr("platformdirs.user_cache_path", homeless)
    store = ModelStore.of_user()
    assert store.entries() == {}
    assert store.read("0" * 64) is None
    assert "home directory or GEONODE_CACHE; learned models are not kept" in caplog.text
