"""An imported module beside PyTorch: results in evaluation, the loss, every gradient, statistics and three steps."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

import prograd
from compiler import CompileError
from fuzz.modules.draw import Module

ROWS: Final = 4
"""Rows of a step; the example of the import has three."""

STEPS: Final = 3

OPTIMIZERS: Final[list[Callable[[Any], torch.optim.Optimizer]]] = [
    lambda p: torch.optim.SGD(p, lr=0.01),
    lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=1e-2, nesterov=True),
    lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.8, dampening=0.3, maximize=True),
    lambda p: torch.optim.AdamW(p, lr=1e-3, eps=1e-4),
    lambda p: torch.optim.Adam(p, lr=1e-3, weight_decay=1e-2, eps=1e-4, amsgrad=True),
    lambda p: torch.optim.RMSprop(p, lr=1e-3, eps=1e-4),
]
"""Optimizers whose updates do not divide by gradients near zero."""


@dataclass(frozen=True)
class Verdict:
    """Verdict: "agrees", "refused" with the reason, or the first difference."""

    kind: str
    told: str = ""


def judged(module: Module, *, narrow: bool = False) -> Verdict:
    """Return the verdict of float64 and the reference engine, or of float32 and the native engine if `narrow`."""
    dtype = torch.float32 if narrow else torch.float64
    network = module.made().to(dtype)
    example, rows = module.input(3).to(dtype), module.input(ROWS).to(dtype)
    make = OPTIMIZERS[module.seed % len(OPTIMIZERS)]
    symbol = "batch" if module.seed % 3 else None
    rows = rows if symbol else example
    optimizer = make(network.parameters())
    try:
        program = prograd.from_torch(network, {"x": example}, batch=symbol, optimizer=optimizer)
    except CompileError as error:
        return Verdict("refused", str(error))
    run = prograd.Run(
        program.compile(**({"batch": ROWS} if symbol else {})), engine="native" if narrow else "reference"
    )
    wide = copy.deepcopy(network).double() if narrow else None
    return _compared(run, program, network, optimizer, rows, wide, make)


def _compared(
    run: Any, program: Any, network: Any, optimizer: Any, rows: torch.Tensor, wide: Any, make: Any
) -> Verdict:
    """Compare evaluation, then step by step the loss and all states; `wide` is the module in float64, as a measure."""
    more = make(wide.parameters()) if wide is not None else None
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = copy.deepcopy(network).eval()(rows)
        exact = copy.deepcopy(wide).eval()(rows.double()) if wide is not None else wanted
    found = run.predict({"x": rows.numpy()})
    for name in found:
        if (told := _difference(found[name], wanted[name], exact[name])) is not None:
            return Verdict("differs", f"{name} in evaluation: {told}")
    for step in range(STEPS):
        loss = _step(network, optimizer, rows)
        better = _step(wide, more, rows.double()) if wide is not None else loss
        stepped = run.step({"x": rows.numpy()})
        if (told := _difference(stepped["loss"], loss, better)) is not None:
            return Verdict("differs", f"the loss of step {step}: {told}")
        there, best = network.state_dict(), (wide if wide is not None else network).state_dict()
        for state in program.states.values():
            name = state.imported.names[0] if state.imported.names else ""
            if name not in there:
                continue
            axes = tuple(state.imported.axes) or tuple(range(there[name].ndim))
            a, b = there[name].permute(axes), best[name].permute(axes)
            if (told := _difference(run.state[state.name], a, b)) is not None:
                return Verdict("differs", f"{name} after step {step + 1}: {told}")
    return Verdict("agrees")


def _step(network: Any, optimizer: Any, rows: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss = network.train()(rows)["loss"]
    loss.backward()
    optimizer.step()
    return loss


def _difference(found: Any, wanted: torch.Tensor, exact: torch.Tensor) -> str | None:
    """Return the difference if it is larger than rounding: in float32, than PyTorch's own distance from float64."""
    a, b, c = (
        np.asarray(x.detach().numpy() if isinstance(x, torch.Tensor) else x, np.float64) for x in (found, wanted, exact)
    )
    if a.shape != b.shape:
        return f"shape {a.shape} instead of {b.shape}"
    if not b.size:
        return None
    if not np.isfinite(c).all() or np.abs(c).max() > 1e4:
        return None if np.array_equal(np.isnan(a), np.isnan(b)) else "other elements are no numbers"
    narrow = exact.dtype != wanted.dtype
    limit = (1e-4 if narrow else 1e-10) * (np.abs(c).max() + 1e-2) + 30 * np.abs(b - c).max()
    worst = np.abs(a - b).max()
    return None if worst <= limit else f"{worst:.1e} where elements are up to {np.abs(b).max():.1e}"
