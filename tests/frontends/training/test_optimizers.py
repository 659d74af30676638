"""from_torch: optimizers of torch.optim, whose states after steps are PyTorch's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn, optim

from compiler import CompileError
from prograd import Run, adam, from_torch


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.linear = nn.Conv2d(3, 8, (3, 2)), nn.Linear(8, 6)
        self.table = nn.Parameter(torch.randn(2, 6))

    def forward(self, x: Any) -> Any:
        return self.linear(torch.tanh(self.conv(x)).mean((2, 3))) * self.table[0] + self.table[1]


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "Rprop": lambda p: optim.Rprop(p, lr=1e-3),
    "Rprop with limits": lambda p: optim.Rprop(p, lr=1e-2, etas=(0.3, 1.5), step_sizes=(1e-3, 2e-2)),
    "Rprop upwards": lambda p: optim.Rprop(p, lr=1e-3, maximize=True),
    "ASGD": lambda p: optim.ASGD(p, lr=0.1, lambd=0.1, alpha=0.5, weight_decay=0.1),
    "Adafactor": lambda p: optim.Adafactor(p, lr=0.05),
    "Adafactor with decay": lambda p: optim.Adafactor(p, lr=0.01, eps=(1e-5, 1e-2), d=1.5, weight_decay=0.1),
}


def after_steps(make: Callable[[Any], Any], module: nn.Module, x: Any, engine: str, steps: int = 8) -> tuple[Any, Any]:
    """Return the states by name, here and in PyTorch."""
    target, loss = torch.randn(32, 6, generator=torch.Generator().manual_seed(3)).to(x.dtype), nn.MSELoss()
    optimizer = make(module.parameters())
    program = from_torch(module, {"x": x}, loss=loss, optimizer=optimizer)
    run = Run(program.compile(), engine=engine)
    for _ in range(steps):
        run.step({"x": x.numpy(), "target": target.numpy()})
        optimizer.zero_grad()
        loss(module(x), target).backward()
        optimizer.step()
    here = {
        name: run.state[name].transpose(np.argsort(list(program.states[name].imported.axes)))
        for name, _ in module.named_parameters()
    }
    return here, {name: p.detach().numpy() for name, p in module.named_parameters()}


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_eight_steps_end_at_the_states_of_pytorch(name: str, engine: str):
    x = torch.randn(32, 3, 6, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    here, there = after_steps(OPTIMIZERS[name], Layers().double(), x, engine)
    for key, wanted in there.items():
        np.testing.assert_allclose(here[key], wanted, rtol=1e-9, atol=1e-10, err_msg=key)


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("kind", ["original", "match_rms_adamw"])
@pytest.mark.parametrize("width", [24, 3])
def test_steps_of_muon_are_those_of_pytorch_but_for_its_bfloat16(width: int, kind: str, engine: str):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(64, width, bias=False), nn.Tanh(), nn.Linear(width, 6, bias=False))
    before = {name: p.detach().numpy().copy() for name, p in module.named_parameters()}
    here, there = after_steps(
        lambda p: optim.Muon(p, lr=0.01, adjust_lr_fn=kind), module, torch.randn(32, 64), engine, steps=3
    )
    for key, wanted in there.items():
        step, error = abs(wanted - before[key]).max(), abs(here[key] - wanted).max()
        assert error < 0.03 * step, (key, error, step)


def test_optimizers_that_take_a_rate_once_refuse_schedulers():
    module = Layers()
    optimizer = optim.ASGD(module.parameters())
    scheduler = optim.lr_scheduler.StepLR(optimizer, 3)
    with pytest.raises(CompileError) as caught:
        from_torch(module, {"x": torch.zeros(32, 3, 6, 5)}, loss=nn.MSELoss(), optimizer=optimizer, scheduler=scheduler)
    assert str(caught.value) == (
        "optimizer=ASGD takes its first rate alone, so a scheduler changes nothing; leave it out"
    )


def test_an_optimizer_of_prograd_is_told_where_it_goes():
    module = Layers()
    with pytest.raises(CompileError, match=r"^from_torch: optimizer=<Optimizer adam: .* is not of torch\.optim; an op"):
        from_torch(module, {"x": torch.ones(2, 3, 8, 8)}, optimizer=adam())
    for other in (module.parameters(), optim.SGD, "sgd"):
        with pytest.raises(CompileError, match=r"^from_torch: optimizer=.* is not of torch\.optim"):
            from_torch(module, {"x": torch.ones(2, 3, 8, 8)}, optimizer=other)
    with pytest.raises(CompileError, match=r"^from_torch: symbols=\['n'\] is not a mapping or None$"):
        from_torch(module, {"x": torch.ones(2, 3, 8, 8)}, symbols=["n"])  # type: ignore[arg-type]
