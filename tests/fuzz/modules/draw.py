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

LENGTHS: Final = {"rows": 0.0, "series": 0.6, "images": 0.15}
"""How often axis 1, or the rows of an image, have a symbol, too."""

REFUSED_RATE: Final = 0.1
"""How often a line that is drawn and that every import refuses is taken."""

LARGEST: Final = 30.0
"""Tensors with a larger element are not used further: differences would grow with them."""


@dataclass
class Module:
    """A module as code.

    Attributes:
        seed: of its weights.
        inputs: for each input, the extents behind the batch.
        length: the axis of a further symbol, of inputs for which it is not the last one; 0 if there is none.
        inits: for each piece, the lines of __init__.
        forwards: for each piece, the lines of forward.
        results: the tensors that forward returns, beside the loss of all.
        changes: lines that change the module once it is made.
    """

    seed: int
    inputs: dict[str, tuple[int, ...]]
    length: int = 0
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
            f"    def forward(self, {', '.join(self.inputs)}):", *(f"        {line}" for line in forwards),
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

    def fed(self, rows: int, longer: int = 0) -> dict[str, torch.Tensor]:
        """Return random rows of each input, whose axis of a symbol is `longer`."""
        drawn = torch.Generator().manual_seed(self.seed + rows)
        return {
            name: torch.randn(
                rows,
                *(size + longer * (axis == self.length < len(shape)) for axis, size in enumerate(shape, 1)),
                generator=drawn,
            ).double()
            for name, shape in self.inputs.items()
        }


def drawn(seed: int, *, pieces: int = 8) -> Module:
    """Return the module of that seed."""
    rng = np.random.default_rng(seed)
    kind = ["rows", "series", "images", "images"][int(rng.integers(4))]
    shape = EXAMPLES[kind]
    others = {"z": [shape, (6,)][int(rng.integers(2))]} if rng.random() < 0.5 else {}
    length = len(shape) - 1 if rng.random() < LENGTHS[kind] else 0
    module = Module(seed, {"x": shape, **others}, length, inits=["self.first = nn.Parameter(torch.randn(6))"])
    torch.manual_seed(seed)
    live = nn.Module()
    exec(module.inits[0], {**NAMES, "self": live})
    live.double()
    spaces = [{**NAMES, "self": live, **module.fed(3, longer)} for longer in ((0, 1) if length else (0,))]
    module.forwards += ["x0 = x * self.first", *(f"{name}0 = torch.tanh({name})" for name in others)]
    known: list[dict[str, torch.Tensor]] = []
    for space in spaces:
        exec("\n".join(module.forwards), space)
        known.append({f"{name}0": space[f"{name}0"] for name in module.inputs})
    for number in range(1, 40):
        if len(known[0]) > pieces:
            break
        piece, words = _chosen(rng, known[0], number)
        if (not piece.is_refused or rng.random() < REFUSED_RATE) and _is_kept(piece, words, spaces, known):
            module.inits.append(piece.init.format(**words))
            module.forwards.append(piece.forward.format(**words))
    used = " ".join(module.forwards).replace("(", " ").replace(")", " ")
    module.results = [name for name in known[0] if used.count(name) < 2] or list(known[0])[-1:]
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
    piece: Piece, words: dict[str, Any], spaces: list[dict[str, Any]], known: list[dict[str, torch.Tensor]]
) -> bool:
    """Run a piece for each length, and return True if its results can be used further."""
    before = [{name: x.clone() for name, x in each.items()} for each in known]
    live = spaces[0]["self"]
    try:
        exec(piece.init.format(**words), spaces[0])
        live.double()
        made = [_run(piece.forward.format(**words), space)[words["r"]] for space in spaces]
    except (RuntimeError, ValueError, IndexError, TypeError, AssertionError, AttributeError, NotImplementedError):
        return False
    changed = any(
        not torch.equal(x, each[name]) for old, each in zip(before, known, strict=True) for name, x in old.items()
    )
    if changed or not all(map(_is_tame, made)) or len({x.ndim for x in made}) > 1:
        return False
    for x, each, space in zip(made, known, spaces, strict=True):
        each[words["r"]] = space[words["r"]] = x.detach()
    return True


def _is_tame(x: torch.Tensor) -> bool:
    fits = x.dtype == torch.float64 and 2 <= x.ndim <= 4 and x.shape[0] == 3 and x.shape[-1] > 0
    small = fits and x.numel() < 2000 and min(x.shape[1], x.shape[-1]) > 1
    return small and bool(x.isfinite().all()) and float(x.detach().abs().max()) < LARGEST


def _run(code: str, space: dict[str, Any]) -> dict[str, Any]:
    exec(code, space)
    return space
