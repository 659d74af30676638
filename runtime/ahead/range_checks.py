"""The sentences for indices and labels out of range, with the number and its row where a feed has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attributes_of
from runtime.entries import BoundEntry
from runtime.rows.out_of_range import MOVES

INTEGERS: Final = ("int32", "int64")
"""Dtypes of indices and labels."""

ALONE: Final = MOVES - {"pad", "split"}
"""Operators that change no number of their only operand, and keep each number in its row."""

ANY_FEED: Final = -1


class RangeCheck(NamedTuple):
    """The sentences of a check.

    Attributes:
        why: the sentence without a number.
        feed: number of the feed whose numbers the op reads; ANY_FEED if that is uncertain.
        size: the numbers of the feed are 0 to size - 1.
        before, between, after: the sentence around the number and its row.
    """

    why: str
    feed: int = ANY_FEED
    size: int = 0
    before: str = ""
    between: str = ""
    after: str = ""


def range_check(program: pb.ProgramDesc, bound: BoundEntry, positions: Sequence[int]) -> RangeCheck:
    """Return the check of a group of ops: it is that of the first op that reads integers."""
    ops = [bound.block.ops[i] for i in positions]
    reading = [op for op in ops if any(bound.types[name].dtype in INTEGERS for name in op.inputs if name)]
    op = (reading or ops)[0]
    place = program.locations[op.location - 1] if op.location else ""
    who = f"op {op.id} ({op.type}{f' from {place}' if place else ''})"
    why = RangeCheck(f"{who}: an index or a label is out of range")
    feed, known = _feed_of(bound, op), _range_of(bound, op)
    if feed not in bound.feeds or known is None or len(reading) > 1:
        return why
    what, places, size = known
    between = f" is out of range: there are {size} {places}, from 0; row "
    number = list(bound.feeds).index(feed)
    return RangeCheck(why.why, number, size, f"{who}: {what} ", between, f" of the feed {feed!r} has it")


def _range_of(bound: BoundEntry, op: pb.OpDesc) -> tuple[str, str, int] | None:
    """Return the words for the numbers of an op and of its places, and how many places there are."""
    attributes, first = attributes_of(op), bound.types[op.inputs[0]].static_shape
    if op.type == "softmax_cross_entropy":
        return "label", "classes", first[-1]
    if op.type in ("gather", "scatter_add"):
        return "index", "places", first[int(attributes["axis"])]  # pyright: ignore[reportArgumentType]: the contract says int
    if op.type == "one_hot":
        return "index", "places", int(attributes["depth"])  # pyright: ignore[reportArgumentType]: the contract says int
    return None


def _is_move(op: pb.OpDesc) -> bool:
    """Return True if all numbers that an op gives are those of its only operand."""
    return op.type in ALONE and len(op.inputs) == 1


def _feed_of(bound: BoundEntry, op: pb.OpDesc) -> str:
    """Return the feed whose numbers an op reads by ops that only move them; "" if there is none, or it has no rows."""
    makers = {name: each for each in bound.block.ops for name in each.outputs if _is_move(each)}
    feeds = {p.tensor: p.feed for p in bound.block.parameters if p.WhichOneof("source") == "feed"}
    [*names] = (name for name in op.inputs if name and bound.types[name].dtype in INTEGERS)
    if len(names) != 1:
        return ""
    name = names[0]
    while name in makers:
        name = makers[name].inputs[0]
    feed = feeds.get(name, "")
    return feed if feed and bound.feeds[feed].by_row and bound.types[name].dtype in INTEGERS else ""
