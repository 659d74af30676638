"""Schedulers of torch.optim.lr_scheduler: rates of every step, and what cannot be a rate."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from subjects.commands import told
from torch import nn
from torch.optim import lr_scheduler as of_torch

from compiler import CompileError
from compiler.frontends.torch.training.rate_tables import factors
from prograd import Run, from_torch

STEPS = 40


class Sums(nn.Module):
    """Two weights whose gradients are 1, so that each falls by its rate."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.zeros(1, dtype=torch.float64))
        self.b = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ((self.a + self.b) * x).sum()


def optimizer_of(module: nn.Module) -> torch.optim.Optimizer:
    a, b = module.parameters()
    return torch.optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.03}], lr=0.1)


SCHEDULERS: dict[str, Callable[[torch.optim.Optimizer], of_torch.LRScheduler]] = {
    "step": lambda o: of_torch.StepLR(o, 7, gamma=0.5),
    "milestones": lambda o: of_torch.MultiStepLR(o, [3, 11, 11, 20], gamma=0.3),
    "exponential": lambda o: of_torch.ExponentialLR(o, 0.9),
    "constant": lambda o: of_torch.ConstantLR(o, 0.25, total_iters=6),
    "linear": lambda o: of_torch.LinearLR(o, 0.1, 0.8, total_iters=9),
    "polynomial": lambda o: of_torch.PolynomialLR(o, total_iters=25, power=2.0),
    "cosine": lambda o: of_torch.CosineAnnealingLR(o, T_max=15, eta_min=0.01),
    "restarts": lambda o: of_torch.CosineAnnealingWarmRestarts(o, T_0=6, eta_min=0.001),
    "growing restarts": lambda o: of_torch.CosineAnnealingWarmRestarts(o, T_0=4, T_mult=2),
    "one cycle": lambda o: of_torch.OneCycleLR(o, [0.5, 0.2], total_steps=STEPS + 2, cycle_momentum=False),
    "three phases": lambda o: of_torch.OneCycleLR(
        o, 0.4, total_steps=STEPS + 1, three_phase=True, anneal_strategy="linear", cycle_momentum=False
    ),
    "cycles": lambda o: of_torch.CyclicLR(o, 0.01, 0.1, step_size_up=4, step_size_down=7, cycle_momentum=False),
    "falling cycles": lambda o: of_torch.CyclicLR(
        o, 0.01, 0.1, step_size_up=5, mode="triangular2", cycle_momentum=False
    ),
    "shrinking cycles": lambda o: of_torch.CyclicLR(
        o, 0.01, 0.1, step_size_up=5, mode="exp_range", gamma=0.95, cycle_momentum=False
    ),
    "sequence": lambda o: of_torch.SequentialLR(
        o, [of_torch.LinearLR(o, 0.2, total_iters=5), of_torch.CosineAnnealingLR(o, T_max=20)], milestones=[5]
    ),
    "function": lambda o: of_torch.LambdaLR(o, [lambda k: 1 / (k + 1), lambda k: max(0.0, 1 - k / 20)]),
    "product": lambda o: of_torch.MultiplicativeLR(o, lambda k: 0.9 if k % 3 else 1.05),
    "sequence with a function": lambda o: of_torch.SequentialLR(
        o, [of_torch.LinearLR(o, 0.2, total_iters=5), of_torch.LambdaLR(o, lambda k: 0.9**k)], milestones=[5]
    ),
    "chain": lambda o: of_torch.ChainedScheduler([of_torch.LinearLR(o, 0.2, total_iters=5), of_torch.StepLR(o, 8)]),
}


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.filterwarnings("ignore::UserWarning")  # SequentialLR steps its schedulers as it says one should not
def test_every_rate_of_a_scheduler_is_that_of_pytorch(name: str, engine: str):
    module, x = Sums(), torch.ones(1, dtype=torch.float64)
    optimizer = optimizer_of(module)
    scheduler = SCHEDULERS[name](optimizer)
    run = Run(from_torch(module, {"x": x}, optimizer=optimizer, scheduler=scheduler).compile(), engine=engine)
    for _ in range(STEPS):
        before = [run.state[key].copy() for key in "ab"]
        run.step({"x": x.numpy()})
        found = [float(old[0] - run.state[key][0]) for key, old in zip("ab", before, strict=True)]
        np.testing.assert_allclose(found, [group["lr"] for group in optimizer.param_groups], rtol=1e-9, atol=1e-14)
        optimizer.step()
        scheduler.step()


