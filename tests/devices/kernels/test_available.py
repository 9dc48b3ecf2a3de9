import pytest
import torch

from geonode.devices.kernels import available
from geonode.devices.kernels.available import usable


@pytest.mark.parametrize("installed", [False, True])
def test_kernels_run_on_cuda_where_triton_is_installed(monkeypatch, installed):
    monkeypatch.setattr(available, "find_spec", lambda name: object() if installed else None)
    assert usable(torch.device("cuda")) == installed
    assert not usable(torch.device("cpu"))
