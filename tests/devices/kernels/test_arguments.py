import pytest
import torch

from geonode.devices.kernels.arguments import require_tensor
from geonode.errors import GeometryError

CPU, META = torch.device("cpu"), torch.device("meta")


@pytest.mark.parametrize(
    ("shape", "dtype", "device"),
    [
        ((3, 4), torch.float32, CPU),
        ((3,), torch.float32, CPU),
        ((3, 5, None), torch.float32, CPU),
        ((3, 5), torch.float64, CPU),
        ((3, 5), torch.float32, META),
    ],
)
def test_another_shape_format_or_device_is_refused(shape, dtype, device):
    with pytest.raises(GeometryError, match=r"root: found torch.float32 of shape \[3, 5\] on cpu"):
        require_tensor("root", torch.ones(3, 5), shape, dtype, device)


def test_a_length_may_be_open_but_not_zero():
    require_tensor("root", torch.ones(3, 5), (3, None), torch.float32, CPU)
    with pytest.raises(GeometryError, match=r"expected torch.float32 of shape \[3, 1 or more\]"):
        require_tensor("root", torch.ones(3, 0), (3, None), torch.float32, CPU)
