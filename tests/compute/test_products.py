import pytest
import torch

from geonode.compute import products
from geonode.compute.products import fast_products

CPU = torch.device("cpu")
MKLDNN = torch.backends.mkldnn


@pytest.fixture(autouse=True)
def forget():
    products.onednn_is_exact.cache_clear()
    yield
    products.onednn_is_exact.cache_clear()


def matrices(rows, inner, columns):
    generator = torch.Generator().manual_seed(rows)
    return (
        torch.randn(2, *shape, generator=generator) for shape in ((rows, inner), (inner, columns))
    )


@pytest.mark.parametrize("shape", [(7, 5, 64), (640, 64, 128), (2404, 128, 64), (64, 2404, 128)])
def test_products_keep_single_precision(shape):
    left, right = matrices(*shape)
    exact = left.double() @ right.double()
    with fast_products(CPU):
        found = torch.bmm(left, right)
    # N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., equation 3.13
    bound = shape[1] * 2**-24 * (left.double().abs() @ right.double().abs())
    assert ((found.double() - exact).abs() <= bound).all()


def test_the_setting_is_put_back_even_after_an_error():
    before = MKLDNN.matmul.fp32_precision
    with pytest.raises(ZeroDivisionError), fast_products(CPU):
        raise ZeroDivisionError
    assert MKLDNN.matmul.fp32_precision == before


@pytest.mark.skipif(not MKLDNN.is_available(), reason="torch was built without oneDNN")
@pytest.mark.parametrize(("bits", "allowed"), [(8, False), (11, False), (24, True)])
def test_a_library_that_rounds_factors_is_not_asked(bits, allowed, monkeypatch):
    def rounded(left, right):
        factors = (torch.round(part.double() * 2**bits) / 2**bits for part in (left, right))
        return torch.matmul(*factors).float()

    monkeypatch.setattr(torch, "bmm", rounded)
    with fast_products(CPU):
        assert (MKLDNN.matmul.fp32_precision == "bf16") == allowed
