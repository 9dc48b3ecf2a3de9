import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geonode.errors import SpectraError
from geonode.spectra.chart import Chart

LEVELS = np.array([10.0, 20.0, 30.0, 40.0, 60.0])

kinds = st.one_of(
    st.tuples(st.just("linear"), st.none()),
    st.tuples(st.just("log"), st.none()),
    st.tuples(st.just("asinh"), st.floats(1e-6, 1e6)),
)
ends = st.tuples(st.floats(1e-3, 1e4), st.floats(1.01, 1e4)).map(lambda e: (e[0], e[0] * e[1]))


@settings(max_examples=40)
@given(kinds, ends, st.floats(-1.5, 1.5))
def test_position_inverts_concentration_exactly_at_the_ends(kind, ends, position):
    chart, both = Chart.of(*kind, np.array(ends[::-1])), np.array([-1.0, 1.0])
    np.testing.assert_array_equal(chart.position(np.array(ends)), both)
    np.testing.assert_array_equal(chart.concentration(both), ends)
    concentration = chart.concentration(np.array([position]))
    # Rounding of the arc length at the ends, relative to the arc length between them: the charts
    # of the narrowest series (1.01) are conditioned like 1e3 to 1e4.
    np.testing.assert_allclose(chart.position(concentration), [position], atol=1e-10)


@pytest.mark.parametrize(
    ("kind", "kappa", "root"),  # sqrt(g) of the reference metric, up to a factor
    [
        ("linear", None, lambda c: 1 + 0 * c),
        ("log", None, lambda c: 1 / c),
        ("asinh", 7.0, lambda c: 1 / np.sqrt(c**2 + 49)),
    ],
)
def test_charts_against_numerical_arc_length(kind, kappa, root):
    low, high = 3.0, 60.0
    nodes, weights = np.polynomial.legendre.leggauss(60)

    def arc_length(stop):
        half = (stop - low) / 2
        return half * np.sum(weights * root(low + half * (nodes + 1)))

    concentrations = np.array([0.5, 12.0, 47.0, 80.0])
    expected = [2 * arc_length(c) / arc_length(high) - 1 for c in concentrations]
    found = Chart.of(kind, kappa, np.array([low, high])).position(concentrations)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("kappa", [1e-290, 1e-100, 1e-12, 1e-2, 1e4, 1e8, 1e100, 1e290])
def test_asinh_chart_approaches_the_others_at_both_ends_of_kappa(kappa):
    c = np.linspace(5.0, 70.0, 27)
    kind, error = (
        # asinh(u) = u - u^3/6 + ...: a relative error of at most u^2 / 2, and rounding.
        ("linear", (70 / kappa) ** 2 + 4e-15)
        if kappa > 1
        # asinh(c/k) = ln(2c/k) + (k/c)^2/4 - ...; rounding grows with ln(c/k), 670 at 1e-290.
        else ("log", (kappa / 5) ** 2 + 2e-15 * np.log(70 / kappa))
    )
    limit = Chart.of(kind, None, LEVELS).position(c)
    np.testing.assert_allclose(
        Chart.of("asinh", kappa, LEVELS).position(c), limit, rtol=0, atol=error
    )


@pytest.mark.parametrize(
    ("kind", "kappa", "levels", "message"),
    [
        ("log", None, [10, 0, 60], r"level 0 .*use chart asinh with a kappa"),
        ("log", None, [10, -2, 60], r"level -2 .*use chart asinh with a kappa"),
        *(("asinh", k, [0, 60], "found kappa .* up to 60") for k in (-1, np.nan, 1e-305, 1e300)),
        ("asinh", None, LEVELS, "chart asinh: found kappa None"),
        ("linear", 1.0, LEVELS, "chart linear: found kappa 1.0"),
        ("log", 1.0, LEVELS, "chart log: found kappa 1.0"),
        ("linear", None, [0, 1e-12, 1, 1e5], "levels 0 and 1e-12 at one position"),
        *(
            ("linear", None, found, "two finite, dif")
            for found in ([5, 5], [0, np.inf], [np.nan, 1])
        ),
    ],
)
def test_a_chart_that_does_not_fit_is_refused(kind, kappa, levels, message):
    with pytest.raises(SpectraError, match=message):
        Chart.of(kind, kappa, np.array(levels, dtype=float))


@pytest.mark.parametrize("kappa", [0.0, 7.0, np.inf])
def test_beyond_what_is_known_a_chart_goes_on_as_it_is_at_the_end(kappa):
    chart = Chart(kappa, 0.0, 60.0, (10.0, 40.0))
    whole = Chart(kappa, 10.0, 40.0)
    below, known, above = np.linspace(0, 10, 6), np.linspace(10, 40, 9), np.linspace(40, 60, 6)
    # inside it is the chart of that part, scaled
    inside = chart.position(known)
    share = (inside - inside[0]) / (inside[-1] - inside[0])
    np.testing.assert_allclose(share, (whole.position(known) + 1) / 2, atol=1e-14)
    # outside it is straight, with the slope 1 / sqrt(c^2 + kappa^2) of the end
    step = 1e-6
    for part, end, towards in ((below, 10.0, step), (above, 40.0, -step)):
        slopes = np.diff(chart.position(part)) / np.diff(part)
        near = np.diff(chart.position(np.array([end, end + towards])))[0] / towards
        np.testing.assert_allclose(slopes, near, rtol=1e-5)
    every = np.linspace(0, 60, 31)
    np.testing.assert_allclose(chart.concentration(chart.position(every)), every, atol=1e-12)
