"""from_torch: losses that are functions or modules of one's own, and targets that are probabilities."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from compiler import CompileError
from prograd import Run, from_torch

X = torch.randn(32, 64, generator=torch.Generator().manual_seed(1))
CLASSES = torch.arange(32) % 8
SHARES = torch.softmax(torch.randn(32, 8, generator=torch.Generator().manual_seed(2)), 1)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(64, 16), nn.Linear(16, 8)

    def forward(self, x: Any, scale: float = 1.0) -> Any:
        return self.second(torch.tanh(self.first(x))) * scale


class Pair(Net):
    def forward(self, x: Any, scale: float = 1.0) -> Any:
        hidden = torch.tanh(self.first(x))
        return self.second(hidden), hidden


class Focal(nn.Module):
    """A loss with a buffer, which is no state of the module."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weights", torch.linspace(1, 2, 8))

    def forward(self, logits: Any, target: Any) -> Any:
        p = logits.softmax(-1).gather(1, target[:, None]).squeeze(1)
        return -(self.weights[target] * (1 - p) ** 2 * p.log()).mean()


def of_both(results: Any, target: Any) -> Any:
    logits, hidden = results
    return nn.functional.cross_entropy(logits, target) + 0.1 * hidden.square().mean()


def distance(result: Any, target: Any) -> Any:
    return (result.softmax(-1) - target).abs().sum(-1).mean()


LOSSES = {
    "function of torch": (Net, nn.functional.cross_entropy, CLASSES),
    "function": (Net, distance, SHARES),
    "module": (Net, Focal(), CLASSES),
    "function of two results": (Pair, of_both, CLASSES),
    "probabilities": (Net, nn.CrossEntropyLoss(label_smoothing=0.1), SHARES),
}


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("case", LOSSES)
def test_losses_of_ones_own_train_as_pytorch(case: str, engine: Any):
    kind, loss, target = LOSSES[case]
    module = kind()
    optimizer = torch.optim.AdamW(module.parameters(), 1e-2)
    program = from_torch(module, {"target": target, "input": X}, batch="n", loss=loss, optimizer=optimizer)
    assert "forward" not in vars(module)
    run = Run(program.compile(n=32), engine=engine)
    wanted = module(X)
    wanted = wanted[0] if isinstance(wanted, tuple) else wanted
    found = run.step({"input": X.numpy()}, entry="predict")
    np.testing.assert_allclose(next(iter(found.values())), wanted.detach(), rtol=1e-4, atol=1e-5)
    for _ in range(3):
        number = run.step({"input": X.numpy(), "target": target.numpy()})["loss"]
        value = loss(module(X), target)
        np.testing.assert_allclose(number, value.item(), rtol=1e-4)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    assert {state.imported.names[0] for state in program.states.values() if state.imported.names} == {
        name for name, _ in module.named_parameters()
    }
    np.testing.assert_allclose(run.state["second.weight"].T, module.second.weight.detach(), rtol=1e-3, atol=1e-5)


def rows(result: Any, target: Any) -> Any:
    return (result - target).square()


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        (rows, "from_torch: the loss function returns a tensor [32, 8], and training needs a number"),
        (nn.Linear(8, 1), "from_torch: the loss Linear has parameters of its own; call it inside the module"),
        (0.5, "from_torch: loss=0.5 is no function of the module's result and a target"),
    ],
)
def test_what_is_no_loss_is_refused(loss: Any, sentence: str):
    module = Net()
    with pytest.raises(CompileError) as caught:
        from_torch(module, {"input": X, "target": SHARES}, loss=loss, optimizer=torch.optim.SGD(module.parameters()))
    assert str(caught.value) == sentence
    assert "forward" not in vars(module)


class Losses(Net):
    """Two results whose names differ by a character that a program appends to a name that it has already."""

    def forward(self, loss: Any) -> Any:  # an input with the name of a result
        made = super().forward(loss).square().mean()
        return {"loss": made, "loss_": 100 * made}


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize(("name", "factor"), [("loss", 1), ("loss_", 100)])
def test_the_result_of_a_name_is_minimized(name: str, factor: int, engine: Any):
    net = Losses()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    program = from_torch(net, {"loss": X}, batch="batch", loss=name, optimizer=optimizer)
    run = Run(program.compile(batch=32), engine=engine)
    found = run.step({"loss": X.numpy()})["loss"]
    wanted = net(X)[name]
    wanted.backward()
    optimizer.step()
    assert float(found) == pytest.approx(float(wanted.detach()), rel=1e-5)
    for key, parameter in net.named_parameters():
        np.testing.assert_allclose(run.state[key], parameter.detach().numpy().T, rtol=1e-4, atol=1e-6)


def test_a_name_of_no_result_is_no_loss():
    net = Losses()
    with pytest.raises(CompileError) as raised:
        from_torch(net, {"loss": X}, loss="los", optimizer=torch.optim.SGD(net.parameters(), lr=0.01))
    assert str(raised.value) == "from_torch: loss='los' names no result of the module; it has loss, loss_"
