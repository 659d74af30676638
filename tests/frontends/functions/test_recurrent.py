"""from_torch: recurrent layers over packed sequences, and with projections of their states, beside PyTorch."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import rnn

import prograd
from compiler import CompileError
from frontends.agreement import agreement

STEPS, WIDTH, HIDDEN = 7, 64, 48
FILE = "test_recurrent.py"


class Packed(nn.Module):
    """A recurrent layer over packed sequences, whose first states are parameters."""

    def __init__(self, kind: Any, **more: Any) -> None:
        super().__init__()
        self.layer = kind(WIDTH, HIDDEN, **more)
        count = self.layer.num_layers * (2 if self.layer.bidirectional else 1)
        widths = [self.layer.proj_size or HIDDEN, *([HIDDEN] if kind is nn.LSTM else [])]
        self.first = nn.ParameterList([nn.Parameter(torch.randn(count, 1, width)) for width in widths])

    def forward(self, x: Any, lengths: Any) -> Any:
        rows = [first.expand(-1, x.shape[0], -1).contiguous() for first in self.first]
        states = tuple(rows) if len(rows) > 1 else rows[0]
        sequence = rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        y, last = self.layer(sequence, states)
        y, counts = rnn.pad_packed_sequence(y, batch_first=True, padding_value=0.5, total_length=x.shape[1])
        plain, _ = self.layer(x)
        return y, plain, counts, *(last if isinstance(last, tuple) else [last])


def check(module: Any, rows: int, batch: str | None, engine: str) -> None:
    module = module.double()
    drawn = torch.Generator().manual_seed(2)
    x = torch.randn(rows, STEPS, WIDTH, generator=drawn, dtype=torch.float64)
    lengths = torch.randint(1, STEPS + 1, (rows,), generator=drawn)
    found = agreement(module, {"x": x, "lengths": lengths}, batch=batch, engine=engine)
    assert max(found.outputs, found.loss, found.gradients) < 1e-10, found


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (nn.LSTM, {"num_layers": 2, "bidirectional": True}),
        (nn.GRU, {"bias": False}),
        (nn.RNN, {"bidirectional": True}),
        (nn.LSTM, {"proj_size": 24, "num_layers": 2, "bidirectional": True}),
        (nn.LSTM, {"proj_size": 16, "bias": False}),
    ],
)
def test_layers_over_packed_sequences_end_after_the_length_of_each_row(kind: Any, options: dict[str, Any], engine: str):
    torch.manual_seed(1)
    module = Packed(kind, batch_first=True, **options)
    check(module, 32, None, engine)
    check(module, 3, "batch", engine)


class Last(nn.Module):
    """A classifier of the last state, whose sequences have the steps first and no steps are filled up."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.output = nn.GRU(WIDTH, HIDDEN), nn.Linear(HIDDEN, 5)

    def forward(self, x: Any, lengths: Any) -> Any:
        _, last = self.layer(rnn.pack_padded_sequence(x.transpose(0, 1), lengths, enforce_sorted=False))
        return self.output(last[-1])


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_the_last_state_of_packed_sequences_needs_no_padded_result(engine: str):
    torch.manual_seed(1)
    before = rnn.pack_padded_sequence.__code__, rnn.pad_packed_sequence.__code__, nn.GRU.forward
    check(Last(), 3, "batch", engine)
    assert before == (rnn.pack_padded_sequence.__code__, rnn.pad_packed_sequence.__code__, nn.GRU.forward)


class Refused(nn.Module):
    """A layer over a packed sequence with a function of the result."""

    def __init__(self, function: Any, layer: Any = None) -> None:
        super().__init__()
        self.function, self.layer = function, layer or nn.LSTM(WIDTH, HIDDEN, batch_first=True)

    def forward(self, x: Any, lengths: Any) -> Any:
        return self.function(self.layer(rnn.pack_padded_sequence(x, lengths, True, False))[0])


ROWS = "whose rows no shape can state; compute on the padded tensor, before pack_padded_sequence or after "


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda y: y.data.mean(),
            f"forward reads `data` of a packed sequence ({FILE}:LINE), {ROWS}pad_packed_sequence",
        ),
        (lambda y: next(iter(y)), f"forward takes a packed sequence apart ({FILE}:LINE), {ROWS}pad_packed_sequence"),
        (
            lambda y: rnn.pad_packed_sequence(y, True)[0],
            f"pad_packed_sequence ({FILE}:LINE) makes as many steps as the longest row has, and the packed tensor has "
            "7; give total_length=x.shape[1] of the tensor x that is packed",
        ),
        (
            lambda y: rnn.pad_packed_sequence(y, total_length=9)[0],
            f"pad_packed_sequence ({FILE}:LINE) makes 9 steps, and the packed tensor has 7; give "
            "total_length=x.shape[0] of the tensor x that is packed",
        ),
        (
            lambda y: y,
            "forward returns a packed sequence, whose rows no shape can state; return what pad_packed_sequence makes "
            "of it",
        ),
    ],
)
def test_packed_rows_that_no_shape_can_state_are_refused(function: Any, message: str):
    assert told(Refused(function)) == message.replace("LINE", str(function.__code__.co_firstlineno))


def test_packed_sequences_of_plain_layers_with_another_function_are_refused():
    layer = nn.RNN(WIDTH, HIDDEN, nonlinearity="relu", batch_first=True)
    assert told(Refused(lambda y: y, layer)) == (
        f"a packed sequence ({FILE}:{Refused.forward.__code__.co_firstlineno + 1}) enters an nn.RNN with "
        "nonlinearity='relu', which has no counterpart with lengths; use 'tanh'"
    )


def told(module: Any) -> str:
    """Return the sentence of a refusal."""
    inputs = {"x": torch.randn(32, STEPS, WIDTH), "lengths": torch.full((32,), STEPS)}
    with pytest.raises(CompileError) as caught:
        prograd.from_torch(module, inputs, batch="batch")
    return str(caught.value).removeprefix("from_torch: ")


class Given(nn.Module):
    """A layer that is called with a packed sequence from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(WIDTH, HIDDEN, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.layer(x)[1][0]


def test_packed_sequences_as_inputs_are_refused():
    x = rnn.pack_padded_sequence(torch.randn(32, STEPS, WIDTH), torch.full((32,), STEPS), batch_first=True)
    with pytest.raises(CompileError) as caught:
        prograd.from_torch(Given(), {"x": x})
    line = Given.forward.__code__.co_firstlineno + 1
    assert str(caught.value) == (
        f"from_torch: a packed sequence ({FILE}:{line}) was made outside of forward; give forward the padded tensor "
        "and the lengths, and call pack_padded_sequence there"
    )
