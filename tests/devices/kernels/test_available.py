import pytest
import torch

from geonode.devices.kernels import available
from geonode.devices.kernels.available import usable


@pytest.mark.parametrize("installed", [False, True])
@pytest.mark.parametrize(("capability", "new"), [((7, 5), False), ((8, 0), True), ((12, 1), True)])
def test_kernels_run_on_newer_cards_where_triton_is_installed(
    monkeypatch, installed, capability, new
):
    monkeypatch.setattr(available, "find_spec", lambda name: object() if installed else None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert usable(torch.device("cuda")) == (installed and new)
    assert not usable(torch.device("cpu"))
