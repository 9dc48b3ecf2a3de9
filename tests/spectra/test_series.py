import numpy as np
import pytest
import xarray

from geonode.config import SpectraParameters
from geonode.errors import ArtifactError, CorruptArtifactError, MissingArtifactError
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series, read_series, write_series
from geonode.spectra.table import SpectraTable
from geonode.storage.artifact import open_artifact
from tests.storage.damage import contents

LEVELS = np.array([0.0, 5.0, 20.0, 60.0])
AXIS = np.array([400.0, 410.0, 425.0, 500.0, 600.0])


def table(replicates=(1, 3, 1, 2), first=0.0):
    random = np.random.default_rng(0)
    return SpectraTable(
        axis=AXIS,
        axis_name="raman_shift",
        axis_unit="cm-1",
        concentrations=np.array([first, *LEVELS[1:]]),
        scans=[random.normal(size=(count, len(AXIS))) for count in replicates],
        masked=np.array([405.0, 450.0]),
    )


def parameters(**changes):
    values = {
        "source": "series.csv",
        "quantity": "intensity",
        "unit": "counts",
        "concentration_unit": "ppb",
        "chart": "linear",
        "kappa": None,
        "window": None,
        "missing": "mask",
    }
    return SpectraParameters(**(values | changes))


def chart_of(kind, kappa):
    return Chart.of(kind, kappa, LEVELS)


def test_a_written_series_reads_back(tmp_path):
    written, chart = table(), chart_of("linear", None)
    write_series(tmp_path / "spectra.zarr", written, chart, parameters())
    series = read_series(tmp_path / "spectra.zarr")
    np.testing.assert_array_equal(series.concentrations, LEVELS)
    np.testing.assert_array_equal(series.axis, AXIS)
    np.testing.assert_array_equal(series.signal, [scans.mean(axis=0) for scans in written.scans])
    assert series.chart == chart
    assert series.labels == {
        "signal": "intensity",
        "signal_unit": "counts",
        "axis": "raman_shift",
        "axis_unit": "cm-1",
        "concentration_unit": "ppb",
    }


@pytest.mark.parametrize("kind", [("linear", None), ("log", None), ("asinh", 0.1 + 0.2)])
def test_every_chart_survives_to_the_last_bit(tmp_path, kind):
    # The kappa of a linear chart may be infinite, which JSON has no number for.
    positive = table(first=0.7)
    chart = Chart.of(*kind, positive.concentrations)
    write_series(tmp_path / "spectra.zarr", positive, chart, parameters())
    assert read_series(tmp_path / "spectra.zarr").chart == chart


def test_charted_positions_and_wavelengths():
    series = Series(LEVELS, AXIS, np.zeros((4, 5)), chart_of("linear", None), {})
    np.testing.assert_allclose(series.positions, [-1, -5 / 6, -1 / 3, 1])
    np.testing.assert_allclose(series.wavelengths, [-1, -0.9, -0.75, 0, 1])
    # The ends are exact: a geometry on [-1, 1] has nothing beyond.
    assert (series.wavelengths[0], series.wavelengths[-1]) == (-1, 1)


@pytest.mark.parametrize(("low", "high"), [(200.1, 800.7), (1e-9, 3e7), (-0.3, 0.1)])
def test_ends_of_any_axis_are_exact(low, high):
    axis = np.linspace(low, high, 7)
    series = Series(LEVELS, axis, np.zeros((4, 7)), chart_of("linear", None), {})
    assert (series.wavelengths[0], series.wavelengths[-1]) == (-1, 1)


def test_a_single_wavelength_is_in_the_middle():
    series = Series(LEVELS, AXIS[:1], np.zeros((4, 1)), chart_of("linear", None), {})
    np.testing.assert_array_equal(series.wavelengths, [0.0])


