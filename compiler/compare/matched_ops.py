"""Correspondence of the ops of two blocks.

1. Ops of the same id, type and outputs match, if they help to differentiate the same op.
2. Of the other ops, those in the same order with the same type, attributes, stage and number of operands match: an
   added or removed op shifts the ids and names of all later ops.
3. Between two matched ops, the unmatched ops of both sides are matched by position if there are equally many: they are
   the changed ops.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from prograd_proto import program_pb2 as pb


def matched_ops(a: Sequence[pb.OpDesc], b: Sequence[pb.OpDesc]) -> list[tuple[int, int]]:
    """Return pairs of positions, in the order of `a`; ops without a partner are in none."""
    place = {_identity(op): j for j, op in enumerate(b)}
    same = {i: place[_identity(op)] for i, op in enumerate(a) if _identity(op) in place}
    taken = set(same.values())
    left = [i for i in range(len(a)) if i not in same]
    right = [j for j in range(len(b)) if j not in taken]
    pairs = [*same.items(), *_in_order(a, b, left, right)]
    return sorted(pairs)


def moved(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the fewest pairs without which the others are in the same order."""
    tails: list[int] = []  # smallest last position of an increasing run, by its length
    at: list[int] = []
    before: list[int] = []
    for k, (_, j) in enumerate(pairs):
        length = bisect_left(tails, j)
        tails[length:] = [j, *tails[length + 1 :]]
        at[length:] = [k, *at[length + 1 :]]
        before.append(at[length - 1] if length else -1)
    stays: set[int] = set()
    k = at[-1] if at else -1
    while k >= 0:
        stays.add(k)
        k = before[k]
    return [pair for k, pair in enumerate(pairs) if k not in stays]


def _in_order(
    a: Sequence[pb.OpDesc], b: Sequence[pb.OpDesc], left: Sequence[int], right: Sequence[int]
) -> Iterator[tuple[int, int]]:
    matcher = SequenceMatcher(None, [_work(a[i]) for i in left], [_work(b[j]) for j in right], autojunk=False)
    for what, i, i_end, j, j_end in matcher.get_opcodes():
        if what == "equal" or (what == "replace" and i_end - i == j_end - j):
            yield from zip(left[i:i_end], right[j:j_end], strict=True)


def _identity(op: pb.OpDesc) -> object:
    return op.id, op.type, op.gradient_of, *op.outputs


def _work(op: pb.OpDesc) -> object:
    return op.type, op.stage, len(op.inputs), *(attribute.SerializeToString() for attribute in op.attributes)
