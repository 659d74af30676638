"""Gradients of functions that are composed of operators, for the rules of ops that fuse such a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prograd_proto import program_pb2 as pb
from registry.block import Block
from registry.gradients import differentiate
from registry.value import Value


def gradients_of(
    function: Callable[..., Sequence[Value]],
    inputs: Sequence[Value],
    output_grads: Sequence[Value | None],
) -> list[Value | None]:
    """Return the gradients of `function(*inputs)` with respect to its inputs, given those of its outputs.

    The ops of the function are appended to the block of the inputs, followed by those of its gradient. An op whose
    outputs have no gradient appends none. The gradient is None for an input that no output with a gradient depends on.
    One tensor may stand for several inputs and may be used by the function elsewhere; the gradient of an input counts
    the uses of that input alone.
    """
    block = inputs[0].block
    with block.stand_ins(inputs) as own:
        return _gradients(block, function, own, output_grads)


def _gradients(
    block: Block,
    function: Callable[..., Sequence[Value]],
    inputs: Sequence[Value],
    output_grads: Sequence[Value | None],
) -> list[Value | None]:
    """Return the gradients, given that no two inputs are the same tensor."""
    first = len(block.desc.ops)
    outputs = function(*inputs)
    made = block.desc.ops[first:]
    grads: dict[str, Value] = {}
    for output, grad in zip(outputs, output_grads, strict=True):
        if grad is not None:
            _contribute(grads, output.name, grad)
    for desc in reversed(_varying(made, inputs)):
        given = [grads.get(name) for name in desc.outputs]
        if any(grad is not None for grad in given):
            for name, grad in zip(desc.inputs, differentiate(block, desc, given), strict=True):
                if grad is not None:
                    _contribute(grads, name, grad)
    return [grads.get(value.name) for value in inputs]


def _varying(made: Sequence[pb.OpDesc], inputs: Sequence[Value]) -> list[pb.OpDesc]:
    """Return the ops that depend on the inputs."""
    varies = {value.name for value in inputs}
    found: list[pb.OpDesc] = []
    for desc in made:
        if varies & set(desc.inputs):
            varies.update(desc.outputs)
            found.append(desc)
    return found


def _contribute(grads: dict[str, Value], name: str, grad: Value) -> None:
    grads[name] = grads[name] + grad if name in grads else grad
