"""prograd as a side, and runs of the compiled program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from compiler import Program, gradients, ops
from fuzz.control_flow.tree import Tree, computed
from prograd_proto import program_pb2 as pb
from prograd_proto.files import copy_of
from runtime import Run

Function = Callable[..., list[Any]]


class Prograd:
    """The calls by prograd; `save` is what loops leave for their gradients, by default what the program says."""

    def __init__(self, save: str = "") -> None:
        self.save = save

    def unary(self, x: Any, *, name: str) -> Any:
        return -x if name == "neg" else getattr(ops, name)(x)

    def binary(self, x: Any, y: Any, *, name: str) -> Any:
        return getattr(ops, name)(x, y)

    def total(self, x: Any) -> Any:
        return ops.sum(x)

    def product(self, x: Any, w: Any) -> Any:
        return x @ w

    def number(self, x: Any, *, name: str, value: float) -> Any:
        return getattr(ops, name)(x, value)

    def expand(self, x: Any, *, shape: tuple[int, ...]) -> Any:
        return ops.broadcast_to(x, shape=shape)

    def row(self, x: Any, *, i: int) -> Any:
        return x[i]

    def as_float(self, x: Any) -> Any:
        return ops.cast(x, dtype="float64")

    def choose(self, x: Any, y: Any, z: Any) -> Any:
        return ops.where(x > 0.1, y, z)

    def cond(self, x: Any, *operands: Any, bodies: Sequence[Function], limit: float) -> list[Any]:
        one, other = bodies
        return list(ops.cond(x > limit, lambda *o: tuple(one(*o)), lambda *o: tuple(other(*o)), *operands))

    def scan(
        self, *operands: Any, bodies: Sequence[Function], carries: int, length: int, reverse: bool, save: str
    ) -> list[Any]:
        def step(state: Any, rows: Any) -> Any:
            made = bodies[0](*state, *rows)
            return tuple(made[:carries]), tuple(made[carries:])

        rows = operands[carries:]
        if not carries and not reverse:
            return list(ops.map(lambda rows: tuple(bodies[0](*rows)), rows, save=self.save or save))
        state, stacks = ops.scan(step, operands[:carries], rows, length=length, reverse=reverse, save=self.save or save)
        return [*state, *stacks]

    def loop(self, *operands: Any, bodies: Sequence[Function], most: int, save: str) -> list[Any]:
        condition, body = bodies
        state, trips = ops.while_loop(
            lambda *s: condition(*s)[0] > 0.0,
            lambda *s: tuple(body(*s)),
            *operands,
            max_trips=most,
            save=self.save or save,
        )
        return [*(state if len(operands) > 1 else [state]), trips]


class Built:
    """A program with its outputs: results y, gradients g, second gradients h.

    Attributes:
        source: as built, before passes.
        desc: the compiled program.
    """

    def __init__(self, tree: Tree, directions: Sequence[np.ndarray], save: str = "") -> None:
        program = Program("fuzz")
        feeds = [program.input(f"x{i}", array.dtype.name, array.shape) for i, array in enumerate(tree.feeds)]
        results = computed(Prograd(save), tree.body, feeds)
        leaves = [feeds[i] for i in tree.leaves]
        first = gradients(results[0], leaves)
        shown = {f"y{i}": y for i, y in enumerate(results)}
        shown |= {f"g{i}": g for i, g in enumerate(first) if g is not None}
        along_which = [program.input(f"v{i}", "float64", v.shape) for i, v in enumerate(directions)]
        parts = [ops.sum(g * v) for g, v in zip(first, along_which, strict=True) if g is not None]
        along = parts[0]
        for part in parts[1:]:
            along = along + part
        second = gradients(along, leaves)
        shown |= {f"h{i}": h for i, h in enumerate(second) if h is not None}
        program.outputs(**shown)
        self.source = copy_of(program._assembled())
        self.desc: pb.ProgramDesc = program.compile().desc
        self.feeds: dict[str, np.ndarray] = {f"x{i}": array for i, array in enumerate(tree.feeds)}
        self.feeds |= {f"v{i}": v for i, v in enumerate(directions)}


def run(desc: pb.ProgramDesc, feeds: Mapping[str, np.ndarray], **options: Any) -> dict[str, np.ndarray]:
    """Return the outputs of a compiled program."""
    with closing(Run(copy_of(desc), **options)) as made:
        [bound, *_] = made.session.bindings("predict")
        return made.step({name: feeds[name] for name in bound.feeds}, entry="predict")
