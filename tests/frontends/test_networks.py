"""Networks of torchvision, timm and transformers compute and train as in PyTorch."""

import pytest

from compiler import CompileError
from frontends.agreement import agreement
from frontends.configurations import TRANSFORMERS
from frontends.double import DoubleThroughout
from frontends.networks import network
from frontends.steps import OPTIMIZERS, differences

IMAGES = [
    "torchvision:resnet18",
    "torchvision:mobilenet_v3_small",
    "torchvision:vit_b_16",
    "timm:convnext_atto",
    "timm:mixer_s32_224",
]


WITH_EXPERTS = ["MixtralForCausalLM", "OlmoeForCausalLM", "GptOssForCausalLM"]
"""Networks that are compared in float32: PyTorch has no grouped products of float64."""

NETWORKS = [*IMAGES, *(f"transformers:{name}" for name in TRANSFORMERS if name not in WITH_EXPERTS)]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_predicts_and_trains_as_its_module(name: str):
    module, inputs = network(name)
    inputs = {key: x.double() if x.is_floating_point() else x for key, x in inputs.items()}
    try:
        with DoubleThroughout():  # else norms and rotary positions of some networks are float32
            found = agreement(module.double(), inputs)
    except CompileError:  # some modules compare dtypes with float32
        found = agreement(module.double(), inputs)
    assert found.outputs < 1e-9
    assert found.loss < 1e-9
    assert found.gradients < 1e-6
    assert found.statistics < 1e-9


@pytest.mark.parametrize("name", WITH_EXPERTS)
def test_a_network_with_experts_predicts_and_trains_as_its_module(name: str):
    found = agreement(*network(f"transformers:{name}"))
    assert found.outputs < 1e-5
    assert found.loss < 1e-5
    assert found.gradients < 1e-5


STEPPED = ["DistilBertModel", "GPT2LMHeadModel", "ViTModel", "BertModel", "OPTForCausalLM", "RobertaModel"]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", STEPPED)
def test_five_steps_end_at_the_states_of_pytorch(name: str, optimizer: str):
    module, inputs = network(f"transformers:{name}")
    given = {key: x.double() if x.is_floating_point() else x for key, x in inputs.items()}
    assert differences(module.double(), given, optimizer) < 1e-9