def test_a_scheduler_that_was_stepped_goes_on():
    module, x = Sums(), torch.ones(1, dtype=torch.float64)
    optimizer = optimizer_of(module)
    scheduler = of_torch.StepLR(optimizer, 2, gamma=0.5)
    for _ in range(3):
        optimizer.step()
        scheduler.step()
    run = Run(from_torch(module, {"x": x}, optimizer=optimizer, scheduler=scheduler).compile())
    run.step({"x": x.numpy()})
    assert run.state["a"][0] == pytest.approx(-0.05)
    run.step({"x": x.numpy()})
    assert run.state["a"][0] == pytest.approx(-0.075)


def test_a_plateau_reduces_the_rate():
    module, x = Sums(), torch.ones(1, dtype=torch.float64)
    optimizer = optimizer_of(module)
    scheduler = of_torch.ReduceLROnPlateau(optimizer, factor=0.5, patience=2, threshold=0.1, threshold_mode="abs")
    program = from_torch(module, {"x": x}, optimizer=optimizer, scheduler=scheduler)
    run = Run(program.compile())
    run.step({"x": x.numpy()})
    assert run.state["a"][0] == pytest.approx(-0.1)


REFUSED: dict[str, Callable[[torch.optim.Optimizer], object]] = {
    "scheduler=LambdaLR: its function cannot be evaluated for all steps (IndexError: list index out of range); use "
    "prograd.schedules": lambda o: of_torch.LambdaLR(o, lambda step: [1.0, 0.5, 0.25][step]),
    "scheduler=OneCycleLR changes the momentum, which no rate can; give it cycle_momentum=False": lambda o: (
        of_torch.OneCycleLR(o, 0.1, total_steps=10)
    ),
    "scheduler=ReduceLROnPlateau compares relative improvements; give it threshold_mode='abs' and a threshold": (
        of_torch.ReduceLROnPlateau
    ),
    "scheduler=CyclicLR has a scale_fn, which is Python; give it a mode, or use schedules": lambda o: of_torch.CyclicLR(
        o, 0.1, 0.2, scale_fn=lambda cycle: 1.0, cycle_momentum=False
    ),
    "scheduler=ChainedScheduler has CosineAnnealingLR, which is no factor of the rate": lambda o: (
        of_torch.ChainedScheduler([of_torch.CosineAnnealingLR(o, 5)])
    ),
    "scheduler: it changes the rates of another optimizer than optimizer=": lambda o: of_torch.StepLR(
        optimizer_of(Sums()), 3
    ),
    "scheduler=int is none of StepLR, MultiStepLR, ExponentialLR, ConstantLR, LinearLR, PolynomialLR, "
    "CosineAnnealingLR, CosineAnnealingWarmRestarts, OneCycleLR, CyclicLR, SequentialLR, ChainedScheduler, "
    "LambdaLR, MultiplicativeLR, ReduceLROnPlateau; use prograd.schedules": lambda o: 3,
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_no_rate_is_answered_in_one_sentence(message: str):
    module, x = Sums(), torch.ones(1, dtype=torch.float64)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    with pytest.raises(CompileError) as raised:
        from_torch(module, {"x": x}, optimizer=optimizer, scheduler=REFUSED[message](optimizer))
    assert str(raised.value) == message


def test_a_scheduler_needs_its_optimizer():
    module, x = Sums(), torch.ones(1, dtype=torch.float64)
    with pytest.raises(CompileError) as raised:
        from_torch(module, {"x": x}, scheduler=of_torch.StepLR(optimizer_of(module), 3))
    assert str(raised.value) == "from_torch: scheduler= changes the rate of optimizer=; give both"


def test_a_scheduler_that_is_not_given_is_not_ignored():
    module, x = Sums(), torch.ones(1, dtype=torch.float64)
    optimizer = optimizer_of(module)
    of_torch.LinearLR(optimizer, 0.01)
    assert told(CompileError, lambda: from_torch(module, {"x": x}, optimizer=optimizer)) == (
        "optimizer: a scheduler changes its rates; give scheduler= too, or a new optimizer for constant rates"
    )


@pytest.mark.parametrize(
    ("function", "steps"),
    [
        (lambda k: min(1.0, k / 10) * max(0.0, (5000 - k) / 4990), 5001),
        (lambda k: 1.0 if k < 200_000 else 0.5, 200_001),
        (lambda k: 0.5, 1),
    ],
)
def test_a_table_of_rates_ends_where_its_function_stays(function: Callable[[int], float], steps: int):
    scheduler = of_torch.LambdaLR(optimizer_of(Sums()), function)
    table = factors(scheduler, 1)
    assert len(table) == steps
    assert table[-1] == function(steps + 7)
