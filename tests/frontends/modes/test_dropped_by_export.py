"""from_torch: what torch.export drops is understood or refused: hooks, assigned buffers, written parameters."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from compiler import CompileError
from prograd import Run, from_torch, ops, sgd

FILE = "test_dropped_by_export.py"


def told(module: Any, x: Any = None, **more: Any) -> str:
    """Return the sentence of the refusal of a module, whose tensors and modes are as before."""
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    attributes = {child: set(vars(child)) for child in module.modules()}
    with pytest.raises(CompileError) as caught:
        from_torch(module, {"x": torch.randn(32, 64) if x is None else x}, **more)
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert all(set(vars(child)) == names for child, names in attributes.items())
    return str(caught.value)


def halved(*operands: Any) -> None:
    """Stand for a hook."""


LINE: int = halved.__code__.co_firstlineno

REMEDY = (
    "; remove them, write the change with operators of PyTorch or with clip= of program.minimize, or call "
    "module.requires_grad_(False) for a program that only predicts"
)


@pytest.mark.parametrize(
    ("register", "name"),
    [
        (lambda m: m[0].weight.register_hook(halved), "0.weight.register_hook"),
        (
            lambda m: m[0].bias.register_post_accumulate_grad_hook(halved),
            "0.bias.register_post_accumulate_grad_hook",
        ),
        (lambda m: m[1].register_full_backward_hook(halved), "a backward hook of 1"),
        (lambda m: m[1].register_full_backward_pre_hook(halved), "a backward hook of 1"),
        (lambda m: m.register_backward_hook(halved), "a backward hook of Sequential"),
    ],
)
def test_hooks_of_gradients_are_refused(register: Callable[[Any], Any], name: str):
    module = nn.Sequential(nn.Linear(64, 8), nn.Tanh())
    register(module)
    sentence = f"from_torch: torch.export drops hooks of gradients: {name} ({FILE}:{LINE}){REMEDY}"
    assert told(module) == sentence
    from_torch(module.requires_grad_(False), {"input": torch.randn(32, 64)})


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 8)

    def forward(self, x: Any) -> Any:
        y = self.linear(x)
        if y.requires_grad:
            y.register_hook(halved)
        return y


def test_hooks_of_tensors_in_forward_are_refused():
    line = Hooked.forward.__code__.co_firstlineno + 3
    sentence = f"from_torch: torch.export drops hooks of gradients: register_hook ({FILE}:{line}){REMEDY}"
    assert told(Hooked()) == sentence
    from_torch(Hooked().requires_grad_(False), {"x": torch.randn(32, 64)})


def test_hooks_of_the_steps_of_an_optimizer_are_refused():
    module = nn.Linear(64, 8)
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    optimizer.register_step_pre_hook(halved)
    assert told(module, loss=nn.MSELoss(), optimizer=optimizer) == (
        f"optimizer: a hook ({FILE}:{LINE}) calls Python at each step, which no program can; remove it, and clip "
        "gradients by clip= of program.minimize"
    )


class Clamped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((64,), 1.5))

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            self.scale.clamp_(0, 1)
        return x * self.scale


def test_parameters_that_forward_writes_are_refused():
    assert told(nn.Sequential(Clamped())) == (
        "from_torch: forward writes the parameter 0.scale, which an optimizer writes too; change its value where it "
        "is used, as in self.scale.clamp(0, 1), or make it a buffer"
    )


class Averaged(nn.Module):
    """Averages that forward assigns: of float, of integers, and without a place in the state dict."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(64))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("sum", torch.zeros(64), persistent=False)

    def forward(self, x: Any) -> Any:
        before = self.mean
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
            self.count = self.count + 1
            self.sum = self.sum + x.detach().sum(0)
        return x * self.mean + before + self.count + self.sum


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("is_inside", [True, False])
def test_buffers_that_forward_assigns_are_states(engine: str, is_inside: bool):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(64, 64), Averaged()) if is_inside else Averaged()
    x = torch.randn(32, 64)
    program = from_torch(module, {"x": x}, batch="n")
    program.fetch("y", program["output"])
    if is_inside:
        program.minimize(ops.mean(program["output"]), sgd(0.0))
    run = Run(program.compile(n=32), engine=engine)
    for _ in range(3):
        found = run.step({"x": x.numpy()})["y"]
        np.testing.assert_allclose(found, module(x).detach(), rtol=1e-4, atol=1e-4)
    for name, tensor in module.named_buffers():
        np.testing.assert_allclose(run.state[name], tensor, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run.predict(x.numpy())["output"], module.eval()(x).detach(), rtol=1e-4, atol=1e-4)


