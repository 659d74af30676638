"""Pass: leave out ops whose result is there already, by rules that keep every bit.

1. The ops are visited in order. The first rule that applies to an op either names tensors with the bits of its
   outputs, which replace them, or writes the op as another one that gives equal bits, to which rules apply in turn.
2. A rule looks at the op, at the ops behind its operands, and at constants. It holds for all elements that there are:
   NaN, infinities and -0.0 among them. (A signalling NaN, which no operator makes, may stay one that would be quieted.)
3. Every rule shortens a chain or replaces an op by a cheaper one, so there is an end to it.

The docstring of each rule says why it is exact.

identities      rules for arithmetic and logic: neutral operands, and functions that are applied twice
rearrangements  rules for what moves elements: reshapes, transposes and their like
rewrites        what a rule is, what it can ask, and how it writes an op anew
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.passes.rewrite import EDITED, rewrite
from compiler.passes.simplify.identities import IDENTITIES
from compiler.passes.simplify.rearrangements import REARRANGEMENTS
from compiler.passes.simplify.rewrites import Rewrite, Scope
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import Reading, Readings

RULES: dict[str, tuple[Rewrite, ...]] = {
    type: IDENTITIES.get(type, ()) + REARRANGEMENTS.get(type, ()) for type in (*IDENTITIES, *REARRANGEMENTS)
}
"""For each op type what may be done with it, in the order in which it is tried."""


def simplify(program: Readings) -> None:
    """Leave out ops that give what is there already, such as x * 1, and shorten chains of reshapes and their like."""
    for block in program.bound:
        _simplify(block)


def _simplify(block: Reading) -> None:
    scope = Scope(block)

    def visit(i: int) -> Sequence[str] | None:
        if block.op_types[i] not in RULES:
            return None
        op = block.ops[i]
        instead = found = _simpler(scope, op)
        while found is EDITED:
            found = _simpler(scope, op)
            instead = found or EDITED
        return instead

    rewrite(block, visit)


def _simpler(scope: Scope, op: pb.OpDesc) -> Sequence[str] | None:
    """What the first rule that applies says; None if none does."""
    for rule in RULES.get(op.type, ()):
        found = rule(scope, op)
        if found is not None:
            return found
    return None
