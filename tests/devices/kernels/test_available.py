import sys
from types import SimpleNamespace

import pytest
import torch

from geonode.devices.kernels.available import usable


@pytest.mark.parametrize("interpreted", [False, True])
def test_kernels_run_on_cuda_or_where_they_are_interpreted(monkeypatch, interpreted):
    knobs = SimpleNamespace(runtime=SimpleNamespace(interpret=interpreted))
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(knobs=knobs))
    assert usable(torch.device("cuda"))
    assert usable(torch.device("cpu")) == interpreted


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_nothing_runs_without_triton(monkeypatch, kind):
    monkeypatch.setitem(sys.modules, "triton", None)
    assert not usable(torch.device(kind))