class Returned(nn.Module):
    """A result that is the buffer's value before the assignment."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(64))

    def forward(self, x: Any) -> Any:
        before = self.last
        if self.training:
            self.last = x.mean(0)
        return before


def test_a_result_keeps_the_value_that_a_buffer_had():
    module, x = Returned(), torch.randn(32, 64)
    program = from_torch(module, {"x": x})
    program.fetch("y", program["output"])
    run = Run(program.compile())
    for _ in range(2):
        np.testing.assert_allclose(run.step({"x": x.numpy()})["y"], module(x), rtol=1e-5, atol=1e-6)


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return x * self.calls


class Remembers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = torch.zeros(64)

    def forward(self, x: Any) -> Any:
        self.hidden = self.hidden + x.mean(0)
        return x * self.hidden


class Hidden(nn.Module):
    """A write of a buffer that torch.export does not see."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(64))

    def forward(self, x: Any) -> Any:
        self.scale.data = self.scale * 0.5
        return x * self.scale


class Continued(nn.Module):
    """A buffer that evaluation writes, too."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(64))

    def forward(self, x: Any) -> Any:
        self.scale.mul_(0.5)
        return x * self.scale


class Grown(nn.Module):
    """A buffer that takes another type."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(0, 64))

    def forward(self, x: Any) -> Any:
        self.seen = torch.cat([self.seen, x])
        return self.seen


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (
            Counts,
            "forward assigns the number 0.calls, which the program would keep at its first value; register it by "
            "register_buffer",
        ),
        (
            Remembers,
            "forward assigns the tensor 0.hidden, which the program would keep at its first value; register it by "
            "register_buffer",
        ),
        (
            Hidden,
            "from_torch: a call of the module changes 0.scale, and torch.export does not see it; write the tensor by "
            "an operator in place, as in self.buffer.copy_(x)",
        ),
        (
            Continued,
            f"from_torch: in evaluation, forward writes the buffer 0.scale "
            f"({FILE}:{Continued.forward.__code__.co_firstlineno + 1}), and its results follow from the value before; "
            "predictions write no states, so write it `if self.training`",
        ),
        (
            Grown,
            "forward assigns float32 (32, 64) to the buffer Grown.seen, which is float32 (0, 64); a state keeps its "
            "type: if only the first call makes the buffer, call the module once before the import",
        ),
    ],
)
def test_changes_that_no_program_makes_are_refused(kind: Any, sentence: str):
    assert told(nn.Sequential(kind())) == sentence


class Solved(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.linalg.cholesky(x) + torch.linalg.inv(x) + torch.linalg.eigvals(torch.linalg.solve(x, x)).real


def test_checks_with_an_effect_are_left_out_of_the_report():
    table = from_torch(Solved(), {"x": torch.eye(4)}, explain=True)
    assert [row[0] for row in table.rows] == ["aten.linalg_eig.default"]


class Listed(nn.Module):
    """Reads a tensor from a list that no module registers."""

    def __init__(self, of: Callable[[Any], Any]) -> None:
        super().__init__()
        self.norm, self.scale = nn.BatchNorm1d(64), nn.Parameter(torch.ones(64))
        self.listed = [of(self)]

    def forward(self, x: Any) -> Any:
        return self.norm(x) * self.listed[0] + self.scale


@pytest.mark.parametrize(
    ("of", "name"),
    [
        (lambda net: net.scale, "scale"),
        (lambda net: net.norm.weight.detach()[:1], "norm.weight"),
        (lambda net: net.norm.running_var, "norm.running_var"),
    ],
)
def test_tensors_that_training_changes_are_no_constants(of: Callable[[Any], Any], name: str):
    line = Listed.forward.__code__.co_firstlineno + 1
    assert told(Listed(of)) == (
        f"from_torch: forward reads {name} from a list or another object that keeps it ({FILE}:{line}), so "
        f"torch.export takes it for a constant; read it as self.{name}, or keep it in an nn.ParameterList"
    )
    frozen = Listed(lambda net: net.scale).requires_grad_(False)
    from_torch(frozen, {"x": torch.randn(32, 64)})


class Lazy(nn.Module):
    """Makes a buffer at its first call."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(64))
        self.register_buffer("places", torch.zeros(1))

    def forward(self, x: Any) -> Any:
        if self.places.shape[0] != x.shape[1]:
            self.places = torch.arange(x.shape[1]).float()
        return x * self.weight + self.places


def test_a_buffer_that_the_first_call_makes_comes_in_after_a_call():
    module, x = Lazy(), torch.randn(32, 64)
    assert told(module, x) == (
        "forward assigns float32 (64,) to the buffer Lazy.places, which is float32 (1,); a state keeps its type: if "
        "only the first call makes the buffer, call the module once before the import"
    )
    module(x)
    assert not module._forward_hooks
    assert not module._forward_pre_hooks
    run = Run(from_torch(module, {"x": x}, batch="batch").compile(batch=32))
    assert not module._forward_hooks
    np.testing.assert_allclose(run.predict({"x": x.numpy()})["output"], module(x).detach(), rtol=1e-6)
