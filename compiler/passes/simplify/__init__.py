"""Pass: remove ops whose result already exists, by rules that keep every bit.

1. The ops are visited in order. The first rule that applies to an op has one of two results. It names tensors with
   the bits of the outputs, which replace them. Or it rewrites the op as another one with equal bits, to which rules
   apply in turn.
2. A rule looks at the op, at the ops behind its operands, and at constants. It holds for all elements that there are:
   NaN, infinities and -0.0 among them. (A signalling NaN, which no operator makes, may stay one that would be quieted.)
3. Some rules are for all operators with a trait (`registry.traits`), also those of plugins; others are declared for
   particular operators by `rewrites`.
4. Every rule shortens a chain or replaces an op by a cheaper one, so the process terminates.

The docstring of each rule says why it is exact.

identities      rules for arithmetic and logic: identity operands, and functions that are applied twice
rearrangements  rules for ops that move elements: reshapes, transposes and similar ops
rewrites        the type of a rule, its declaration, its questions about a block, and the replacement of an op

An identity such as `x * 1 = x` is a rule of the pass `simplify`, not a pass: a function in
`compiler/passes/simplify/identities.py` or `rearrangements.py` with the decorator `rewrites`. It keeps every bit,
and its docstring says why. Its tests are in `tests/passes/test_simplify.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.passes.rewrite import EDITED, rewrite
from compiler.passes.simplify.identities import done_already, undone, without_identity
from compiler.passes.simplify.rearrangements import copies, reduced_of_one
from compiler.passes.simplify.rewrites import REWRITES, Rewrite, Scope
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from registry.op import find_op


def rules_of(op_type: str) -> tuple[Rewrite, ...]:
    """Return the rules for an operator in the order in which they are tried: those of its traits come first."""
    traits = find_op(op_type).traits
    rules = (
        without_identity if traits.identity_operand is not None else None,
        undone if traits.involution else None,
        done_already if traits.idempotent else None,
        copies if traits.copies else None,
        reduced_of_one if traits.keeps_single else None,
    )
    return (*(rule for rule in rules if rule is not None), *REWRITES.get(op_type, ()))


def simplify(program: BlockAnalyses) -> None:
    """Remove ops whose result already exists, such as x * 1, and shorten chains of reshapes and similar ops."""
    for block in program.bound:
        _simplify(block)


def _simplify(block: BlockAnalysis) -> None:
    scope = Scope(block)
    rules = {op_type: rules_of(op_type) for op_type in set(block.op_types)}

    def visit(i: int) -> Sequence[str] | None:
        if not rules[block.op_types[i]]:
            return None
        op = block.ops[i]
        instead = found = _simpler(scope, op, rules[op.type])
        while found is EDITED:
            found = _simpler(scope, op, rules_of(op.type))
            instead = found or EDITED
        return instead

    rewrite(block, visit)


def _simpler(scope: Scope, op: pb.OpDesc, rules: Sequence[Rewrite]) -> Sequence[str] | None:
    """Return the result of the first rule that applies; None if none does."""
    for rule in rules:
        found = rule(scope, op)
        if found is not None:
            return found
    return None
