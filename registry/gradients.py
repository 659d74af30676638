"""The mapping from one op to the ops that compute its input gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prograd_proto import attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import REALS
from registry.block import Block
from registry.control.control_op import CONTROL
from registry.errors import OpError
from registry.op import Op, find_op, rule_names
from registry.value import Value


def differentiate(block: Block, desc: pb.OpDesc, output_grads: Sequence[Value | None]) -> list[Value | None]:
    """Append the gradient ops of `desc` to its block and return one gradient for each input.

    A gradient is None if none flows into the input. It has the type of its tensor, with float32 in place of a 16-bit
    float. `output_grads` has a Value for each output, None where the loss does not depend on it. Raises OpError if the
    operator has no gradient rule or the rule breaks its contract.
    """
    if desc.type in CONTROL:
        return CONTROL[desc.type].differentiate(block, desc, output_grads)
    op = find_op(desc.type)
    if op.gradient_rule is None:
        raise OpError(f"{op.name}: {missing_rule(op)}")
    scope = op.scope(block, desc, attributes_of(desc))
    scope |= {f"d{name}": grad for name, grad in op.signature.name_outputs(output_grads).items()}
    result = op.gradient_rule(**{name: scope[name] for name in rule_names(op.gradient_rule)})
    inputs = desc.inputs[:]
    grads = _flat(op, result, len(inputs))
    for name, grad in zip(inputs, grads, strict=True):
        if grad is not None and grad.type != block.types[name].wide:
            raise OpError(
                f"the gradient of {op.name!r} gives {grad.type} for the input %{name}: {block.types[name]}; "
                f"mend the rule in {_file_of(op)}"
            )
    return [
        grad if grad is not None and carries_gradient(op, inputs, i, block) else None for i, grad in enumerate(grads)
    ]


def missing_rule(op: Op[..., Any]) -> str:
    """Return the reason why `op` cannot be differentiated, and a remedy."""
    if not op.differentiable:
        return "is declared non-differentiable"
    return f"has no gradient rule; add one in {_file_of(op)} or declare differentiable=False"


def carries_gradient(op: Op[..., Any], inputs: Sequence[str], position: int, block: Block) -> bool:
    """Return True if a gradient may flow into that input: a float tensor that is not declared non-differentiable."""
    name = inputs[position]
    if not name or block.types[name].dtype not in REALS or not op.differentiable:
        return False
    last = len(op.signature.inputs) - 1
    return op.signature.inputs[min(position, last)] not in op.no_gradient


def emits_gradient(op: Op[..., Any], desc: pb.OpDesc, position: int, block: Block) -> bool:
    """Return True if a loss may be differentiated through that output."""
    if block.types[desc.outputs[position]].dtype not in REALS or not op.differentiable:
        return False
    last = len(op.signature.outputs) - 1
    return op.signature.outputs[min(position, last)] not in op.no_gradient


def _flat(op: Op[..., Any], result: Any, count: int) -> list[Value | None]:
    parts: list[Any] = list(result) if isinstance(result, tuple) else [result]  # pyright: ignore[reportUnknownArgumentType]: rules are untyped
    flat: list[Value | None] = []
    for part in parts:
        flat += part if isinstance(part, list) else [part]
    if len(flat) != count:
        raise OpError(
            f"the gradient of {op.name!r} gives {len(flat)} gradients for {count} inputs; "
            f"mend the rule in {_file_of(op)}"
        )
    return flat


def _file_of(op: Op[..., Any]) -> str:
    return op.declaration.__module__.replace(".", "/") + ".py"
