"""The scope of each op of a block: that of its layer, if there is one."""

from __future__ import annotations

from collections.abc import Container, Iterable
from itertools import takewhile

from prograd_proto import program_pb2 as pb


def op_scopes(program: pb.ProgramDesc, block: pb.BlockDesc) -> list[str]:
    """Return the scope of each op, such as `encoder.attention`, or "" if it has none.

    The scope is the part before the last dot of the op's output name, if `program.scope` named it; else the scope of
    the op that it differentiates; else that of the states that it reads; else the common scope of all its operands. An
    op without operands, such as a constant, belongs to the first op that reads it.
    """
    of = {state.name: state.slot_of or state.name for state in program.states}  # slots belong to their parameter
    states = {p.tensor: state_scope(of.get(p.state, ""), of) for p in block.parameters if p.HasField("state")}
    by_id: dict[int, str] = {}
    inherited: dict[str, str] = {}  # tensors whose scope their readers inherit
    scopes: list[str] = []
    for op in block.ops:
        named = _named(op)
        own = named or by_id.get(op.gradient_of, "") or _in_common(states.get(i, "") for i in op.inputs)
        scope = own or _in_common(inherited.get(i, "") for i in op.inputs)
        by_id[op.id] = scope
        if not named:
            inherited |= dict.fromkeys(op.outputs, scope)
        scopes.append(scope)
    _give_constants(block, scopes)
    return scopes


def state_scope(name: str, states: Container[str]) -> str:
    """Return the scope of a state, `layer` of `layer.w`, and of `layer.w.average`, which belongs to another state."""
    scope = _before_the_dot(name)
    while scope in states:
        scope = _before_the_dot(scope)
    return scope


def _named(op: pb.OpDesc) -> str:
    """Return the scope in an output's name: `a` for `a.relu_2`, and for `a.batch_norm_3.mean` of several outputs."""
    scope = _before_the_dot(next(filter(None, op.outputs), ""))
    outer, _, last = scope.rpartition(".")
    return outer if len(op.outputs) > 1 and last.startswith(f"{op.type}_") else scope


def _before_the_dot(name: str) -> str:
    return name.rpartition(".")[0]


def _in_common(scopes: Iterable[str]) -> str:
    """Return the outer scopes that all non-empty scopes share."""
    found = [scope.split(".") for scope in dict.fromkeys(scopes) if scope]
    alike = takewhile(lambda parts: len(set(parts)) == 1, zip(*found, strict=False))
    return ".".join(parts[0] for parts in alike)


def _give_constants(block: pb.BlockDesc, scopes: list[str]) -> None:
    """Put each op that reads nothing and has no scope into that of the first op that reads it."""
    reader: dict[str, int] = {}
    for i in reversed(range(len(block.ops))):
        op = block.ops[i]
        if not op.inputs and not scopes[i]:
            first = min((reader[output] for output in op.outputs if output in reader), default=i)
            scopes[i] = scopes[first]
        reader |= dict.fromkeys(op.inputs, i)
