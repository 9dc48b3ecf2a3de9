"""The regressor in scikit-learn: its checks, and what pipelines pass on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from geonode import ConcentrationRegressor
from tests.calibration import beer

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


def test_groups_and_scaled_tables_reach_the_regressor_through_a_pipeline():
    """By metadata routing, and by `set_output` of the steps before it."""
    spectra, levels = np.concatenate(beer.scans(2)), np.repeat(beer.LEVELS, 2)
    table = pd.DataFrame(spectra, columns=[f"{one:g}" for one in beer.AXIS])
    groups = np.arange(len(levels)) // 4
    direct = ConcentrationRegressor(method="pls").fit(spectra, levels, groups)
    centred = StandardScaler(with_std=False)
    with config_context(enable_metadata_routing=True):
        model = ConcentrationRegressor(method="pls").set_fit_request(groups=True)
        model = make_pipeline(centred, model).set_output(transform="pandas")
        found = model.fit(table, levels, groups=groups)[-1]
        np.testing.assert_allclose(
            found.calibration_.left_out["pls"], direct.calibration_.left_out["pls"], rtol=1e-6
        )
        assert list(found.feature_names_in_) == list(table)
        np.testing.assert_allclose(model.predict(table), direct.predict(spectra), rtol=1e-6)
        with pytest.raises(TypeError, match=r"unexpected argument.*sample_weight"):
            make_pipeline(model[-1]).fit(spectra, levels, sample_weight=np.ones(len(levels)))
