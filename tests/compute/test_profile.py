import os

import pytest
import torch

from geonode.compute.kernels import available
from geonode.compute.profile import Profile, profile_of

OLD, SMALL, LARGE = (
    ("Old", 10**9, (7, 5)),
    ("Small", 16 * 10**9, (8, 0)),
    ("Large", 143 * 10**9, (9, 0)),
)


def test_a_processor_trains_a_few_models_on_every_core_and_mps_many_at_once(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 5}, raising=False)
    processor = Profile(3_000, 3, 3, 1_000, False, False)
    assert profile_of(torch.device("cpu")) == processor
    mps = Profile(4_000_000, 1, 1, 2_000, False, False)
    assert profile_of(torch.device("mps")) == mps


@pytest.mark.parametrize("installed", [False, True])
@pytest.mark.parametrize(
    ("index", "memory_mb", "new"),
    [(None, 500, False), (0, 500, False), (1, 8_000, True), (2, 71_500, True)],
)
def test_a_card_lends_half_of_its_memory_and_newer_ones_run_kernels(
    machine, monkeypatch, installed, index, memory_mb, new
):
    machine(OLD, SMALL, LARGE)
    monkeypatch.setattr(available, "find_spec", lambda name: object() if installed else None)
    found = profile_of(torch.device("cuda", index) if index is not None else torch.device("cuda"))
    assert (found.memory_mb, found.batches, found.tiles) == (memory_mb, 1, 4)
    assert found.batch_rows == 4_000_000
    assert found.captured
    assert found.kernels == (installed and new)
