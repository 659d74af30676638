"""Attention with dropout of the probabilities: the module's in evaluation, counted streams in training."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

import prograd

ROWS, HEADS, LENGTH = 4, 4, 32


class Dropped(nn.Module):
    """Attention whose values are rows of the unit matrix, so that its result has the probabilities."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
        values = torch.eye(LENGTH).expand(q.shape[0], HEADS, LENGTH, LENGTH)
        rate = 0.25 if self.training else 0.0
        return scaled_dot_product_attention(q * self.scale, k, values, attn_mask=mask[:, None, None], dropout_p=rate)


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_probabilities_are_kept_and_scaled_or_dropped_and_a_row_without_keys_is_zero(engine: str):
    torch.manual_seed(0)
    module = Dropped()
    q, k = torch.randn(2, ROWS, HEADS, LENGTH, 8)
    mask = torch.arange(LENGTH) < torch.tensor([[LENGTH], [20], [7], [0]])
    program = prograd.from_torch(module, {"q": q, "k": k, "mask": mask}, batch="batch")
    output = program["output"]
    program.fetch("drawn", output)
    [(_, gradient)] = program.minimize(prograd.ops.mean(prograd.ops.square(output)), prograd.sgd(0.0))
    program.fetch("gradient", gradient)
    compiled = program.compile(batch=ROWS)
    kinds = {
        entry.name: {op.type for b in entry.bindings for op in compiled.desc.blocks[b.block].ops}
        for entry in compiled.desc.entries
    }
    assert "scaled_dot_product_attention" in kinds["predict"] - kinds["train"]
    assert "softmax" in kinds["train"] - kinds["predict"]
    assert "attention_gradient" not in kinds["train"]
    run = prograd.Run(compiled, engine=engine)
    feeds = {"q": q.numpy(), "k": k.numpy(), "mask": mask.numpy()}
    wanted = module.eval()(q, k, mask).detach().numpy()
    np.testing.assert_allclose(run.predict(feeds)["output"], wanted, rtol=1e-4, atol=1e-6)
    first, second = (run.step(feeds)["drawn"] for _ in range(2))
    kept = first != 0
    np.testing.assert_allclose(first[kept], wanted[kept] / 0.75, rtol=1e-4)
    share = kept[wanted > 0].mean()
    assert 0.73 < share < 0.77, share
    assert ((first != 0) != (second != 0)).any()
    assert not first[3].any()
    assert np.isfinite(run.step(feeds)["gradient"])
