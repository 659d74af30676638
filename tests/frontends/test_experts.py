"""Mixtures of experts of transformers compute all rows while they are exported, with the results of chosen rows."""

import itertools
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from transformers.integrations import moe

from compiler.frontends.torch.experts import all_experts
from frontends.agreement import agreement
from frontends.networks import network

ROWS, EXPERTS, CHOSEN, SIZE, HIDDEN = 32, 4, 2, 64, 32


class Experts(nn.Module):
    """Experts with the attributes by which transformers describes them."""

    def __init__(self, *, has_gate: bool, has_bias: bool, is_transposed: bool, has_post_expert_norm: bool) -> None:
        super().__init__()
        self.config = SimpleNamespace(_experts_implementation="batched_mm")
        self.num_experts, self._is_expert_parallel = EXPERTS, False
        self.has_gate, self.has_bias, self.is_transposed = has_gate, has_bias, is_transposed
        self.has_post_expert_norm = has_post_expert_norm
        wide = 2 * HIDDEN if has_gate else HIDDEN
        first, second = (SIZE, wide), (HIDDEN, SIZE)
        name = "gate_up_proj" if has_gate else "up_proj"
        for key, shape in ((name, first), ("down_proj", second)):
            weights = torch.randn(EXPERTS, *(shape if is_transposed else shape[::-1]), dtype=torch.float64)
            setattr(self, key, nn.Parameter(weights))
            if has_bias:
                setattr(self, f"{key}_bias", nn.Parameter(torch.randn(EXPERTS, shape[1], dtype=torch.float64)))

    def forward(self, rows: torch.Tensor, chosen: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        implementation = moe.ALL_EXPERTS_FUNCTIONS.get_interface(self.config._experts_implementation, None)
        return implementation(self, rows, chosen, shares)

    def post_expert_norm(self, rows: torch.Tensor) -> torch.Tensor:
        return rows / (1 + rows.abs().mean(-1, keepdim=True))

    def act_fn(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x)

    _apply_gate = moe._default_apply_gate


@pytest.mark.parametrize(("gate", "bias", "transposed", "norm"), [*itertools.product([False, True], repeat=4)])
def test_all_experts_sum_to_the_results_of_the_chosen_ones(gate: bool, bias: bool, transposed: bool, norm: bool):
    torch.manual_seed(0)
    module = Experts(has_gate=gate, has_bias=bias, is_transposed=transposed, has_post_expert_norm=norm)
    rows = torch.randn(ROWS, SIZE, dtype=torch.float64)
    shares, chosen = torch.rand(ROWS, EXPERTS, dtype=torch.float64).topk(CHOSEN)
    wanted = module(rows, chosen, shares)
    with all_experts(torch, module):
        found = module(rows, chosen, shares)
    assert module.config._experts_implementation == "batched_mm"
    assert float((found - wanted).detach().abs().max()) < 1e-11 * float(wanted.detach().abs().max())


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_a_decoder_with_experts_predicts_and_trains_as_its_module(engine: str):
    module, inputs = network("transformers:MixtralForCausalLM")
    found = agreement(module, inputs, engine=engine)
    assert found.outputs < 1e-4
    assert max(found.loss, found.gradients) < 1e-3
