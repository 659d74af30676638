"""from_torch: two calls with the examples show what a module keeps in Python, and the module is as it was."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from frontends.modes.test_dropped_by_export import told
from prograd import Run, from_torch


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 8)
        self.flag, self.kept, self.seen = False, None, []
        self.register_buffer("mean", torch.zeros(64))


class CentredByFirstRows(Layer):
    def forward(self, x: Any) -> Any:
        if not self.flag:
            self.mean.copy_(x.mean(0))
            self.flag = True
        return self.linear(x - self.mean)


class Recurrent(Layer):
    def forward(self, x: Any) -> Any:
        y = self.linear(x) + (0 if self.kept is None else self.kept)
        self.kept = y.detach()
        return y


class Counting(Layer):
    def forward(self, x: Any) -> Any:
        self.seen.append(1)
        return self.linear(x) * len(self.seen)


class CountingBeforeNorm(Layer):
    def forward(self, x: Any) -> Any:
        self.seen.append(1)
        return nn.functional.layer_norm(self.linear(x) * len(self.seen), (8,), eps=1e-4)


class NoisyByNumpy(Layer):
    def forward(self, x: Any) -> Any:
        return self.linear(x) * float(np.random.default_rng().random())


REMEDY = ", which no program sees; keep tensors in buffers, and draw by torch.rand"


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (CentredByFirstRows, "forward changes CentredByFirstRows.flag"),
        (Recurrent, "forward changes Recurrent.kept"),
        (Counting, "forward draws numbers, or remembers, in Python"),
        (CountingBeforeNorm, "forward draws numbers, or remembers, in Python"),
        (NoisyByNumpy, "forward draws numbers, or remembers, in Python"),
    ],
)
def test_what_forward_keeps_in_python_is_refused(kind: Any, what: str):
    module = kind()
    sentence = f"from_torch: two calls of the module with the same tensors and random numbers differ: {what}{REMEDY}"
    assert told(module) == sentence
    assert (module.flag, module.kept, module.seen) == (False, None, [])


class Cached(Layer):
    def forward(self, x: Any) -> Any:
        if self.kept is None:
            self.kept, self.flag = torch.arange(8.0), True
        return self.linear(x) * self.kept


def test_flags_and_caches_that_change_no_result_are_left_alone():
    module, x = Cached(), torch.randn(32, 64)
    run = Run(from_torch(module, {"x": x}).compile())
    assert (module.flag, module.kept) == (False, None)
    np.testing.assert_allclose(run.predict(x.numpy())["output"], module(x).detach(), rtol=1e-4, atol=1e-5)


def test_examples_that_the_module_cannot_be_called_with_are_refused():
    place = "functional.py"
    sentence = told(nn.Sequential(nn.Embedding(3, 8)), torch.tensor([1, 7]))
    assert sentence.startswith("from_torch: the module cannot be called with the examples of inputs=: index out of ")
    assert place not in sentence
    assert sentence.endswith("; give examples that it accepts")


class Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(64)

    def forward(self, x: Any) -> Any:
        return self.norm(x) * self.norm.num_batches_tracked


def test_a_counter_of_batches_that_forward_reads_is_a_state():
    module, x = Counted(), torch.randn(32, 64)
    loss, optimizer = nn.MSELoss(), torch.optim.SGD(module.parameters(), 0.1)
    run = Run(from_torch(module, {"x": x}, loss=loss, optimizer=optimizer).compile())
    for _ in range(3):
        found = run.step({"x": x.numpy(), "target": np.ones((32, 64), np.float32)})["loss"]
        wanted = loss(module(x), torch.ones(32, 64))
        optimizer.zero_grad()
        wanted.backward()
        optimizer.step()
        np.testing.assert_allclose(found, wanted.item(), rtol=1e-4)
    assert run.state["norm.num_batches_tracked"] == 3


@pytest.mark.parametrize("kind", [nn.Linear, nn.LayerNorm])
def test_a_module_that_trains_further_leaves_the_program_as_it_was(kind: Any):
    module, x = kind(*((64, 64) if kind is nn.Linear else (64,))), torch.randn(32, 64)
    program, wanted = from_torch(module, {"input": x}), module(x).detach()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(1)
    found = Run(program.compile()).predict(x.numpy())["output"]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
