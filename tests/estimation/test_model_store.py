import os
from dataclasses import replace

import numpy as np
import pytest
import torch

from geonode.config import InnerParameters
from geonode.estimation import model_store, series_fit
from geonode.estimation.model_store import DECODERS, ModelStore, key_of
from geonode.progress import silent
from geonode.spectra.chart import Chart
from geonode.spectra.replicates import Replicates
from tests.learning.series import cpu, decoder_parameters, metric_parameters, series, spectra

SERIES = series(5, 9)


def blocks(epochs=2, learning="end_to_end", kind="blend"):
    metric = metric_parameters(epochs=epochs, members=1, learning=learning)
    decoders = decoder_parameters(epochs=epochs, members=1, kind=kind)
    return InnerParameters(members=1, levels=None), metric, decoders


def fit(report=silent, **parameters):
    return series_fit.fit_series(SERIES, blocks(**parameters), cpu(), report)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A store that no other test uses."""
    monkeypatch.setenv("GEONODE_CACHE", str(tmp_path / "cache"))
    return ModelStore.of_user()


def test_a_series_is_learned_once(own, monkeypatch):
    steps = [[], []]
    first = fit(report=steps[0].append)
    monkeypatch.setattr(series_fit, "learn", None)  # nobody calls it
    again = fit(report=steps[1].append)
    assert len(own.entries()) == 1
    assert sum(steps[0]) == sum(steps[1]) > 0
    assert again.learned.charts == first.learned.charts
    for one, other in zip(
        again.learned.network.weights, first.learned.network.weights, strict=True
    ):
        assert torch.equal(one, other)
    np.testing.assert_array_equal(again.features, first.features)
    predictions = [found.blend.left_out(SERIES, found.features) for found in (first, again)]
    np.testing.assert_array_equal(predictions[0].spectra, predictions[1].spectra)
    np.testing.assert_array_equal(predictions[0].half_width, predictions[1].half_width)


def test_what_trains_nothing_is_not_kept(own):
    fit(learning="flat", kind="posterior")
    assert not own.entries()


def test_key_is_of_all_that_decides(monkeypatch):
    chart = Chart.of("asinh", 10.0, SERIES.concentrations)
    other = series(5, 9, np.nextafter(spectra(5, 9), 1))
    keys = [
        key_of(found, blocks(), cpu()) for found in (SERIES, other, replace(SERIES, chart=chart))
    ]
    scans = Replicates.of([np.stack([row, row + 1]) for row in SERIES.signal])
    keys += [key_of(replace(SERIES, replicates=scans), blocks(), cpu())]
    keys += [key_of(SERIES, blocks(epochs=3), cpu()), key_of(SERIES, blocks(), cpu(torch.float64))]
    monkeypatch.setattr(model_store, "code_digest", lambda: "another version")
    keys += [key_of(SERIES, blocks(), cpu())]
    assert len(set(keys)) == len(keys)


def test_damaged_entry_is_learned_again(own, caplog):
    first = fit()
    (entry,) = own.entries()
    file = entry / DECODERS
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    again = fit()
    assert "learned again" in caplog.text
    assert torch.equal(again.learned.network.weights[0], first.learned.network.weights[0])
    assert own.read(entry.name) is not None


def test_store_that_cannot_be_written_loses_no_model(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("GEONODE_CACHE", str(tmp_path / "file" / "models"))
    assert fit().learned.members == 1
    assert "not kept" in caplog.text


def test_the_entry_not_used_for_longest_goes(own, monkeypatch):
    keys = ["a" * 64, "b" * 64, "c" * 64]
    model = fit()[:2]
    own.write(keys[0], *model)
    own.write(keys[1], *model)
    for age, key in enumerate(keys[1::-1]):  # the second is older than the first
        os.utime(own.folder / key, (age, age))
    assert own.read(keys[1]) is not None
    monkeypatch.setattr(model_store, "LARGEST_BYTES", 2 * own.entries()[own.folder / keys[0]])
    own.write(keys[2], *model)
    assert [entry.name for entry in own.entries()] == [keys[1], keys[2]]


def test_nothing_but_entries_is_removed(own, monkeypatch):
    monkeypatch.setattr(model_store, "LARGEST_BYTES", 1)
    places = ["data/x", "a.txt", "0123/x"]
    for place in places:
        (own.folder / place).parent.mkdir(parents=True, exist_ok=True)
        (own.folder / place).write_text(place)
    own.write("3" * 64, *fit()[:2])  # which is itself too large for such a store
    assert own.entries() == {}
    assert [(own.folder / place).read_text() for place in places] == places
