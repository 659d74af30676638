"""The blocks of a program, each read once: the argument of a pass."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import chain

from prograd_proto import program_pb2 as pb
from prograd_proto.blocks.block_analysis import BlockAnalysis
from prograd_proto.blocks.walk import reached
from prograd_proto.tensor_types import TensorType, type_of


class BlockAnalyses:
    """A program and the readings of its blocks, by number; a block is read on first access."""

    def __init__(self, program: pb.ProgramDesc) -> None:
        self.desc = program
        self._blocks: dict[int, BlockAnalysis] = {}

    def __getitem__(self, number: int) -> BlockAnalysis:
        """Return the reading of the block of that number; raise IndexError if there is none."""
        if number not in self._blocks:
            self._blocks[number] = BlockAnalysis(self.desc.blocks[number], self.__getitem__)
        return self._blocks[number]

    def __len__(self) -> int:
        """Return the number of blocks of the program."""
        return len(self.desc.blocks)

    @property
    def sources(self) -> list[int]:
        """The numbers of the blocks that were built for entries, each once and in their order."""
        return list(dict.fromkeys(entry.source_block for entry in self.desc.entries))

    @property
    def bound(self) -> list[BlockAnalysis]:
        """The blocks that run: those of bindings, in the order of the entries, and those inside their ops."""
        numbers = (binding.block for entry in self.desc.entries for binding in entry.bindings)
        return [self[number] for number in self.with_sub_blocks(numbers)]

    @cached_property
    def state_types(self) -> dict[str, TensorType]:
        """The types of the states; code that uses `BlockAnalyses` never edits them."""
        return {state.name: type_of(state) for state in self.desc.states}

    def with_sub_blocks(self, numbers: Iterable[int]) -> list[int]:
        """Return those blocks and all blocks inside their ops, each once, outer ones first.

        Raises ProgramError for a block that does not exist or lies inside itself.
        """
        return reached(numbers, len(self), lambda number: list(chain.from_iterable(self[number].blocks)))

    def forget(self) -> None:
        """Drop all readings after edits of the messages; blocks are read again on demand."""
        self._blocks = {}

    def put(self, analyses: dict[int, BlockAnalysis]) -> None:
        """Replace the readings after an exchange of the blocks; blocks without a reading are read on demand."""
        self._blocks = analyses
