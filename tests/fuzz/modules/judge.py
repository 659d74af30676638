"""An imported module beside PyTorch: results in evaluation, the loss, every gradient, statistics and three steps."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

import prograd
from compiler import CompileError
from fuzz.modules.draw import Module

ROWS: Final = 4
"""Rows of a step; the example of the import has three."""

OTHER_ROWS: Final = (1, 2, 7, 40)
"""Rows of further predictions."""

OTHER_LENGTHS: Final = (-1, 5)
"""Differences between the extent of a further symbol in a further prediction and in the example."""

STEPS: Final = 5

OPTIMIZERS: Final[list[Callable[[Any], torch.optim.Optimizer]]] = [
    lambda p: torch.optim.SGD(p, lr=0.01),
    lambda p: torch.optim.AdamW(p, lr=1e-3, eps=1e-4),
    lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=1e-2, nesterov=True),
    lambda p: torch.optim.AdamW(p, lr=1e-3, eps=1e-4, weight_decay=0.1),
    lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.8, dampening=0.3, maximize=True),
    lambda p: torch.optim.AdamW(p, lr=1e-3, eps=1e-4, maximize=True),
    lambda p: torch.optim.Adam(p, lr=1e-3, weight_decay=1e-2, eps=1e-4, amsgrad=True),
    lambda p: torch.optim.AdamW(p, lr=1e-3, eps=1e-3, betas=(0.5, 0.9)),
    lambda p: torch.optim.RMSprop(p, lr=1e-3, eps=1e-4),
]
"""Optimizers whose updates do not divide by gradients near zero."""

SLOTS: Final = {"exp_avg": "m", "exp_avg_sq": "v"}
"""Names of slots, which are averages of gradients, in PyTorch and here."""


@dataclass(frozen=True)
class Verdict:
    """Verdict: "agrees", "refused" with the reason, or the first difference."""

    kind: str
    told: str = ""


def judged(module: Module, *, narrow: bool = False, native: bool = True) -> Verdict:
    """Return the verdict of float64 and both engines, or of float32 and the native engine if `narrow`."""
    dtype = torch.float32 if narrow else torch.float64
    network = module.made().to(dtype)
    example = {name: x.to(dtype) for name, x in module.fed(3).items()}
    make = OPTIMIZERS[module.seed % len(OPTIMIZERS)]
    symbol = "batch" if module.seed % 4 else None
    rows = {name: x.to(dtype) for name, x in module.fed(ROWS).items()} if symbol else example
    try:
        make(copy.deepcopy(network).parameters())
        copy.deepcopy(network)(**rows)["loss"].backward()
    except (RuntimeError, ValueError, IndexError) as error:
        return Verdict("refused", f"PyTorch: {error}")
    symbols = {name: {module.length: "length"} for name, shape in module.inputs.items() if len(shape) > module.length}
    try:
        program, has_length = _imported(network, example, symbol, symbols if module.length else {}, make)
    except CompileError as error:
        return Verdict("refused", str(error))
    sizes = ({"batch": ROWS} if symbol else {}) | (
        {"length": module.inputs["x"][module.length - 1]} if has_length else {}
    )
    for longer in (0, *OTHER_LENGTHS) if has_length else (0,):
        other = module.fed(OTHER_ROWS[module.seed // 4 % len(OTHER_ROWS)] if symbol else 3, longer)
        other = {name: x.to(dtype) for name, x in other.items()}
        if (symbol or longer) and (told := _predicted(program, network, other, sizes, longer)) is not None:
            return Verdict("differs", f"{ {name: tuple(x.shape) for name, x in other.items()} }: {told}")
    compiled = program.compile(**sizes)
    for engine in ["native"] if narrow else ["reference", *(["native"] if native else [])]:
        trained = copy.deepcopy(network)
        wide = copy.deepcopy(network).double() if narrow else _nudged(network)
        run = prograd.Run(compiled, engine=engine)
        verdict = _compared(run, program, trained, make(trained.parameters()), rows, wide, make)
        if verdict.kind != "agrees":
            return Verdict(verdict.kind, f"{engine}: {verdict.told}")
    return Verdict("agrees with two symbols" if has_length and symbol else "agrees")


def _imported(network: Any, example: Any, symbol: str | None, symbols: Any, make: Any) -> tuple[Any, bool]:
    """Return the program with the further symbols, and True; or without them, and False, if they are refused."""
    try:
        program = prograd.from_torch(
            network, example, batch=symbol, symbols=symbols, optimizer=make(network.parameters())
        )
        return program, bool(symbols)
    except CompileError:
        if not symbols:
            raise
    return prograd.from_torch(network, example, batch=symbol, optimizer=make(network.parameters())), False


def _predicted(program: Any, network: Any, rows: dict[str, torch.Tensor], sizes: Any, longer: int) -> str | None:
    """Return how results of evaluation differ for other sizes, unless PyTorch refuses them."""
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = copy.deepcopy(network).eval()(**rows)
            exact = _nudged(network).eval()(**rows)
    except (RuntimeError, ValueError, IndexError):
        return None
    bound = {name: size + longer if name == "length" else len(rows["x"]) for name, size in sizes.items()}
    try:
        run = prograd.Run(program.compile(**bound), engine="reference")
        found = run.predict(_feeds(run, "predict", rows))
    except (prograd.CompileError, prograd.ExecutionError, prograd.ProgramError):
        return None  # in a sentence
    told = {name: _difference(found[name], wanted[name], exact[name]) for name in found}
    return next((f"{name} in evaluation: {text}" for name, text in told.items() if text is not None), None)


def _compared(
    run: Any, program: Any, network: Any, optimizer: Any, rows: dict[str, torch.Tensor], wide: Any, make: Any
) -> Verdict:
    """Compare evaluation, then step by step the loss and all states; `wide` is a module whose distance is a measure."""
    more = make(wide.parameters())
    modes = {name: child.training for name, child in network.named_modules()}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = copy.deepcopy(network).eval()(**rows)
        exact = copy.deepcopy(wide).eval()(**_double(rows))
    found = run.predict(_feeds(run, "predict", rows))
    for name in found:
        if (told := _difference(found[name], wanted[name], exact[name])) is not None:
            return Verdict("differs", f"{name} in evaluation: {told}")
    for step in range(STEPS):
        loss = _step(network, optimizer, rows, modes)
        better = _step(wide, more, _double(rows), modes)
        stepped = run.step(_feeds(run, "train", rows))
        if (told := _difference(stepped["loss"], loss, better)) is not None:
            return Verdict("differs", f"the loss of step {step}: {told}")
        there, best = _tensors(network, optimizer), _tensors(wide, more)
        if (told := _states_differ(run, program, there, best)) is not None:
            return Verdict("differs", f"{told} (after step {step + 1})")
        trained = {name for name, p in network.named_parameters() if p.grad is not None and bool(p.grad.any())}
        if missing := trained - {name for state in program.states.values() for name in state.imported.names}:
            return Verdict("differs", f"{sorted(missing)} have no state")
    return Verdict("agrees")


def _states_differ(run: Any, program: Any, there: Mapping[str, Any], best: Mapping[str, Any]) -> str | None:
    """Return how a state or a slot of a run differs."""
    for name, axes, value in _held(run, program):
        if name in there:
            a, b = (x[name].permute(axes or tuple(range(x[name].ndim))) for x in (there, best))
            if (told := _difference(value, a, b)) is not None:
                return f"{name}: {told}"
    return None


def _nudged(network: Any) -> Any:
    """Return a copy with parameters that differ in their last digits, which shows how rounding grows."""
    made, seeded = copy.deepcopy(network), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in made.parameters():
            p.mul_(1 + 1e-13 * torch.randn(p.shape, generator=seeded, dtype=p.dtype))
    return made


def _tensors(network: Any, optimizer: Any) -> dict[str, torch.Tensor]:
    """Return the states of a module and, by the names of their parameters, of its optimizer."""
    slots = {
        f"{name}.{ours}": optimizer.state[p][theirs]
        for name, p in network.named_parameters()
        for theirs, ours in SLOTS.items()
        if theirs in optimizer.state.get(p, {})
    }
    return {**dict(network.named_buffers()), **network.state_dict(), **slots}


def _held(run: Any, program: Any) -> Iterator[tuple[str, tuple[int, ...], Any]]:
    """Yield the names in PyTorch, the axes and the elements of the states of a run, and of slots of parameters."""
    for state in list(program.states.values()):
        if state.imported.names:
            axes = tuple(state.imported.axes)
            yield state.imported.names[0], axes, run.state[state.name]
            for ours in SLOTS.values():
                if f"{state.name}.{ours}" in program.states:
                    yield f"{state.imported.names[0]}.{ours}", axes, run.state[f"{state.name}.{ours}"]


def _feeds(run: Any, entry: str, rows: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """Return the rows that an entry reads: results may not depend on all inputs."""
    return {name: x.numpy() for name, x in rows.items() if name in run.entries[entry].feeds}


def _double(rows: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: x.double() for name, x in rows.items()}


def _step(network: Any, optimizer: Any, rows: Mapping[str, torch.Tensor], modes: Mapping[str, bool]) -> torch.Tensor:
    for name, child in network.named_modules():
        child.training = modes[name]
    optimizer.zero_grad()
    loss = network(**rows)["loss"]
    loss.backward()
    optimizer.step()
    return loss


def _difference(found: Any, wanted: torch.Tensor, exact: torch.Tensor) -> str | None:
    """Return the difference if it is larger than rounding, and than PyTorch's own distance from another module."""
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
    if worst > limit and not narrow and worst < 1e-7 * np.abs(b).max():
        return f"rounding: {worst:.1e} where elements are up to {np.abs(b).max():.1e}"
    return None if worst <= limit else f"{worst:.1e} where elements are up to {np.abs(b).max():.1e}"
