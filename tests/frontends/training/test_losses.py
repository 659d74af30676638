"""Losses and optimizers of PyTorch: values and states after steps, and the answers for those that cannot come in."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import nn

from compiler import CompileError
from frontends.by_hand import require_same_steps
from prograd import Run, from_torch

ROWS, SIZE, CLASSES = 32, 64, 5


def numbers(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


LABELS = numbers(1, ROWS, CLASSES).argmax(1)
TRUTHS = (numbers(2, ROWS, CLASSES) > 0).double()
SIGNS = 2 * TRUTHS - 1
REAL = numbers(3, ROWS, CLASSES)
SHARES = REAL.softmax(1)
WEIGHTS = torch.linspace(0.5, 2.0, CLASSES, dtype=torch.float64)

LOSSES: list[tuple[nn.Module, torch.Tensor]] = [
    (nn.CrossEntropyLoss(weight=WEIGHTS, label_smoothing=0.1), LABELS),
    (nn.CrossEntropyLoss(ignore_index=2, reduction="sum"), LABELS),
    (nn.NLLLoss(weight=WEIGHTS), LABELS),
    (nn.MSELoss(), REAL),
    (nn.L1Loss(reduction="sum"), REAL),
    (nn.SmoothL1Loss(beta=0.7), REAL),
    (nn.HuberLoss(delta=0.5), REAL),
    (nn.BCEWithLogitsLoss(weight=WEIGHTS, pos_weight=WEIGHTS), TRUTHS),
    (nn.KLDivLoss(reduction="batchmean"), SHARES),
    (nn.KLDivLoss(reduction="sum", log_target=True), REAL.log_softmax(1)),
    (nn.PoissonNLLLoss(), TRUTHS * 3),
    (nn.PoissonNLLLoss(full=True, reduction="sum"), TRUTHS * 3),
    (nn.SoftMarginLoss(), SIGNS),
    (nn.SoftMarginLoss(reduction="sum"), SIGNS),
    (nn.HingeEmbeddingLoss(margin=0.8), SIGNS),
    (nn.MultiLabelSoftMarginLoss(), TRUTHS),
    (nn.MultiLabelSoftMarginLoss(weight=WEIGHTS, reduction="sum"), TRUTHS),
    (nn.MultiMarginLoss(), LABELS),
    (nn.MultiMarginLoss(p=2, margin=0.7, weight=WEIGHTS, reduction="sum"), LABELS),
]

OPTIMIZERS: list[Callable[..., torch.optim.Optimizer]] = [
    lambda p: torch.optim.SGD(p, lr=0.01),
    lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.1),
    lambda p: torch.optim.Adamax(p, lr=0.01, weight_decay=0.1),
    lambda p: torch.optim.NAdam(p, lr=0.01, decoupled_weight_decay=True, weight_decay=0.1),
    lambda p: torch.optim.RAdam(p, lr=0.01),
    lambda p: torch.optim.Adagrad(p, lr=0.05, lr_decay=0.1, initial_accumulator_value=0.1),
    lambda p: torch.optim.Adadelta(p, lr=0.5),
    lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.4, weight_decay=0.1),
    lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, dampening=0.4, weight_decay=0.1, maximize=True),
    lambda p: torch.optim.SGD(p, lr=0.01, weight_decay=0.1, dampening=0.4, maximize=True),
    lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.1, maximize=True),
    lambda p: torch.optim.Adam(p, lr=1e-3, weight_decay=0.1, amsgrad=True, maximize=True),
    lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True),
]


def compare(loss: nn.Module, target: torch.Tensor, optimizer: Callable[..., torch.optim.Optimizer], engine: str):
    torch.manual_seed(4)
    module, x = nn.Sequential(nn.Linear(SIZE, 32), nn.Tanh(), nn.Linear(32, CLASSES)).double(), numbers(5, ROWS, SIZE)
    theirs = optimizer(module.parameters())
    program = from_torch(module, {"input": x}, batch="batch", loss=loss, optimizer=theirs)
    run = Run(program.compile(batch=ROWS), engine=engine)
    require_same_steps(run, module, loss, theirs, x, target, rtol_of_loss=1e-10, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize(("loss", "target"), LOSSES, ids=[str(loss) for loss, _ in LOSSES])
def test_a_loss_trains_as_in_pytorch(loss: nn.Module, target: torch.Tensor, engine: str):
    compare(loss, target, OPTIMIZERS[0], engine)


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("size", [CLASSES, 6])
@pytest.mark.parametrize("kind", [nn.NLLLoss, nn.CrossEntropyLoss])
def test_classes_are_axis_1_of_positions(kind: type[nn.Module], size: int, engine: str):
    torch.manual_seed(4)
    module, x = nn.Sequential(nn.Conv1d(8, CLASSES, 1), nn.LogSoftmax(1)).double(), numbers(5, ROWS, 8, size)
    target, loss = numbers(6, ROWS, CLASSES, size).argmax(1), kind(weight=WEIGHTS, ignore_index=1)
    program = from_torch(
        module, {"input": x}, batch="n", loss=loss, optimizer=torch.optim.SGD(module.parameters(), 0.1)
    )
    run = Run(program.compile(n=ROWS), engine=engine)
    found = run.step({"input": x.numpy(), "target": target.numpy()})["loss"]
    np.testing.assert_allclose(found, loss(module(x), target).item(), rtol=1e-10)


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("is_inside", [True, False])
def test_probabilities_may_meet_their_targets(engine: str, is_inside: bool):
    given = torch.tensor([0.0, 0.0, 1.0, 1.0, 0.5, 0.25])
    target = torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0, 0.25])

    class Probabilities(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.p = nn.Parameter(given.clone())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            p = self.p * x
            return nn.functional.binary_cross_entropy(p, target, reduction="sum") if is_inside else p

    module, x, loss = Probabilities(), torch.ones(6), nn.BCELoss(reduction="sum")
    theirs = torch.optim.SGD(module.parameters(), 1e-12)
    program = from_torch(module, {"x": x}, loss=None if is_inside else loss, optimizer=theirs)
    run = Run(program.compile(), engine=engine)
    feeds = {"x": x.numpy()} | ({} if is_inside else {"target": target.numpy()})
    wanted = module(x) if is_inside else loss(module(x), target)
    wanted.backward()
    theirs.step()
    np.testing.assert_allclose(run.step(feeds)["loss"], wanted.item(), rtol=1e-6)
    np.testing.assert_allclose(run.state["p"], module.p.detach(), rtol=1e-6, atol=1e-7)


@pytest.fixture
def in_double() -> Iterator[None]:
    """Keep numbers of PyTorch's optimizers in float64, too, such as the product of NAdam."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("number", range(len(OPTIMIZERS)))