@pytest.mark.parametrize(
    ("axis_unit", "signal_unit", "labels"),
    [
        ("nm", "1", ("raman shift (nm)", "intensity")),
        ("1", "counts", ("raman shift", "intensity (counts)")),
    ],
)
def test_labels_have_units_unless_dimensionless(axis_unit, signal_unit, labels):
    given = {
        "signal": "intensity",
        "signal_unit": signal_unit,
        "axis": "raman_shift",
        "axis_unit": axis_unit,
    }
    series = Series(LEVELS, AXIS, np.zeros((4, 5)), chart_of("linear", None), given)
    assert (series.axis_label, series.signal_label) == labels


def test_the_artifact_explains_itself_to_xarray(tmp_path):
    written = table()
    write_series(tmp_path / "spectra.zarr", written, chart_of("linear", None), parameters())
    with xarray.open_zarr(tmp_path / "spectra.zarr", consolidated=False) as data:
        assert data["signal"].dims == ("concentration", "wavelength")
        assert data["signal"].attrs["units"] == "counts"
        assert data["signal"].attrs["long_name"] == "intensity"
        assert data["concentration"].attrs["units"] == "ppb"
        assert data["wavelength"].attrs == {"units": "cm-1", "long_name": "raman_shift"}
        np.testing.assert_allclose(data["position"], [-1, -5 / 6, -1 / 3, 1])
        np.testing.assert_array_equal(data["scans"], [1, 3, 1, 2])
        np.testing.assert_array_equal(data["replicate_level"], [1, 1, 1, 3, 3])
        deviations = [written.scans[level] - written.scans[level].mean(0) for level in (1, 3)]
        np.testing.assert_array_equal(data["replicate_deviation"], np.concatenate(deviations))
        assert data.attrs["masked"] == [405.0, 450.0]
        spectrum = data["signal"].sel(concentration=20.0, wavelength=425.0)
        assert float(spectrum) == written.scans[2].mean(0)[2]


@pytest.mark.parametrize("counts", [(1, 1, 1, 1), (1, 3, 1, 2)])
def test_replicates_read_back(tmp_path, counts):
    written = table(counts)
    write_series(tmp_path / "spectra.zarr", written, chart_of("linear", None), parameters())
    found = read_series(tmp_path / "spectra.zarr").replicates
    assert found.scans.tolist() == list(counts)
    for name in ("level", "deviations"):
        np.testing.assert_array_equal(getattr(found, name), getattr(written.replicates, name))


def test_the_same_series_gives_the_same_bytes(tmp_path):
    for name in ("one.zarr", "two.zarr"):
        write_series(tmp_path / name, table(), chart_of("asinh", 7.0), parameters())
    assert contents(tmp_path / "one.zarr") == contents(tmp_path / "two.zarr")


def test_artifacts_about_a_series_have_its_axis(tmp_path):
    write_series(tmp_path / "spectra.zarr", table(), chart_of("linear", None), parameters())
    series = read_series(tmp_path / "spectra.zarr")
    with series.artifact_writer(tmp_path / "other.zarr", {"of": "test"}) as writer:
        writer.stored("value", ("wavelength",), np.arange(5.0), units="1", long_name="values")
    other = open_artifact(tmp_path / "other.zarr")
    np.testing.assert_array_equal(other["wavelength"], AXIS)
    assert other.attributes["of"] == "test"


def test_a_missing_a_damaged_and_a_foreign_artifact(tmp_path):
    path = tmp_path / "spectra.zarr"
    with pytest.raises(MissingArtifactError, match=r"spectra\.zarr: not found"):
        read_series(path)
    write_series(path, table(), chart_of("linear", None), parameters())
    series = read_series(path)
    with series.artifact_writer(tmp_path / "other.zarr", {}) as writer:
        writer.stored("value", ("wavelength",), np.arange(5.0), units="1", long_name="values")
    with pytest.raises(ArtifactError, match=r"other\.zarr: no array 'concentration'"):
        read_series(tmp_path / "other.zarr")
    chunk = next(file for file in (path / "signal").rglob("0") if file.is_file())
    chunk.write_bytes(bytes([chunk.read_bytes()[0] ^ 1]) + chunk.read_bytes()[1:])
    with pytest.raises(CorruptArtifactError, match="'signal'"):
        read_series(path)
