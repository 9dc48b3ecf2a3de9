"""The page of several substances in a browser: what it draws, and the surface that it computes."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from geonode.calibration.mixture_file import MixtureFile
from geonode.report.mixture_page import mixture_page
from geonode.spectra.mixture_series import MixtureSeries

from geonode.report.calibration_tables import tables
from geonode.spectra.series import NOTHING
from tests.mixtures import beer
from tests.report.test_browser import CHROMIUM, PHONE, SCREEN, assert_well_drawn, browse, marks

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on PATH"),
]

# Both sliders are moved by key, as it were, and the cells of one surface are saved.
SCRIPT = """
async function report(page, view) {
  await drawn(page);
  const first = look(page), told = [];
  for (const [name, value] of [['wavelength', 7], ['others', 4]]) {
    const input = page.getElementById(name);
    if (input.tabIndex < 0 || !input.closest('label')) errors.push(`${name} cannot be reached`);
    input.value = value;
    input.dispatchEvent(new view.Event('input', {bubbles: true}));
    told.push(page.getElementById(`${name}-at`).textContent);
  }
  await wait(500);
  const saved = [];
  view.URL.createObjectURL = blob => { saved.push(blob); return '#'; };
  page.querySelector('figure[data-figure=surface_0_2] [data-save=csv]').click();
  return {...of_page(page, view), first, second: look(page), told, csv: await saved[0].text()};
}
</script>
"""


@pytest.fixture(scope="module")
def mixtures():
    known = beer.amounts(14, 3)
    labels = {"signal": "absorbance", "signal_unit": "1", "axis": "wavelength", "axis_unit": "nm"}
    names, axis = ("<lead>", "zinc", "iron"), np.arange(400.0, 700, 5)
    signal = beer.spectra(known, noise=5e-3, bend=1.0)
    samples = [f"m{place}" for place in range(14)]
    series = MixtureSeries(samples, names, ("ppm",) * 3, known, axis, signal, labels, NOTHING)
    return MixtureFile.of("known.csv", series)


@pytest.mark.parametrize("width", [PHONE, SCREEN])
def test_the_page_of_mixtures_is_drawn_and_follows_its_sliders(mixtures, width, tmp_path):
    page = mixture_page(mixtures, tables(mixtures), Path("calibration.safetensors"))
    seen, console = browse(tmp_path, page, SCRIPT, width=width)
    assert (console, seen["errors"], seen["loaded"]) == ([], [], [])
    assert (seen["width"], seen["wide"]) == (width, width)
    assert_well_drawn(seen["first"])
    assert_well_drawn(seen["second"])
    drawn = marks(seen["second"])  # lines, areas, rectangles, rules, symbols
    for one in range(3):
        assert drawn[f"true_{one}"] == (1, 0, 0, 14, 28)
        assert drawn[f"methods_{one}"] == (0, 0, len(mixtures.calibration.rmsep), 0, 0)
        assert drawn[f"pure_{one}"] == (1, 1, 0, 1, 0)
    for pair in ("0_1", "0_2", "1_2"):
        assert drawn[f"surface_{pair}"] == (0, 0, 15 * 15, 0, 14)
        lines, _, _, sides, points = drawn[f"design_{pair}"]
        assert (lines, points) == (0, 14)
        assert sides >= 3
    assert seen["told"] == ["435 nm", "100 % of their ranges"]
    cells = pd.read_csv(io.StringIO(seen["csv"].split("\n\n")[0]))
    assert cells[["x", "y"]].min().tolist() == pytest.approx(
        mixtures.calibration.design.low[[0, 2]]
    )
    middle = (cells[["x", "y"]].to_numpy() + cells[["x2", "y2"]].to_numpy()) / 2
    high = np.full(len(cells), mixtures.calibration.design.high[1])
    amounts = np.column_stack([middle[:, 0], high, middle[:, 1]])
    forward = mixtures.calibration.forward
    scores = forward.surface.at(torch.from_numpy(amounts))[0].numpy()
    expected = forward.mean[7] + scores @ forward.directions[7]
    away = np.abs(cells["signal"] - expected)
    assert away.max() < 5e-3 * np.ptp(expected)
