"""Gradients at ties, writes to every second element, masks of attention, and layers that cannot come in."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from compiler import CompileError
from frontends.agreement import agreement
from prograd import Run, from_torch


class Calls(nn.Module):
    """A function of a weight with ties and zeros, scaled by the input."""

    def __init__(self, functions: dict[str, Callable[[torch.Tensor], torch.Tensor]]) -> None:
        super().__init__()
        self.functions = functions
        rows = [[0.0, 1, 1, -1], [2, 2, 2, 2], [0, 0, 0, 0], [-0.5, 0.5, -3, 3], [1, 0, -1, 6], [0.5, -0.5, 0, 20]]
        rows = torch.tensor(rows, dtype=torch.float64)
        self.weights = nn.ParameterList([nn.Parameter(rows.clone()) for _ in functions])

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        pairs = zip(self.functions.items(), self.weights, strict=True)
        return {name: function(w)[None] * x.mean() for (name, function), w in pairs}


def _written(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, ::2] = x[:, 1::2] * 3
    y[1:6:3] = 0.5 * x[:2]
    return y


TIES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "max_of_rows": lambda x: x.max(1)[0],
    "min_of_columns": lambda x: x.min(0, keepdim=True)[0],
    "amax": lambda x: x.amax(1),
    "max_of_all": lambda x: x.max()[None],
    "maximum": lambda x: torch.maximum(x, x.flip(1)),
    "clamp": lambda x: x.clamp(-1, 1) + F.hardtanh(x),
    "norm": lambda x: x.norm(dim=1),
    "normalize": lambda x: F.normalize(x, dim=1),
    "distances": lambda x: torch.cdist(x, x),
    "deviation": lambda x: x.std(1) + torch.std_mean(x, 1)[1],
    "products": lambda x: x.prod(1),
    "powers": lambda x: x**2 + x**3 + 2.0**x,
    "steps": lambda x: _written(x),
    "finite": lambda x: torch.isfinite(1 / x).double() * x + torch.nan_to_num(x),
    "numbers": lambda x: torch.fmax(x, x.flip(1)) + 2 * torch.fmin(x, x.flip(1)),
    "signs": lambda x: torch.where(x > 0, 1.0, -1.0) * x,
    "logit": lambda x: torch.logit(x.sigmoid(), eps=1e-6),
    "rows": lambda x: x.index_copy(0, torch.tensor([0, 3]), x[4:]),
    "bags": lambda x: F.embedding_bag(torch.tensor([[0, 1], [1, 2]]), x),
    "trace": lambda x: x[:4].trace()[None],
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], attn_mask=(x @ x.T)[None])[0],
}


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_gradients_at_ties_are_those_of_pytorch(engine: str):
    found = agreement(Calls(TIES), {"x": torch.full((3, 2), 0.7, dtype=torch.float64)}, engine=engine)
    assert max(found.outputs, found.loss, found.gradients) < 1e-9, found


REFUSED: dict[str, tuple[Callable[[], nn.Module], torch.Tensor]] = {
    "torch.export loses the running statistics of InstanceNorm; make it with track_running_stats=False": (
        lambda: nn.InstanceNorm2d(2, track_running_stats=True),
        torch.ones(2, 2, 3, 3),
    ),
    "scale_grad_by_freq=True divides gradients by counts of codes, which no operator does": (
        lambda: nn.Embedding(4, 3, scale_grad_by_freq=True),
        torch.ones(2, 2, dtype=torch.int64),
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_layer_that_would_train_otherwise_is_refused(message: str):
    make, x = REFUSED[message]
    with pytest.raises(CompileError) as raised:
        from_torch(make(), {"input": x})
    assert str(raised.value).startswith("from_torch: 1 operator cannot be imported: aten.")
    assert str(raised.value).endswith(message)


def test_an_export_that_fails_prints_nothing(capfd: Any):
    class Guarded(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if (x > 0).any() else x

    with pytest.raises(CompileError, match=r"torch\.export cannot export Guarded"):
        from_torch(Guarded(), {"x": torch.ones(3)})
    assert capfd.readouterr() == ("", "")


class Likelihood(torch.nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, x: Any) -> Any:
        return torch.distributions.Normal(torch.zeros(4), torch.ones(4), **self.options).log_prob(x)


def test_a_distribution_that_checks_its_tensors_is_refused_with_the_option_that_it_needs():
    x = torch.randn(3, 4)
    with pytest.raises(CompileError) as raised:
        from_torch(Likelihood(), {"x": x}, batch="batch")
    assert str(raised.value).startswith(
        "torch.export cannot export Likelihood: a distribution checks the elements of its tensors; "
        "pass it validate_args=False (at "
    )
    program = from_torch(Likelihood(validate_args=False), {"x": x}, batch="batch")
    found = Run(program.compile(batch=3), engine="reference").predict(x.numpy())["output"]
    np.testing.assert_allclose(found, Likelihood()(x).numpy(), rtol=1e-5)