@pytest.mark.usefixtures("in_double")
def test_an_optimizer_trains_as_in_pytorch(number: int, engine: str):
    compare(nn.MSELoss(), REAL, OPTIMIZERS[number], engine)


class Inside(nn.Module):
    """Losses of several tensors, as the result of a module."""

    def __init__(self, loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.layer, self.loss = nn.Linear(SIZE, CLASSES).double(), loss

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self.loss(self.layer(input), self.layer(input * 0.5 + 0.1))


INSIDE: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "cosine": lambda a, b: nn.CosineEmbeddingLoss(0.1)(a, b, SIGNS[:, 0]),
    "ranking": lambda a, b: nn.MarginRankingLoss(0.1)(a, b, SIGNS),
    "triplet": lambda a, b: nn.TripletMarginLoss()(a, b, a * b),
    "triplet of sums": lambda a, b: nn.TripletMarginLoss(p=1, swap=True)(a, b, a * b),
}


@pytest.mark.parametrize("name", INSIDE)
def test_a_loss_of_several_tensors_trains_inside_the_module(name: str):
    module, x = Inside(INSIDE[name]), numbers(5, ROWS, SIZE)
    theirs = torch.optim.SGD(module.parameters(), lr=0.01)
    run = Run(from_torch(module, {"input": x}, optimizer=theirs).compile())
    found = run.step({"input": x.numpy()})
    wanted = module(x)
    wanted.backward()
    theirs.step()
    np.testing.assert_allclose(next(iter(found.values())), wanted.item(), rtol=1e-10)
    np.testing.assert_allclose(run.state["layer.weight"], module.layer.weight.detach().numpy().T, rtol=1e-9, atol=1e-12)


ANSWERS = {
    nn.CTCLoss: "loss=CTCLoss needs lengths of rows; build it from program['output'] with ops.ctc_loss",
    nn.TripletMarginLoss: (
        "loss=TripletMarginLoss compares several tensors; call it inside the module, whose result is then the loss"
    ),
    nn.GaussianNLLLoss: (
        "loss=GaussianNLLLoss compares results with a target and variances; build it from the results with ops"
    ),
    nn.MultiLabelMarginLoss: (
        "loss=MultiLabelMarginLoss has labels of unequal number in a row; use torch.nn.MultiLabelSoftMarginLoss"
    ),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_loss_of_other_operands_is_answered_in_one_sentence(kind: type[nn.Module]):
    module, x = nn.Linear(SIZE, CLASSES), torch.zeros(ROWS, SIZE)
    with pytest.raises(CompileError) as raised:
        from_torch(module, {"input": x}, loss=kind(), optimizer=torch.optim.SGD(module.parameters(), lr=0.1))
    assert str(raised.value) == ANSWERS[kind]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda p: torch.optim.LBFGS(p),
            "optimizer=LBFGS computes the loss several times in a step, which no step of a program does; use AdamW",
        ),
        (
            lambda p: type("Shampoo", (torch.optim.SGD,), {})(p),
            "optimizer=Shampoo is none of SGD, Adam, AdamW, Adamax, NAdam, RAdam, RMSprop, Adagrad, Adadelta, Rprop, "
            "ASGD, Adafactor, Muon; use program.minimize",
        ),
    ],
)
def test_an_optimizer_that_cannot_come_in_is_answered_in_one_sentence(make, message: str):
    module, x = nn.Linear(SIZE, CLASSES), torch.zeros(ROWS, SIZE)
    with pytest.raises(CompileError) as raised:
        from_torch(module, {"input": x}, loss=nn.MSELoss(), optimizer=make(module.parameters()))
    assert str(raised.value) == message
