"""from_torch: functions that are composed of a few ops, with gradients, beside PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from prograd import Run, from_torch, ops, sgd

X = torch.randn(32, 64, generator=torch.Generator().manual_seed(1))
fold = nn.functional.fold

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "hstack": lambda x: torch.hstack([x, x * 2]),
    "hstack of vectors": lambda x: torch.hstack([x[0], x[1]]),
    "vstack": lambda x: torch.vstack([x[0], x]),
    "dstack": lambda x: torch.dstack([x, x]),
    "atleast_3d": lambda x: torch.atleast_3d(x) * 2,
    "tile": lambda x: x.tile(2),
    "tile with new axes": lambda x: x.tile(2, 1, 3),
    "masked_scatter": lambda x: x.masked_scatter(x > 0, x * 3 + 1),
    "masked_scatter of rows": lambda x: x.masked_scatter(x[:, :1] > 0, x * 3),
    "inner": lambda x: torch.inner(x, x),
    "inner of vectors": lambda x: torch.inner(x[0], x[1]),
    "tensordot": lambda x: torch.tensordot(x.reshape(4, 8, 64), x.reshape(8, 4, 64), dims=([1, 0], [0, 1])),
    "addmv": lambda x: torch.addmv(x[:, 0], x, x[1], beta=0.5, alpha=2),
    "hypot": lambda x: torch.hypot(x, x * 2),
    "copysign": lambda x: torch.copysign(x, -x.flip(0)),
    "copysign of zeros": lambda x: torch.copysign(x, torch.tensor([0.0, -0.0]).repeat(32)),
    "copysign of a number": lambda x: torch.copysign(x, -2.0),
    "round to decimals": lambda x: torch.round(x, decimals=2) + x,
    "round to tens": lambda x: torch.round(x * 100, decimals=-1) + x,
    "searchsorted": lambda x: torch.searchsorted(torch.arange(3.0), x) + x,
    "searchsorted on the right": lambda x: torch.searchsorted(torch.arange(3.0), x.detach().round(), right=True) + x,
    "searchsorted of rows": lambda x: torch.searchsorted(x.detach().sort(-1)[0], x) + x,
    "fold": lambda x: fold(x.reshape(4, 16, 32)[:, :, :9], (4, 4), 2),
    "fold with steps": lambda x: fold(x.reshape(4, 16, 32)[:, :12, :4], (3, 5), (2, 3), stride=(1, 2), padding=0),
    **{
        f"index_reduce by {how}{'' if include else ' without itself'}": lambda x, how=how, include=include: (
            x.index_reduce(1, torch.arange(64) // 3, x.sin() + 2, how, include_self=include)
        )
        for how in ("prod", "mean", "amax", "amin")
        for include in (True, False)
    },
    "index_add": lambda x: x.index_add(1, torch.arange(64) // 3, x.sin(), alpha=2),
    "rrelu in evaluation": lambda x: nn.functional.rrelu(x, 0.1, 0.4),
    "stable sort": lambda x: torch.sort(x.round(), dim=0, stable=True)[1] + x,
    "stable sort, falling": lambda x: torch.sort(x, stable=True, descending=True)[0],
    "signbit": lambda x: torch.signbit(torch.cat([x, -0.0 * x.detach().abs()])) + x.repeat(2, 1),
    "ldexp": lambda x: torch.ldexp(x, torch.arange(64) % 5),  # by negative ones PyTorch's gradient is 0
    **{f"polygamma {n}": lambda x, n=n: torch.polygamma(n, x.square() + 1) for n in (0, 1, 2)},
    "shifts": lambda x: ((x * 10).long() << 1) + ((x * 10).long() >> 1) + x,
}


class Of(nn.Module):
    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function, self.w = function, nn.Parameter(torch.randn(64))

    def forward(self, x: Any) -> Any:
        return self.function(x * self.w)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_are_those_of_pytorch(name: str):
    module = Of(FUNCTIONS[name])
    program = from_torch(module, {"x": X})
    program.fetch("y", program["output"])
    program.minimize(ops.mean(ops.square(program["output"])), sgd(0.1))
    wanted = module(X)
    torch.square(wanted).mean().backward()
    run = Run(program.compile(), engine="reference" if len(name) % 2 else "native")
    np.testing.assert_allclose(run.step({"x": X.numpy()})["y"], wanted.detach(), rtol=1e-4, atol=1e-4)
    stepped = (module.w - 0.1 * module.w.grad).detach()
    np.testing.assert_allclose(run.state["w"], stepped, rtol=1e-4, atol=1e-5)


class Drawn(nn.Module):
    """Draws numbers for each row, as the steps of a diffusion are drawn, and an order of columns."""

    def forward(self, x: Any) -> tuple[Any, ...]:
        steps = torch.randint(2, 7, (x.shape[0], 64)) + 0 * x
        return steps, torch.randint_like(x, 3) + 0 * x, torch.randperm(64, dtype=torch.int32)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_random_integers_and_orders_are_drawn_anew(engine: Any):
    program = from_torch(Drawn(), {"x": X}, batch="batch")
    run = Run(program.compile(batch=32), engine=engine, seed=3)
    steps, others, order = run.predict({"x": X.numpy()}).values()
    assert [*np.unique(steps)] == [2, 3, 4, 5, 6]
    assert [*np.unique(others)] == [0, 1, 2]
    assert order.dtype == np.int32
    assert [*np.sort(order)] == [*range(64)]
    assert [*order] != [*range(64)]
    counts = np.bincount(steps.astype(int).ravel())[2:]
    np.testing.assert_allclose(counts, 32 * 64 / 5, rtol=0.2)


class Masked(nn.Module):
    """Attends by a mask whose elements nn.TransformerEncoder looks at, and leaves out words with the code 0."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(9, 16)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), 2)

    def forward(self, words: Any) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(words.shape[1])
        return self.encoder(self.embedding(words), mask=mask, src_key_padding_mask=words == 0)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.filterwarnings("ignore")
def test_an_encoder_takes_a_mask_and_padding(training: bool):
    module, words = Masked().train(training), torch.randint(1, 9, (5, 7), generator=torch.Generator().manual_seed(1))
    words[2:, 4:] = 0
    program = from_torch(module, {"words": words}, batch="batch")
    found = Run(program.compile(batch=5)).predict({"words": words.numpy()})["output"]
    module.train()
    np.testing.assert_allclose(found, module(words).detach(), rtol=1e-4, atol=1e-5)
