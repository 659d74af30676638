"""Programs whose ops may run in several orders, what of them waits for what, and steps that share no memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from unittest import mock

from compiler import Program, constant, ops
from prograd_proto import program_pb2 as pb
from runtime.placement import Buffer, Effort, Placement, aligned
from runtime.step import dependencies
from subjects.steps import Stepper


def before_of(stepper: Stepper) -> list[set[int]]:
    return dependencies(stepper.executor._bound.touched())


def updated_after_use() -> Program:
    """h1; h2; g; use(w); w -= g, where nothing in the step has written w before."""
    program = Program()
    x = program.input("x", "float64", (3,))
    w = program.buffer("w", (3,), constant(2.0), dtype="float64")
    g = ops.tanh(ops.sin(x) * 3.0)
    program.fetch("used", ops.exp(w))
    with program.block.on_behalf_of(stage=pb.STAGE_UPDATE):
        program.update(w, w - g)
    return program


def pairs_that_share_scratch() -> Program:
    """Convolutions that do not need each other, each with scratch of its own that lies where another's does."""
    program = Program()
    x = program.input("x", "float32", (2, 6, 6, 3))
    for i in range(4):
        w = program.buffer(f"w{i}", (3, 3, 3, 4), constant(0.1 * (i + 1)))
        y = ops.sum(ops.conv2d(x + float(i), w, padding=(1, 1, 1, 1)), axis=(1, 2))
        program.update(program.buffer(f"y{i}", (2, 4)), y)
    return program


def random_choices() -> Program:
    """Ops that count random numbers, each in a stream of its own."""
    program = Program(seed=3)
    x = program.input("x", "float32", (5, 4))
    for i in range(5):
        program.fetch(f"y{i}", ops.dropout(ops.dropout(x * float(i + 1), ratio=0.5), ratio=0.25))
    program.update(program.buffer("s", (5, 4)), ops.dropout(x, ratio=0.5))
    return program


@contextmanager
def nothing_in_place() -> Iterator[None]:
    """No op writes a result over an operand while this lasts; views have the memory of theirs."""
    with mock.patch("runtime.step.in_place.written_over", return_value={}):
        yield


@contextmanager
def buffers_apart() -> Iterator[None]:
    """Each buffer is placed behind the one before it while this lasts."""

    def place(buffers: Sequence[Buffer], effort: Effort, *, alignment: int) -> Placement:
        ends = [0, *accumulate(aligned(buffer.nbytes, alignment) for buffer in buffers)]
        return Placement(ends[:-1], ends[-1], 0, False, "apart")

    with mock.patch("runtime.placement.placement.place", place):
        yield
