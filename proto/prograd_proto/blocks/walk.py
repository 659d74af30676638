"""The walk into sub-blocks: the blocks inside ops, by their numbers in the program.

Code that visits the ops of a block that runs also visits those of the blocks inside it, by `inside` or by
`BlockAnalyses.with_sub_blocks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from prograd_proto import program_pb2 as pb
from prograd_proto.blocks.control import MAX_DEPTH
from prograd_proto.errors import ProgramError


def inside(program: pb.ProgramDesc, numbers: Iterable[int]) -> list[int]:
    """Return those blocks and all blocks inside their ops, each once, outer ones first.

    Raises ProgramError for a block that does not exist or lies inside itself.
    """
    return reached(numbers, len(program.blocks), lambda number: list(_named(program.blocks[number])))


def reached(numbers: Iterable[int], count: int, named: Callable[[int], Sequence[int]]) -> list[int]:
    """Return the result of `inside` for `count` blocks, where `named` returns the blocks inside a block."""
    found: dict[int, None] = {}
    for number in numbers:
        _enter(number, (), found, count, named)
    return list(found)


def _named(block: pb.BlockDesc) -> Iterator[int]:
    return (number for op in block.ops for number in op.blocks)


def _enter(
    number: int, around: tuple[int, ...], found: dict[int, None], count: int, named: Callable[[int], Sequence[int]]
) -> None:
    where = f"block {around[-1]}: " if around else ""
    if number >= count:
        raise ProgramError(f"{where}an op has the sub-block {number}, and the program has {count} blocks")
    if number in around:
        raise ProgramError(f"{where}an op has the sub-block {number}, inside which it lies itself")
    if len(around) > MAX_DEPTH:
        raise ProgramError(f"{where}its op lies in {MAX_DEPTH} blocks, one in another; there are at most as many")
    if number in found:
        return
    found[number] = None
    for inner in named(number):
        _enter(inner, (*around, number), found, count, named)
