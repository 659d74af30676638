"""Random modules of PyTorch as lines of code: a piece takes tensors that exist, and is kept if PyTorch can run it."""

from __future__ import annotations

import linecache
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - its usual name
from torch.nn.utils.parametrizations import weight_norm

from fuzz.modules import parts
from fuzz.modules.kept import CHANGE_RATES, CHANGES, KEPT, WRITES
from fuzz.modules.pieces import ANY, BY_RANK, PAIRS, POINTWISE, Piece

NAMES: Final[dict[str, Any]] = {**vars(parts), "torch": torch, "nn": nn, "F": F, "weight_norm": weight_norm}
"""Names that the lines of a module may use."""

EXAMPLES: Final = {"rows": (6,), "series": (4, 6), "images": (4, 5, 6)}
"""The extents of the input behind the batch."""

LARGEST: Final = 30.0
"""Tensors with a larger element are not used further: differences would grow with them."""


@dataclass
class Module:
    """A module as code.

    Attributes:
        seed: of its weights.
        shape: extents of its input behind the batch.
        inits: for each piece, the lines of __init__.
        forwards: for each piece, the lines of forward.
        results: the tensors that forward returns, beside the loss of all.
        changes: lines that change the module once it is made.
    """

    seed: int
    shape: tuple[int, ...]
    inits: list[str] = field(default_factory=list[str])
    forwards: list[str] = field(default_factory=list[str])
    results: list[str] = field(default_factory=list[str])
    changes: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        inits = [line for init in self.inits for line in init.splitlines()]
        forwards = [line for forward in self.forwards for line in forward.splitlines()]
        terms = [
            f"(torch.sin({r}) * torch.arange({r}.shape[-1] or 1).add(1).to({r}.dtype)).mean()" for r in self.results
        ]
        named = ", ".join(f"'{r}': {r}" for r in self.results)
        return "\n".join([
            "class Net(nn.Module):", "    def __init__(self):", "        super().__init__()",
            *(f"        {line}" for line in inits),
            "    def forward(self, x):", *(f"        {line}" for line in forwards),
            f"        return {{'loss': {' + '.join(terms)}, {named}}}",
            *(f"# {line}" for line in self.changes),
        ])  # fmt: skip

    def made(self) -> nn.Module:
        """Return the module with seeded weights."""
        file, code = f"<module {self.seed}>", str(self)
        linecache.cache[file] = len(code), None, code.splitlines(keepends=True), file
        space = dict(NAMES)
        exec(compile(code, file, "exec"), space)
        torch.manual_seed(self.seed)
        space["net"] = space["Net"]()
        for line in self.changes:
            exec(line, space)
        return space["net"]

    def input(self, rows: int) -> torch.Tensor:
        """Return random rows."""
        return torch.randn(rows, *self.shape, generator=torch.Generator().manual_seed(self.seed + rows)).double()


def drawn(seed: int, *, pieces: int = 8) -> Module:
    """Return the module of that seed."""
    rng = np.random.default_rng(seed)
    kind = ["rows", "series", "images", "images"][int(rng.integers(4))]
    module = Module(seed, EXAMPLES[kind], inits=["self.first = nn.Parameter(torch.randn(6))"])
    torch.manual_seed(seed)
    live = nn.Module()
    space: dict[str, Any] = {**NAMES, "self": live, "x": module.input(3)}
    exec(module.inits[0], space)
    live.double()
    known = {"x0": _run("x0 = x * self.first", space)["x0"]}
    space |= known
    module.forwards.append("x0 = x * self.first")
    for number in range(1, 40):
        if len(known) > pieces:
            break
        piece, words = _chosen(rng, known, number)
        if _is_kept(piece, words, space, known, live):
            module.inits.append(piece.init.format(**words))
            module.forwards.append(piece.forward.format(**words))
    used = " ".join(module.forwards[1:]).replace("(", " ").replace(")", " ")
    module.results = [name for name in known if used.count(name) < 2] or list(known)[-1:]
    module.changes = _changes(rng, module)
    return module


def _changes(rng: np.random.Generator, module: Module) -> list[str]:
    """Return lines that change the module once it is made: modes, frozen parameters, hooks; mostly none."""
    layers = [line.partition(" =")[0].removeprefix("self.") for init in module.inits for line in init.splitlines()]
    layers = [name for name in layers if name.startswith("l") and name[1:].isdigit()]
    kinds = [int(rng.choice(len(CHANGES), p=CHANGE_RATES)) for _ in range(int(rng.integers(3)))]
    lines = [CHANGES[kind].format(m=layers[int(rng.integers(len(layers)))]) for kind in kinds if layers]
    made: list[str] = []
    for line in lines:
        try:
            module.changes = [*made, line]
            module.made()
            made.append(line)
        except (AttributeError, StopIteration, RuntimeError):
            pass  # the layer has no parameters, or they are frozen
    return made


def _chosen(rng: np.random.Generator, known: dict[str, torch.Tensor], number: int) -> tuple[Piece, dict[str, Any]]:
    """Return a piece and the words of its braces; late tensors are taken more often."""
    names = list(known)
    name = names[-1 - min(int(rng.exponential(1.2)), len(names) - 1)]
    x = known[name]
    alike = [other for other in names if known[other].shape == x.shape]
    own = BY_RANK.get(x.ndim, ANY)
    families = [own, own, own, ANY, ANY, ANY, PAIRS, POINTWISE, POINTWISE, KEPT, KEPT, WRITES, WRITES, WRITES]
    family = families[int(rng.integers(len(families)))]
    piece = family[int(rng.integers(len(family)))]
    words = dict(x=name, y=alike[int(rng.integers(len(alike)))], r=f"x{number}", n=number)
    words |= dict(k=round(float(rng.uniform(0.3, 1.7)), 2), s=round(float(rng.uniform(-1.2, 1.2)), 2))
    return piece, words | dict(c=x.shape[-1], d=x.shape[1], t=x.ndim, f=x[0].numel())


def _is_kept(
    piece: Piece, words: dict[str, Any], space: dict[str, Any], known: dict[str, torch.Tensor], live: nn.Module
) -> bool:
    """Run a piece, and return True if its result can be used further."""
    before = {name: x.clone() for name, x in known.items()}
    try:
        _run(piece.init.format(**words), space)
        live.double()
        made = _run(piece.forward.format(**words), space)[words["r"]]
    except (RuntimeError, ValueError, IndexError, TypeError, AssertionError, AttributeError, NotImplementedError):
        return False
    changed = any(not torch.equal(x, known[name]) for name, x in before.items())
    fits = made.dtype == torch.float64 and 2 <= made.ndim <= 4 and made.shape[0] == 3 and made.shape[-1] > 0
    small = fits and made.numel() < 2000 and min(made.shape[1], made.shape[-1]) > 1
    tame = bool(made.isfinite().all()) and float(made.detach().abs().max()) < LARGEST
    if changed or not (small and tame):
        return False
    known[words["r"]] = made.detach()
    space[words["r"]] = made.detach()
    return True


def _run(code: str, space: dict[str, Any]) -> dict[str, Any]:
    exec(code, space)
    return space
