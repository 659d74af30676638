"""Packed sequences: recurrent layers over padded sequences that end after the lengths of their rows.

torch.export cannot state the number of packed rows. While a module is exported, `pack_padded_sequence` keeps its tensor
and the lengths, recurrent layers call one operator with both, and `pad_packed_sequence` fills up the steps behind the
lengths. No shape can state the number of packed rows, nor the number of steps of the longest row.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.torch.messages import calling_line

NAME: Final = "recurrent_by_lengths"
"""Name of the operator in graphs, in the namespace prograd."""

SCHEMA: Final = (
    "(str kind, Tensor x, Tensor lengths, Tensor[] states, Tensor[] weights, bool has_biases, int layers, float rate, "
    "bool train, bool bidirectional) -> Tensor[]"
)
"""Operands: x [n, t, c], lengths [n], and those of PyTorch's operators. The results are y [n, t, o] and last states."""

KINDS: Final = {"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "rnn_tanh"}
"""The operators of PyTorch by the modes of its layers."""


class Padded:
    """A packed sequence while a module is exported, which passes for a PackedSequence.

    Attributes:
        rows: the padded tensor [n, t, ...].
        lengths: the steps of each row that count, int64 [n].
    """

    def __init__(self, torch: Any, rows: Any, lengths: Any) -> None:
        self.rows, self.lengths, self._packed = rows, lengths, torch.nn.utils.rnn.PackedSequence

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]: it is never set
        """The class for isinstance."""
        return self._packed

    def to(self, *args: Any, **keywords: Any) -> Padded:
        """Return the sequence itself: there is one device."""
        return self

    cpu = to

    def __getattr__(self, name: str) -> Any:
        raise _refused(f"forward reads `{name}` of a packed sequence")

    def __iter__(self) -> Iterator[Any]:
        raise _refused("forward takes a packed sequence apart")

    def __getitem__(self, key: Any) -> Any:
        raise _refused("forward takes a packed sequence apart")


def _refused(what: str) -> CompileError:
    return CompileError(
        f"from_torch: {what} ({calling_line()}), whose rows no shape can state; compute on the padded tensor, before "
        "pack_padded_sequence or after pad_packed_sequence"
    )


@contextmanager
def kept_padded(torch: Any, module: Any) -> Generator[None]:
    """Let packed sequences keep their padding while a module with recurrent layers is exported."""
    layers = [torch.nn.RNN, torch.nn.GRU, torch.nn.LSTM]
    if not any(isinstance(child, tuple(layers)) for child in module.modules()):
        yield
        return
    _define(torch)
    functions = {torch.nn.utils.rnn.pack_padded_sequence: _pack, torch.nn.utils.rnn.pad_packed_sequence: _pad}
    # modules that import a function by its name hold the function itself, so its code is exchanged
    codes = {function: function.__code__ for function in functions}
    forwards = {layer: layer.forward for layer in layers}
    for function, new in functions.items():
        function.__code__ = new.__code__
    for layer, forward in forwards.items():
        layer.forward = _with_lengths(torch, forward)
    handle = module.register_forward_hook(lambda called, args, result: _require_tensors(torch, result))
    try:
        yield
    finally:
        handle.remove()
        for function, code in codes.items():
            function.__code__ = code
        for layer, forward in forwards.items():
            layer.forward = forward


def _require_tensors(torch: Any, result: Any) -> None:
    if any(type(leaf) is Padded for leaf in torch.utils._pytree.tree_leaves(result)):
        raise CompileError(
            "from_torch: forward returns a packed sequence, whose rows no shape can state; return what "
            "pad_packed_sequence makes of it"
        )


def _pack(input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True) -> Any:
    from compiler.frontends.torch.packed import packed

    return packed(input, lengths, batch_first)


def _pad(sequence: Any, batch_first: bool = False, padding_value: float = 0.0, total_length: Any = None) -> Any:
    from compiler.frontends.torch.packed import padded

    return padded(sequence, batch_first, padding_value, total_length)


def packed(x: Any, lengths: Any, batch_first: bool) -> Padded:
    """Return a padded tensor with the lengths of its rows."""
    torch = import_module("torch")
    known = lengths if isinstance(lengths, torch.Tensor) else torch.as_tensor(lengths, dtype=torch.int64)
    return Padded(torch, x if batch_first else x.transpose(0, 1), known.to(torch.int64))


