"""What the checks of scikit-learn object to in the estimator."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKS = """
import json
import numpy as np
from sklearn.utils.estimator_checks import check_estimator
from geonode import ConcentrationRegressor

found = check_estimator(ConcentrationRegressor(), on_fail=None, on_skip=None)
assert len(found) > 50
print(json.dumps([f"{one['check_name']}: {one['exception']}" for one in found
                  if one["status"] != "passed"]))
"""


@pytest.mark.slow
def test_scikit_learn_finds_nothing_to_object_to():
    # In a process of its own: here, annotations are enforced, also those of __init__, which
    # scikit-learn wants to take anything; and its checks of array APIs want SciPy's switch.
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHECKS],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(run.stdout) == []
