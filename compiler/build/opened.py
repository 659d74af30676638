"""A program file as a starting point for building: its source blocks, as the values that a builder uses.

1. The growing block is the source block of the entry `train`, followed by the ops that only other entries have.
2. The source block of every other entry is kept. Additions to an entry are grafted onto it; an entry without additions
   is written as it was read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compiler.build.graft import graft
from compiler.build.last_batch import each, sizes_of
from compiler.build.well_formed import well_formed
from compiler.errors import CompileError
from compiler.passes.bind_dimensions import symbols_of
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses
from prograd_proto.files import copy_of
from prograd_proto.states import trains
from registry import Block, Value


@dataclass(frozen=True)
class Kept:
    """The source block of an entry of a file, and its tensors by the equal tensors of the growing block."""

    block: pb.BlockDesc
    names: Mapping[str, str]


@dataclass(frozen=True)
class Opened:
    """The content of an opened file that a builder does not have otherwise.

    Attributes:
        desc: the program of the file.
        kept: source blocks by entry that does not train.
    """

    desc: pb.ProgramDesc = field(default_factory=pb.ProgramDesc)
    kept: Mapping[str, Kept] = field(default_factory=dict[str, Kept])

    def sizes(self, program: pb.ProgramDesc) -> dict[str, int | Sequence[int]]:
        """Return the file's sizes of the symbols of a program; several for rows if the row symbol is the same."""
        there = sizes_of(self.desc)
        analyses = BlockAnalyses(program)
        symbols = {symbol for number in analyses.sources for symbol in symbols_of(analyses, number)} if there else ()
        found = {symbol: each(given) for symbol, given in there.items() if symbol in symbols}
        same = (program.data, program.run) == (self.desc.data, self.desc.run)
        return {symbol: sizes if same and len(sizes) > 1 else max(sizes) for symbol, sizes in found.items()}

    def fetched(self, entry: str, block: Block) -> dict[str, Value]:
        """Return the fetches of an entry of the file, as tensors of the growing block."""
        if entry not in self.kept:
            return {}
        here = {there: name for name, there in self.kept[entry].names.items()}
        return {fetch.name: block.value(here[fetch.tensor]) for fetch in self.kept[entry].block.fetches}

    def followers(self, state: str, updates: Mapping[str, Value]) -> list[str]:
        """Return the states that, in the file, follow the still unchanged update of this state."""
        train = self.source("train")
        new = next((update.tensor for update in train.updates if update.state == state), "")
        if not new or updates[state].name != new:
            return []
        read = {new}
        for op in train.ops:
            if not read.isdisjoint(op.inputs[:]):
                read.update(op.outputs)
        return [update.state for update in train.updates if update.tensor in read and update.state != state]

    def files(self, program: pb.ProgramDesc) -> list[pb.FileDesc]:
        """Return the descriptions of the file's files that a program still names."""
        named = {program.data.file} | {state.external.path for state in program.states}
        return [file for file in self.desc.files if file.path in named]

    def source(self, name: str) -> pb.BlockDesc:
        """Return the source block of an entry; an empty one if there is no such entry."""
        found = (self.desc.blocks[entry.source_block] for entry in self.desc.entries if entry.name == name)
        return next(found, pb.BlockDesc())


def read_program(path: str | os.PathLike[str]) -> pb.ProgramDesc:
    """Return the verified program in a file or its text form, with its source blocks.

    Raises ProgramError, beginning with the path, if it is invalid or needs a plugin that is not in use.
    """
    desc = well_formed(os.fspath(path))
    for entry in desc.entries:
        if entry.source_block in {binding.block for binding in entry.bindings}:
            raise CompileError(
                f"{os.fspath(path)}: the entry {entry.name!r} has only the block that runs, and not the one that was "
                "built; a program is built on by the blocks that were built"
            )
        if entry.name != "train" and trains(desc, desc.blocks[entry.source_block]):
            raise CompileError(
                f"{os.fspath(path)}: the entry {entry.name!r} trains; "
                "a program is built on if only the entry 'train' does"
            )
    return desc


def training_block(desc: pb.ProgramDesc) -> pb.BlockDesc:
    """Return the ops of the entry `train` without updates and fetches; an empty block if it does not exist."""
    block = copy_of(Opened(desc).source("train"))
    del block.updates[:], block.fetches[:]
    return block


def opened(block: Block, desc: pb.ProgramDesc) -> Opened:
    """Add the ops of the other entries to the growing block, and return the file's content to remember."""
    others = [entry for entry in desc.entries if entry.name != "train"]
    kept = {entry.name: _kept(block, desc.blocks[entry.source_block]) for entry in others}
    return Opened(desc, kept)


def next_stream(desc: pb.ProgramDesc) -> int:
    """Return the first random stream above those in use."""
    ops = [op for block in desc.blocks for op in block.ops] + [state.op for state in desc.states]
    return 1 + max((op.random_stream for op in ops), default=0)


def _kept(block: Block, source: pb.BlockDesc) -> Kept:
    names = graft(block, source)
    return Kept(source, {there: here for here, there in names.items()})