def padded(sequence: Any, batch_first: bool, value: float, steps: Any) -> tuple[Any, Any]:
    """Return the padded tensor with `value` behind the lengths, and the lengths."""
    torch = import_module("torch")
    if type(sequence) is not Padded:
        raise _outside()
    x, lengths = sequence.rows, sequence.lengths
    if steps is None or steps != x.shape[1]:
        raise CompileError(
            f"from_torch: pad_packed_sequence ({calling_line()}) makes "
            f"{'as many steps as the longest row has' if steps is None else f'{steps} steps'}, and the packed tensor "
            f"has {x.shape[1]}; give total_length={'x.shape[1]' if batch_first else 'x.shape[0]'} of the tensor x "
            "that is packed"
        )
    counts = torch.arange(x.shape[1]) < lengths.unsqueeze(1)
    x = torch.where(counts.reshape(*counts.shape, *[1] * (x.ndim - 2)), x, value)
    return (x if batch_first else x.transpose(0, 1)), lengths


def _outside() -> CompileError:
    return CompileError(
        f"from_torch: a packed sequence ({calling_line()}) was made outside of forward; give forward the padded tensor "
        "and the lengths, and call pack_padded_sequence there"
    )


def _with_lengths(torch: Any, forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return the forward of a recurrent layer that takes padded sequences, too."""

    def called(layer: Any, input: Any, hx: Any = None) -> Any:
        if not isinstance(input, torch.nn.utils.rnn.PackedSequence):
            return forward(layer, input, hx)
        if type(input) is not Padded:
            raise _outside()
        if layer.mode not in KINDS:
            raise CompileError(
                f"from_torch: a packed sequence ({calling_line()}) enters an nn.RNN with "
                f"nonlinearity={layer.nonlinearity!r}, which has no counterpart with lengths; use 'tanh'"
            )
        given = [hx] if isinstance(hx, torch.Tensor) else hx
        states = list(given or _first_states(layer, input.rows))
        y, *last = getattr(torch.ops.prograd, NAME)(
            KINDS[layer.mode],
            input.rows,
            input.lengths,
            states,
            [getattr(layer, name) for name in layer._flat_weights_names],
            layer.bias,
            layer.num_layers,
            layer.dropout,
            layer.training,
            layer.bidirectional,
        )
        return Padded(torch, y, input.lengths), tuple(last) if len(last) == 2 else last[0]

    return called


def _first_states(layer: Any, x: Any) -> list[Any]:
    rows = layer.num_layers * (2 if layer.bidirectional else 1)
    hidden = x.new_zeros(rows, x.shape[0], layer.proj_size or layer.hidden_size)
    return [hidden, x.new_zeros(rows, x.shape[0], layer.hidden_size)] if layer.mode == "LSTM" else [hidden]


def _define(torch: Any) -> None:
    """Make the operator known to PyTorch, once in a process."""
    if hasattr(torch.ops.prograd, NAME):
        return
    name = f"prograd::{NAME}"
    torch.library.define(name, SCHEMA)
    torch.library.impl(name, "CPU", _computed)
    torch.library.register_fake(name, _typed)


def _typed(
    kind: str, x: Any, lengths: Any, states: Sequence[Any], weights: Any, has_biases: Any, layers: Any, *rest: Any
) -> list[Any]:
    """Return results without elements."""
    width = states[0].shape[2] * (states[0].shape[0] // layers)
    return [x.new_empty(x.shape[0], x.shape[1], width), *(state.new_empty(state.shape) for state in states)]


def _computed(
    kind: str, x: Any, lengths: Any, states: Sequence[Any], weights: Sequence[Any], *options: Any
) -> list[Any]:
    """Return the results as PyTorch computes them of packed rows."""
    functions = import_module("torch")._VF
    ordered, order = lengths.cpu().sort(descending=True)
    back = order.argsort()
    rows, sizes = functions._pack_padded_sequence(x.index_select(0, order), ordered, True)
    sorted_states = [state.index_select(1, order) for state in states]
    first = sorted_states if kind == "lstm" else sorted_states[0]
    made, *last = getattr(functions, kind)(rows, sizes, first, list(weights), *options)
    y, _ = functions._pad_packed_sequence(made, sizes, True, 0.0, x.shape[1])
    return [y.index_select(0, back), *(state.index_select(1, back) for state in last)]
