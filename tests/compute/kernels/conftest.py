import os

import pytest
import torch


@pytest.fixture
def device() -> torch.device:
    """Where kernels run: on the processor if Triton interprets them."""
    return torch.device("cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda")
