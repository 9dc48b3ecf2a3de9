"""The NVIDIA driver, asked without torch, whose import takes longer than all else `probe` does.

Source: NVIDIA, CUDA Driver API (initialization, version and device management).
"""

import logging
import sys
from ctypes import CDLL, byref, c_int, create_string_buffer

LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
NAME_BYTES = 256

_LOG = logging.getLogger(__name__)


def first_card(cuda: str) -> str | None:
    """Name of the first GPU for a build of torch; None: there is none that it can use.

    A driver runs programs built for its own version of CUDA, for older ones, and for newer ones of
    the same major version (NVIDIA, CUDA Compatibility: minor version compatibility). A driver that
    is too old, or fails, is a warning.

    Args:
        cuda: version of CUDA that torch was built for, such as 13.0.
    """
    try:
        driver = CDLL(LIBRARY)
    except OSError:
        return None
    version, cards, place = c_int(), c_int(), c_int()
    name = create_string_buffer(NAME_BYTES)
    status = (
        driver.cuInit(0)
        or driver.cuDriverGetVersion(byref(version))
        or driver.cuDeviceGetCount(byref(cards))
    )
    if status == NO_DEVICE or (status == 0 and cards.value == 0):
        return None
    if status == 0 and version.value // 1000 < int(cuda.partition(".")[0]):
        supported = f"{version.value // 1000}.{version.value % 1000 // 10}"
        _LOG.warning("no GPU: the driver supports CUDA %s, torch needs %s", supported, cuda)
        return None
    status = (
        status
        or driver.cuDeviceGet(byref(place), 0)
        or driver.cuDeviceGetName(name, NAME_BYTES, place)
    )
    if status != 0:
        _LOG.warning("no GPU: the NVIDIA driver reports error %d; see nvidia-smi", status)
        return None
    return name.value.decode()
