"""Whatever a calibration file holds, it estimates finite numbers or is refused in one line."""

import subprocess
import sys
from pathlib import Path

import pytest

from geonode.calibration.mixture_file import MixtureFile
from geonode.calibration.saved import save_calibration
from geonode.commands.spectra_file import spectra_parameters
from geonode.spectra.mixture_series import read_mixtures

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no limit of memory here")
@pytest.mark.parametrize(("several", "count"), [(False, 250), (True, 60)])
@pytest.mark.slow
def test_changed_contents_estimate_or_are_refused(calibration, tmp_path, several, count):
    if several:
        series = read_mixtures(spectra_parameters(ROOT / "data/examples/mixtures.csv"))
        calibration = MixtureFile.of("mixtures.csv", series)
    save_calibration(tmp_path / "intact.safetensors", calibration)
    words = [str(tmp_path / "intact.safetensors"), str(count), str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.calibration.hostile", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    refused, _, total, _ = done.stdout.split()  # and nothing else
    assert int(total) / 2 < int(refused) < int(total)
