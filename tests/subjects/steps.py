"""Steps of a compiled program: by the runtime's executor, and by the oracle that keeps every tensor apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from oracles.interpret import interpret

from compiler.build.compiled import Compiled
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses
from runtime.check import check_program
from runtime.engines.reference.bound_step import Memory
from runtime.engines.reference.executor import Manner, prepare
from runtime.engines.reference.target import REFERENCE
from runtime.entries import BoundEntry
from runtime.memory.aligned import aligned_bytes
from runtime.runs.states import States


def bound_blocks(program: pb.ProgramDesc) -> list[pb.BlockDesc]:
    """The blocks that run."""
    return [block.desc for block in BlockAnalyses(program).bound]


def bound_block(program: pb.ProgramDesc, entry: str = "train", binding: int = 0) -> pb.BlockDesc:
    [found] = [e for e in program.entries if e.name == entry]
    return program.blocks[found.bindings[binding].block]


class Stepper:
    """A checked program with its states, ready to step."""

    def __init__(
        self,
        compiled: Compiled | pb.ProgramDesc,
        entry: str = "train",
        *,
        threads: int = 1,
        large: int | None = None,
        check_nan: bool = False,
        fetch: Sequence[str] = (),
        plan: pb.MemoryPlan | None = None,
        memory: Callable[[int], np.ndarray] = aligned_bytes,
        file: Callable[[int], np.ndarray] = aligned_bytes,
    ) -> None:
        self.program = compiled.desc if isinstance(compiled, Compiled) else compiled
        check_program(self.program, REFERENCE)
        self.states = States(self.program, Path())
        self.states.initialise()
        self.block = bound_block(self.program, entry)
        self.executor = prepare(
            self.program,
            BoundEntry(entry, 0, self.block, plan, 1, {}, frozenset()),
            self.states.arrays,
            fetch,
            Manner(threads, large, check_nan),
            Memory(memory, file),
        )
        self.ops = [op for part in self.executor.parts for op in part.ops]

    def step(self, **feeds: np.ndarray | float) -> dict[str, np.ndarray]:
        for name, array in feeds.items():
            self.executor.feeds[name][...] = array
        self.executor.step()
        return {name: array.copy() for name, array in self.executor.fetches.items()}

    def snapshot(self) -> dict[str, np.ndarray]:
        return {name: array.copy() for name, array in self.states.arrays.items()}


class Oracle:
    """Run the same steps without arena, in-place ops and schedule."""

    def __init__(self, program: pb.ProgramDesc, states: Mapping[str, np.ndarray], entry: str = "train") -> None:
        self.states = {name: array.copy() for name, array in states.items()}
        self.block, self.bodies = bound_block(program, entry), program.blocks

    def step(self, **feeds: np.ndarray | float) -> dict[str, np.ndarray]:
        types = {tensor.name: tensor for tensor in self.block.tensors}
        given = {
            p.tensor: self.states[p.state]
            if p.WhichOneof("source") == "state"
            else np.ascontiguousarray(feeds[p.feed], NUMPY[types[p.tensor].dtype])
            for p in self.block.parameters
        }
        arrays = interpret(self.block, given, bodies=self.bodies)
        fetches = {fetch.name: arrays[fetch.tensor].copy() for fetch in self.block.fetches}
        new = {update.state: arrays[update.tensor].copy() for update in self.block.updates}
        self.states |= new
        return fetches


NUMPY = {
    pb.D_TYPE_FLOAT32: "float32",
    pb.D_TYPE_FLOAT64: "float64",
    pb.D_TYPE_INT32: "int32",
    pb.D_TYPE_INT64: "int64",
    pb.D_TYPE_BOOL: "bool",
    pb.D_TYPE_UINT8: "uint8",
}


def same_bits(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]):
    assert one.keys() == other.keys()
    differing = [name for name in one if one[name].tobytes() != other[name].tobytes()]
    assert differing == []
