"""The reference engine: NumPy, one function per op."""

from __future__ import annotations

from collections.abc import Iterator

from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from runtime.address_space import is_limited
from runtime.blas import take_buffer
from runtime.engines.engine import EngineOptions, Footprint
from runtime.engines.reference.target import REFERENCE
from runtime.engines.reference.workspace import ReferenceWorkspace
from runtime.entries import BoundEntry
from runtime.errors import UsageError
from runtime.step import places_within
from runtime.step.phases import phases_of


class ReferenceEngine:
    """The reference engine; see `runtime.engines.engine.Engine`."""

    name = "reference"
    instructions = ""  # NumPy's BLAS chooses the instruction set

    def __init__(self, program: pb.ProgramDesc, options: EngineOptions) -> None:
        if is_limited():
            take_buffer()
        self._program = program
        self._options = options
        self.threads = options.threads

    def needs(self, bound: BoundEntry) -> Footprint:
        """Return the bytes of the step as it would be placed now."""
        block = BlockAnalysis(bound.block, BlockAnalyses(self._program).__getitem__)
        ways = phases_of(block, self.threads)
        places = places_within(block, REFERENCE, bound.plan, ways=ways)
        return Footprint(places.arena_bytes, places.file_bytes)

    def explain(self, bound: BoundEntry, after: str | None = None) -> Iterator[str]:
        """Yield one line: there is nothing to lower."""
        if after is not None:
            raise UsageError(f"the engine 'reference' has no pass {after!r}, as it lowers nothing")
        yield f"{bound.name} by the reference engine: a NumPy kernel for each of {len(bound.block.ops)} ops, in order"

    def code(self, bound: BoundEntry) -> str:
        """Raise UsageError: this engine compiles nothing."""
        raise UsageError("the engine 'reference' compiles nothing; --ir is for the engine 'native'")

    def workspace(self) -> ReferenceWorkspace:
        """Return a new workspace."""
        return ReferenceWorkspace(self._program, self._options)
