import re
import sys

import numpy as np
import pytest

from geonode.usage import memory_in_use, resident_memory


@pytest.mark.skipif(sys.platform != "linux", reason="not reported elsewhere")
def test_memory_is_what_is_held_and_its_peak():
    (before, _), held = resident_memory(), np.ones(20_000_000)
    now, peak = resident_memory()
    assert now - before == pytest.approx(held.nbytes, rel=0.1)
    found = re.search(r"resident memory ([\d,]+) MB, at its peak ([\d,]+) MB", memory_in_use())
    said = [float(number.replace(",", "")) for number in found.groups()]
    assert said == pytest.approx([now / 1e6, peak / 1e6], abs=3)
    del held
    assert resident_memory()[1] > 0.99 * now
