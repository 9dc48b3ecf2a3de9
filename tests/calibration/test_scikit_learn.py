"""What the checks of scikit-learn object to in both estimators."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# As few levels as show a curve, so that a fit takes a moment.
CHECKS = """
import json
import numpy as np
from sklearn.utils.estimator_checks import check_estimator
from geonode import ConcentrationRegressor, SpectrumRegressor

class OfFirstColumn(SpectrumRegressor):
    "Reads the first of several columns, to thirds: scikit-learn's checks have up to 200 levels."

    def _concentrations(self, rows):
        return np.round(3 * rows[:, 0]) / 3

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # the first of ten columns says little
        return tags

def failures(estimator):
    found = check_estimator(estimator, on_fail=None, on_skip=None)
    assert len(found) > 50
    return {
        one["check_name"]: f"{type(one['exception']).__name__}: {one['exception']}"
        for one in found if one["status"] != "passed"
    }

of_spectra = [failures(kind(**cheap)) for kind in (OfFirstColumn, SpectrumRegressor)]
print(json.dumps([*of_spectra, failures(ConcentrationRegressor())]))
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
    of_column, refusals, of_concentrations = json.loads(run.stdout)
    # As integers, its concentrations are three different ones.
    assert of_column.keys() == {"check_estimators_dtypes"}
    # The regressor itself takes one column, and refuses those of the checks for no other reason.
    for check, message in (of_column | refusals).items():
        of_columns = "X: found" in message and message.endswith("of concentrations")
        of_levels = "3 different concentrations in 20 rows" in message
        assert message.startswith("SpectraError"), f"{check}: {message}"
        assert of_columns or of_levels, f"{check}: {message}"
    assert of_concentrations == {}
