"""A few ops as the native engine makes them, operands and results between forbidden pages, and as the oracle does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from native.bound import bind_compiled, lowered
from native.guarded import guarded
from oracles.interpret import interpret

import runtime.engines.reference.kernels  # noqa: F401 -- fills KERNELS
from prograd_proto import TensorType
from registry import Block, Value
from runtime.codegen.machine import Target
from runtime.engines.native.helpers import Helpers
from runtime.memory.aligned import aligned_bytes

Write = Callable[..., "Value | Iterable[Value]"]
"""Ops of operands, and their results."""


class Made:
    """Ops in a block with operands, and what the reference kernels make of them."""

    def __init__(self, write: Write, operands: Sequence[np.ndarray | None]) -> None:
        block = Block()
        given = [x if x is None else np.asarray(x) for x in operands]
        names = [f"x{i}" for i in range(len(given))]
        values = [
            None if x is None else block.define(name, TensorType(x.dtype.name, x.shape))
            for name, x in zip(names, given, strict=True)
        ]
        self.write = write
        results = write(*values)
        self.results = [results] if isinstance(results, Value) else list(results)
        self.operands = {name: x for name, x in zip(names, given, strict=True) if x is not None}
        self.desc = block.desc
        tensors = interpret(self.desc, self.operands)
        self.wanted = [tensors[value.name] for value in self.results]
        for name in self.operands:
            self.desc.parameters.add(tensor=name, state=name)
        for value in self.results:
            self.desc.updates.add(tensor=value.name, state=f"new {value.name}")

    def groups(self, target: Target) -> list[str]:
        """Nodes that are computed together."""
        return [group.name for group in lowered(self.desc, (), target).groups]

    def native(self, target: Target, threads: int = 1, end: bool = True) -> list[np.ndarray]:
        """The results, in memory that is NaN where nothing was written; host ops are not allowed."""
        step = lowered(self.desc, (), target, threads)
        hosts = [group.name for group in step.groups if group.is_host]
        assert not hosts, f"NumPy computes {hosts}"
        states = {name: guarded(x, end) for name, x in self.operands.items()}
        for value, wanted in zip(self.results, self.wanted, strict=True):
            rubbish = np.full(wanted.nbytes, 0xFF, "u1").view(wanted.dtype).reshape(wanted.shape)
            states[f"new {value.name}"] = guarded(rubbish, end)
        arena = aligned_bytes(max(step.memory.arena_bytes, 64))
        arena[:] = 0xFF
        compiled = bind_compiled(step, states, arena)
        helpers = Helpers(threads - 1)
        with helpers.helping(compiled.driver):
            compiled()
        helpers.close()
        for name, x in self.operands.items():
            np.testing.assert_array_equal(states[name], x)
        return [compiled.arrays[value.name] for value in self.results]


def check(
    write: Write,
    operands: Sequence[np.ndarray | None],
    target: Target,
    near: float | None = None,
    threads: int = 1,
    end: bool = True,
) -> list[np.ndarray]:
    """The results, which are near those of the reference: by default some roundings of the largest number in each."""
    made = Made(write, operands)
    found = made.native(target, threads, end)
    for got, wanted in zip(found, made.wanted, strict=True):
        if wanted.dtype.kind != "f":
            np.testing.assert_array_equal(got, wanted)
            continue
        scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=1e-30)
        room = (near or {"float32": 2e-6, "float64": 4e-15}[wanted.dtype.name]) * scale
        np.testing.assert_allclose(got, wanted, rtol=0, atol=room)
    return found
