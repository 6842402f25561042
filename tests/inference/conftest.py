"""Every test of inference runs on every backend that is there."""

import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # inference_models

BACKENDS = ["reference"]
if importlib.util.find_spec("blendfield._core") and importlib.util.find_spec("blendfield.backends.cpu"):
    BACKENDS.append("cpu")


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param
