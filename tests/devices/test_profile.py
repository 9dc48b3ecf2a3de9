import os
from types import SimpleNamespace

import pytest
import torch

from geonode.devices import profile
from geonode.devices.profile import Profile, profile_of


def test_a_processor_trains_a_few_models_on_every_core():
    expected = Profile(1_500, os.cpu_count(), 1_000, False, False, 0.0, "float64")
    assert profile_of(torch.device("cpu")) == expected


@pytest.mark.parametrize(("index", "memory_mb"), [(None, 8_000), (0, 8_000), (1, 71_500)])
def test_a_card_lends_half_of_its_memory(monkeypatch, index, memory_mb):
    cards = [
        SimpleNamespace(total_memory=16 * 10**9, major=8),
        SimpleNamespace(total_memory=143 * 10**9, major=9),
    ]
    monkeypatch.setattr(torch.cuda, "get_device_properties", cards.__getitem__)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda place: (9, 0))
    found = profile_of(torch.device("cuda") if index is None else torch.device("cuda", index))
    assert (found.memory_mb, found.batches, found.batch_rows) == (memory_mb, 1, 4_000_000)
    assert (found.captured, found.geometry) == (True, "float64")
    assert found.workspace_mb == pytest.approx(33.55 if index else 8.52, abs=0.01)


@pytest.mark.parametrize("installed", [False, True])
def test_kernels_are_used_on_a_card_where_they_can_be_compiled(monkeypatch, installed):
    card = SimpleNamespace(total_memory=16 * 10**9, major=8)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda place: card)
    monkeypatch.setattr(profile, "usable", lambda place: installed and place.type == "cuda")
    assert profile_of(torch.device("cuda")).kernels == installed
    assert not profile_of(torch.device("cpu")).kernels


def test_mps_has_neither_double_precision_nor_what_cuda_has():
    found = profile_of(torch.device("mps"))
    assert found == Profile(4_000_000, 1, 2_000, False, False, 0.0, "float32")
