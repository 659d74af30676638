"""Parameters and buffers of a module as states of a program, with the axes of prograd.

A weight is stored as the operators that use it want it: filters [window, in, out], matrices [in, out]. If they differ,
as for a table that is also a matrix of logits, it stays as it is in the module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from compiler.build.program import Program
from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, transposed
from compiler.frontends.initial_values import InitialValues
from compiler.frontends.torch.halves import numpy_of
from prograd_proto.dtypes import NUMBERS

REVERSED: Final = {
    "aten.linear.default": {1},
    "aten.conv1d.default": {1},
    "aten.conv2d.default": {1},
    "aten.conv3d.default": {1},
    "aten.conv1d.padding": {1},
    "aten.conv2d.padding": {1},
    "aten.conv3d.padding": {1},
    "aten.convolution.default": {1},
    "aten.conv_transpose1d.default": {1},
    "aten.conv_transpose2d.input": {1},
    "aten.conv_transpose3d.input": {1},
    "aten.t.default": {0},
}
"""By operator, the operands that are stored with window, in, out instead of out, in, window."""

RECURRENT: Final = {
    "aten.lstm.input": 2,
    "aten.gru.input": 2,
    "aten.rnn_tanh.input": 2,
    "prograd.recurrent_by_lengths.default": 4,
}
"""By operator, the operand that lists its weights."""

CONTROL: Final = {"cond", "while_loop", "scan", "map_impl"}
"""Operators whose graphs use weights."""


def order_of(nodes: Sequence[Any], rank: int) -> tuple[int, ...]:
    """Return the axes of the module in the order in which the program stores them; a tied tensor has several nodes."""
    uses = [_is_reversed(user, node) for node in nodes for user in node.users]
    if rank < 2 or not uses or not all(uses):
        return tuple(range(rank))
    return (*range(2, rank), 1, 0)


def _is_reversed(user: Any, node: Any) -> bool:
    name = str(user.target)
    if name in CONTROL:
        inner = list(_inner_placeholders(user, node))
        return bool(inner) and all(_is_reversed(use, place) for place in inner for use in place.users)
    if name in RECURRENT:
        return node in user.args[RECURRENT[name]]
    if name == "aten.permute.default":
        return list(user.args[1]) == [1, 0]
    positions = REVERSED.get(name, ())
    return any(user.args[i] is node for i in positions) and sum(x is node for x in user.args) == 1


def _inner_placeholders(user: Any, node: Any) -> Iterator[Any]:
    """Yield the placeholders that stand for a node in the graphs of an operator of control flow."""
    graphs = [x for x in user.args if getattr(x, "op", "") == "get_attr"]
    operands = [x for given in user.args if isinstance(given, list | tuple) for x in given]
    for graph in graphs:
        inner = getattr(user.graph.owning_module, graph.target).graph
        placeholders = [x for x in inner.nodes if x.op == "placeholder"]
        yield from (place for place, x in zip(placeholders, operands, strict=True) if x is node)


def declared(
    program: Program, name: str, tensor: Any, order: Sequence[int], values: InitialValues, *, trainable: bool | None
) -> Arranged:
    """Return a parameter, or a buffer if `trainable` is None, with the tensor as its initial value."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype.startswith("complex"):
        raise CompileError(
            f"{name} is {dtype}, and states are real; keep torch.view_as_real of it, and call torch.view_as_complex in "
            "forward"
        )
    if dtype not in NUMBERS:
        raise CompileError(
            f"{name} is {dtype}, and states are float16, bfloat16, float32 or float64; call module.float() before the "
            "import or the export"
        )
    laid = tensor.detach().permute(*order) if order else tensor.detach()
    array = numpy_of(laid)
    # the module may go on training; its memory is not the program's
    initial = values.add(name, array.copy() if array.ctypes.data == tensor.data_ptr() else array)
    if trainable is None:
        state = program.buffer(name, array.shape, initial, dtype=dtype)  # pyright: ignore[reportArgumentType]: one of those
    else:
        state = program.parameter(name, array.shape, initial, dtype=dtype, trainable=trainable)  # pyright: ignore[reportArgumentType]
    inverse = [list(order).index(axis) for axis in range(len(order))]
    return transposed(state, inverse)


def aliases(module: Any) -> Mapping[str, list[str]]:
    """Return for each tensor of a module all of its names, under the name of each."""
    named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    by_tensor: dict[int, list[str]] = {}
    for name, tensor in named:
        by_tensor.setdefault(id(tensor), []).append(name)
    return {name: by_tensor[id(tensor)] for name, tensor in named}
