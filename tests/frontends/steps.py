"""Comparison of states after steps of an optimizer with PyTorch's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import torch
from safetensors.torch import load_file

import prograd
from frontends.agreement import results

STEPS: Final = 5
"""Steps after which states are compared."""

OPTIMIZERS: Final[dict[str, Callable[[Any], torch.optim.Optimizer]]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=1e-2, momentum=0.9, weight_decay=1e-4),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, weight_decay=1e-2),
}
"""The optimizers by name, as functions of a module's parameters."""


class WithLoss(torch.nn.Module):
    """A network whose result is the mean of the weighted sines of its results, with weights from a seed."""

    def __init__(self, network: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self.network = network
        self.names = list(inputs)
        made = results(copy.deepcopy(network).train(), inputs)
        seeded = torch.Generator().manual_seed(1)
        self.weights = [torch.randn(y.shape[1:], generator=seeded, dtype=torch.float64).to(y.dtype) for y in made]

    def forward(self, first: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        made = results(self.network, dict(zip(self.names, (first, *others), strict=True)))
        total = torch.zeros((), dtype=made[0].dtype)
        for y, w in zip(made, self.weights, strict=True):
            total = total + (torch.sin(y) * w).mean()
        return total


def differences(
    network: torch.nn.Module, inputs: Mapping[str, torch.Tensor], name: str, *, engine: Any = None
) -> float:
    """Return the largest difference of a state after five steps, relative to the largest element of the state.

    All states take part: parameters and running statistics, which the run writes with the module's names and axes.
    States whose elements are smaller than a thousandth of the learning rate count relative to that.
    """
    module = WithLoss(copy.deepcopy(network), inputs).train()
    optimizer = OPTIMIZERS[name](module.parameters())
    rate = optimizer.param_groups[0]["lr"]
    tensors = dict(zip(("first", "second", "third"), inputs.values(), strict=False))
    program = prograd.from_torch(module, tensors, optimizer=optimizer)
    run = prograd.Run(program.compile(), engine=engine)
    feeds = {key: tensor.numpy() for key, tensor in zip(_fed(program), tensors.values(), strict=True)}
    for _ in range(STEPS):
        run.step(feeds)
        optimizer.zero_grad()
        module(*tensors.values()).backward()
        optimizer.step()
    with TemporaryDirectory() as folder:
        run.save(Path(folder) / "states.safetensors", layout="torch")
        found = load_file(Path(folder) / "states.safetensors")
    wanted = {key: x for key, x in module.state_dict().items() if x.is_floating_point()}
    compared = [key for key in wanted if key in found]
    trained = {key for key, x in module.named_parameters() if x.requires_grad and x.grad is not None}
    assert trained <= set(compared), trained - set(compared)
    return max(
        float((found[key] - wanted[key]).abs().max()) / max(float(wanted[key].abs().max()), 1e-3 * rate)
        for key in compared
    )


def _fed(program: prograd.Program) -> list[str]:
    """Return the names of the program's inputs in the order of the module's arguments."""
    return [x for x in ("first", "second", "third") if x in program.block.types]
