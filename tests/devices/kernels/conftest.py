import os

import pytest
import torch

# Kernels are compiled where there is a CUDA device; elsewhere Triton interprets them, and it must
# know so before it is imported.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture
def device() -> torch.device:
    return torch.device("cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda")
