"""Networks have the states of PyTorch after five steps of its optimizers, in float64."""

import pytest

torch = pytest.importorskip("torch", reason='needs PyTorch: pip install -e ".[test,frontends]"')

from frontends.networks import network  # noqa: E402 - it needs PyTorch
from frontends.steps import OPTIMIZERS, differences  # noqa: E402

NETWORKS = ["DistilBertModel", "GPT2LMHeadModel", "ViTModel", "BertModel", "OPTForCausalLM", "RobertaModel"]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_five_steps_end_at_the_states_of_pytorch(name: str, optimizer: str):
    module, inputs = network(f"transformers:{name}")
    given = {key: x.double() if x.is_floating_point() else x for key, x in inputs.items()}
    assert differences(module.double(), given, optimizer) < 1e-9
