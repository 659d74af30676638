"""Functions of torch.autograd with gradients of their own are refused where a gradient would be lost."""

from typing import Any

import numpy as np
import pytest
import torch

import prograd
from compiler import CompileError
from prograd import ops, sgd


class Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        return -dy


class Adversary(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(64, 32)

    def forward(self, x: Any) -> Any:
        return Reversal.apply(self.linear(x))


class Checkpointed(torch.nn.Module):
    def __init__(self, *, use_reentrant: bool) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(64, 64)
        self.use_reentrant = use_reentrant

    def forward(self, x: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(self.linear, self.linear(x), use_reentrant=self.use_reentrant)


def inputs() -> dict[str, Any]:
    return {"x": torch.randn(32, 64)}


def test_a_function_with_its_own_gradient_is_refused():
    module = Adversary()
    with pytest.raises(CompileError) as caught:
        prograd.from_torch(module, inputs())
    line = Reversal.forward.__code__.co_firstlineno - 1
    assert str(caught.value) == (
        "from_torch: torch.export drops the gradients that functions of torch.autograd define themselves: "
        f"Reversal (test_own_gradients.py:{line}); write them with operators of PyTorch, or call "
        "module.requires_grad_(False) for a program that only predicts"
    )
    assert module.training, "the module is as before"


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_module_without_gradients_predicts(engine: str):
    module, x = Adversary().requires_grad_(False), inputs()
    run = prograd.Run(prograd.from_torch(module, x).compile(), engine=engine)
    expected = module(x["x"]).numpy()
    np.testing.assert_allclose(run.predict({"x": x["x"].numpy()})["output"], expected, rtol=1e-5, atol=1e-6)


def test_a_reentrant_checkpoint_is_refused():
    with pytest.raises(CompileError, match=r"define themselves: CheckpointFunction \(checkpoint.py:\d+\); write them"):
        prograd.from_torch(Checkpointed(use_reentrant=True), inputs())


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_another_checkpoint_has_the_gradients_of_its_layers(engine: str):
    module, x = Checkpointed(use_reentrant=False), inputs()
    program = prograd.from_torch(module, x)
    program.minimize(ops.mean(program["output"] ** 2.0), sgd(1.0))
    run = prograd.Run(program.compile(), engine=engine)
    before = run.state["linear.weight"].copy()
    run.step({"x": x["x"].numpy()})
    (module(x["x"]) ** 2).mean().backward()
    expected = -module.linear.weight.grad.numpy().T
    np.testing.assert_allclose(run.state["linear.weight"] - before, expected, rtol=1e-3, atol=1e-6)
