"""Networks of torchvision, timm and transformers compute and train as in PyTorch."""

import pytest

torch = pytest.importorskip("torch", reason='needs PyTorch: pip install -e ".[test,frontends]"')

from frontends.agreement import agreement  # noqa: E402 - it needs PyTorch
from frontends.configurations import TRANSFORMERS  # noqa: E402
from frontends.networks import network  # noqa: E402

IMAGES = [
    "torchvision:resnet18",
    "torchvision:mobilenet_v3_small",
    "torchvision:vit_b_16",
    "timm:convnext_atto",
    "timm:mixer_s32_224",
]


@pytest.mark.parametrize("name", [*IMAGES, *(f"transformers:{name}" for name in TRANSFORMERS)])
def test_a_network_predicts_and_trains_as_its_module(name: str):
    module, inputs = network(name)
    found = agreement(module.double(), {key: x.double() if x.is_floating_point() else x for key, x in inputs.items()})
    assert found.outputs < 1e-9
    assert found.loss < 1e-9
    assert found.gradients < 1e-6
    assert found.statistics < 1e-9
