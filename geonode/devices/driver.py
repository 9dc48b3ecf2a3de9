"""The NVIDIA driver, asked without torch, whose import takes longer than all else `probe` does.

Source: NVIDIA, CUDA Driver API (initialization, version and device management).
"""

import sys
from ctypes import CDLL, byref, c_int, create_string_buffer

LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
NAME_BYTES = 256


def first_card(cuda: str) -> str | None:
    """Name of the first GPU for a build of torch; None: there is none that it can use.

    A driver runs programs built for its own version of CUDA, for older ones, and for newer ones of
    the same major version (NVIDIA, CUDA Compatibility: minor version compatibility).

    Args:
        cuda: version of CUDA that torch was built for, such as 13.0.
    """
    try:
        driver = CDLL(LIBRARY)
    except OSError:
        return None
    version, cards, place = c_int(), c_int(), c_int()
    name = create_string_buffer(NAME_BYTES)
    # Every function returns 0 if it succeeds.
    if driver.cuInit(0) or driver.cuDriverGetVersion(byref(version)):
        return None
    too_old = version.value // 1000 < int(cuda.partition(".")[0])
    if too_old or driver.cuDeviceGetCount(byref(cards)) or cards.value == 0:
        return None
    if driver.cuDeviceGet(byref(place), 0) or driver.cuDeviceGetName(name, NAME_BYTES, place):
        return None
    return name.value.decode()
