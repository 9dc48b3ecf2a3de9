import tracemalloc
from collections import deque
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geonode.errors import GeometryError
from geonode.geodesics.product import Product, rows_within

SIZES = st.integers(1, 30)


@settings(deadline=None, max_examples=100)
@given(pairs=SIZES, wavelengths=SIZES, rows=st.integers(1, 1_000))
def test_tiles_cover_every_row_once_in_order_and_are_alike(pairs, wavelengths, rows):
    product = Product(pairs, wavelengths)
    times, firsts, sizes = np.zeros((pairs, wavelengths), int), [], []
    for tile in product.tiles(rows):
        part = times[tile]
        part += 1
        assert tile.rows == part.size <= rows
        firsts.append(product.index(tile.pairs.start, tile.wavelengths.start))
        sizes.append(part.shape)
    assert (times == 1).all()
    assert firsts == sorted(firsts)

    across, along = np.array(sizes).T
    if wavelengths <= rows:  # whole pairs, as few tiles as hold them, one more pair in some
        assert set(along) == {wavelengths}
        assert len(sizes) == np.ceil(pairs / np.floor(rows / wavelengths))
        assert np.ptp(across) <= 1
    else:  # the same for the wavelengths of one pair
        assert set(across) == {1}
        assert len(sizes) == pairs * np.ceil(wavelengths / rows)
        assert np.ptp(along) <= 1


@pytest.mark.parametrize(
    ("product", "rows", "expected"),
    [
        (Product(10, 3), 14, [(0, 4, 0, 3), (4, 7, 0, 3), (7, 10, 0, 3)]),
        (Product(2, 10), 4, [(p, p + 1, *w) for p in (0, 1) for w in ((0, 4), (4, 7), (7, 10))]),
        (Product(30, 601), 10**12, [(0, 30, 0, 601)]),
        (Product(1, 2), 1, [(0, 1, 0, 1), (0, 1, 1, 2)]),
    ],
)
def test_tiles_without_a_sliver(product, rows, expected):
    tiles = [(p.start, p.stop, w.start, w.stop) for p, w in product.tiles(rows)]
    assert tiles == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("product", "rows"), [(Product(1_000_000, 1_000), 10_000), (Product(2_000, 500_000), 1_000)]
)
def test_a_billion_rows_are_never_listed(product, rows):
    tracemalloc.start()
    try:
        tiles = product.tiles(rows)
        some = list(islice(tiles, 100))
        assert len(product) == 10**9
        assert product.row(10**9 - 1) == (product.pairs - 1, product.wavelengths - 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000
    assert [tile.rows for tile in some] == [rows] * 100
    starts = [product.index(tile.pairs.start, tile.wavelengths.start) for tile in some]
    assert starts == [rows * i for i in range(100)]
    (last,) = deque(tiles, maxlen=1)
    assert last.rows == rows
    assert (last.pairs.stop, last.wavelengths.stop) == (product.pairs, product.wavelengths)


@settings(deadline=None, max_examples=50)
@given(pairs=SIZES, wavelengths=SIZES)
def test_rows_are_numbered_as_those_of_an_array(pairs, wavelengths):
    product = Product(pairs, wavelengths)
    numbers = np.arange(pairs * wavelengths).reshape(pairs, wavelengths)
    assert len(product) == numbers.size
    for row, number in np.ndenumerate(numbers):
        assert product.index(*row) == number
        assert product.row(int(number)) == row


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: Product(0, 3), "pairs: found 0, expected a number above 0"),
        (lambda: Product(3, -1), "wavelengths: found -1, expected a number above 0"),
        (lambda: Product(3, 4).row(12), "index: found 12, expected 0 to 11"),
        (lambda: Product(3, 4).row(-1), "index: found -1, expected 0 to 11"),
        (lambda: Product(3, 4).index(3, 0), "pair: found 3, expected 0 to 2"),
        (lambda: Product(3, 4).index(0, 4), "wavelength: found 4, expected 0 to 3"),
        (lambda: Product(3, 4).index(0, -1), "wavelength: found -1, expected 0 to 3"),
        (lambda: Product(3, 4).tiles(0), "rows: found 0, expected a number above 0"),
        (lambda: rows_within(99, 100), "memory: found 99 bytes, .* the 100 of one row; allow more"),
        (lambda: rows_within(99, 0), "bytes_per_row: found 0, expected a number above 0"),
    ],
)
def test_what_there_is_not_is_refused(ask, message):
    with pytest.raises(GeometryError, match=message):
        ask()


@pytest.mark.parametrize(
    ("memory", "bytes_per_row", "rows"), [(100, 100, 1), (199, 100, 1), (10**12, 1_000, 10**9)]
)
def test_rows_that_fit_into_memory(memory, bytes_per_row, rows):
    assert rows_within(memory, bytes_per_row) == rows
