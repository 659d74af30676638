"""`compiler show --order`, and the orders of a scheme of layers that is known from elsewhere.

That scheme gives each of n layers four slots: forward i; then, from the last layer to the first, gradient, derivative
and update, counted on from n. A layer that is not trained has one slot for the three. Ours is a list of ops, so slots
without an op are missing and a slot with several ops is a run: what must agree is the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from compiler import Program, Value, constant, ops, sgd
from compiler.__main__ import main
from compiler.analyses.execution_orders import execution_orders, unlisted
from compiler.analyses.step_graph import step_graph
from compiler.passes.order_ops import updates_first
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from prograd_proto.files import save
from prograd_proto.text import from_text

ROLES = ("forward", "gradient", "derivative", "update")


class Slots(NamedTuple):
    forward: int
    gradient: int
    derivative: int
    update: int


def slots_of(trained: Sequence[bool]) -> list[Slots]:
    """The slots of each layer, by the rule of the docstring above."""
    after: list[Slots] = []
    counter = len(trained)
    for i, is_trained in reversed([*enumerate(trained)]):
        gradient = counter
        derivative = gradient + is_trained
        update = derivative + is_trained
        counter = update + 1
        after.append(Slots(i, gradient, derivative, update))
    return after[::-1]


ALL = [True] * 8
"""Input, three dense layers with an activation each, and the mean squared error."""


def test_the_slots_of_three_dense_layers_are_the_published_ones():
    slots = slots_of(ALL)
    assert (slots[0], slots[1], slots[7]) == ((0, 29, 30, 31), (1, 26, 27, 28), (7, 8, 9, 10))
    assert [slots[i] for i in (2, 3)] == [(2, 23, 24, 25), (3, 20, 21, 22)]


def dense(frozen: Sequence[str] = ()) -> pb.ProgramDesc:
    """Matmul and relu three times, then the error; in the order in which updates run as soon as they can."""
    program = Program("dense")
    x = program.input("x", "float32", (4, 6))
    y = program.input("y", "float32", (4, 3))
    h: Value = x
    for i, (a, b) in enumerate(((6, 5), (5, 4), (4, 3)), 1):
        w = program.parameter(f"w{i}", (a, b), constant(0.1), trainable=f"w{i}" not in frozen)
        h = ops.relu(h @ w)
    program.minimize(ops.squared_error(h, y), sgd(0.1))
    desc = program.compile().desc
    block = desc.blocks[desc.entries[0].bindings[0].block]
    as_written = sorted(block.ops, key=lambda op: op.id)
    copy = pb.BlockDesc()
    copy.CopyFrom(block)
    del copy.ops[:]
    copy.ops.extend(as_written)
    del block.ops[:]
    block.ops.extend(copy.ops[i] for i in updates_first(BlockAnalysis(copy), step_graph(BlockAnalysis(copy))))
    return desc


def by_slot(desc: pb.ProgramDesc, slots: Sequence[Slots]) -> dict[int, int]:
    """For the position of each op that a forward op has, the slot of its layer and role; layer 0 is the input."""
    block = desc.blocks[desc.entries[0].bindings[0].block]
    result: dict[int, int] = {}
    for layer, order in enumerate(execution_orders(desc, BlockAnalysis(block)), 1):
        for role, positions in zip(ROLES, ([order.forward], *order[2:]), strict=True):
            result.update(dict.fromkeys(positions, getattr(slots[layer], role)))
    return dict(sorted(result.items()))


FROZEN = [[], ["w2"], ["w1"], ["w3"], ["w1", "w3"]]


@pytest.mark.parametrize("frozen", FROZEN)
def test_our_ops_run_in_the_order_of_the_slots(frozen: list[str]):
    """Either of a layer's gradient and derivative may be first: they do not wait for each other, the update does."""
    slots = slots_of([f"w{(i + 1) // 2}" not in frozen or i % 2 == 0 for i in range(8)])
    either = {slot.derivative: slot.gradient for slot in slots}
    found = [either.get(slot, slot) for slot in by_slot(dense(frozen), slots).values()]
    assert found == sorted(found)


@pytest.mark.parametrize(
    ("frozen", "expected"),
    [
        ([], {1: (26, 28), 2: (24,), 3: (20, 21, 22), 4: (18,), 5: (14, 15, 16), 6: (12,), 7: (9,)}),
        (["w2"], {1: (24, 26), 2: (22,), 3: (20,), 4: (18,), 5: (14, 15, 16), 6: (12,), 7: (9,)}),
        (["w1"], {3: (20, 22), 4: (18,), 5: (14, 15, 16), 6: (12,), 7: (9,)}),
        (["w3"], {1: (24, 26), 2: (22,), 3: (18, 19, 20), 4: (16,), 5: (14,), 6: (12,), 7: (9,)}),
        (["w1", "w3"], {3: (18, 20), 4: (16,), 5: (14,), 6: (12,), 7: (9,)}),
    ],
)
def test_only_slots_in_which_there_is_something_to_do_have_ops(frozen: list[str], expected: dict[int, tuple[int, ...]]):
    """A frozen layer has a derivative if a trained one is before it; an activation has no gradient."""
    slots = slots_of([f"w{(i + 1) // 2}" not in frozen or i % 2 == 0 for i in range(8)])
    layer_of = {slot: layer for layer, four in enumerate(slots) for slot in four}
    found: dict[int, set[int]] = {}
    for slot in by_slot(dense(frozen), slots).values():
        if slot >= 8:
            found.setdefault(layer_of[slot], set()).add(slot)
    assert {layer: tuple(sorted(of)) for layer, of in sorted(found.items())} == expected


def test_the_slots_in_which_a_dense_layers_tensors_are_touched_are_the_published_ones():
    """But for what we need not do: the input has no derivative, and a gradient does not read its weight."""
    desc = dense()
    slot_of = by_slot(desc, slots_of(ALL))
    block = desc.blocks[desc.entries[0].bindings[0].block]

    def slots(*names: str) -> list[int]:
        touched = [i for i, op in enumerate(block.ops) if not {*op.inputs, *op.outputs}.isdisjoint(names)]
        return sorted({slot_of[i] for i in touched})

    gradients = {t.gradient_of: t.name for t in block.tensors if t.gradient_of}
    assert slots("matmul_1", "relu_2") == [1, 2, 3, 20, 24]
    assert slots(gradients["relu_2"], gradients["matmul_1"]) == [21, 24, 26]  # published: 23, of a relu, and 27 too
    assert slots(gradients["w1"]) == [26, 28]
    assert slots("w1") == [1, 28]  # published: 26 and 27 too
    assert slots("w2") == [3, 21, 22]


TEXT = """
program tied, format 1

state w: float32[3, 3], parameter, trainable, always
state step: int64[], counter, always

block 0
  parameter %x: float32[3, 3] <- feed x
  parameter %w: float32[3, 3] <- state w
  parameter %step: int64[] <- state step
  %one: int64[] = constant() {value=int64[] {1}}  # forward, op 1
  %a: float32[3, 3] = matmul(%x, %w)  # forward, op 2
  %b: float32[3, 3] = matmul(%a, %w)  # forward, op 3
  %da: float32[3, 3] = matmul(%b, %w)  # derivative, op 4, of op 3
  %dw2: float32[3, 3] = matmul(%a, %b)  # gradient, op 5, of op 3
  %dw1: float32[3, 3] = matmul(%x, %da)  # gradient, op 6, of op 2
  %dw: float32[3, 3] = add(%dw1, %dw2)  # gradient, op 7
  %new: float32[3, 3] = sub(%w, %dw)  # update, op 8
  %next: int64[] = add(%step, %one)  # update, op 9
  update w <- %new
  update step <- %next
"""


def test_an_op_has_the_updates_of_the_parameters_that_it_reads_also_of_tied_ones():
    desc = from_text(TEXT)
    orders = execution_orders(desc, BlockAnalysis(desc.blocks[0]))
    assert [(o.op.id, *o[1:]) for o in orders] == [(2, 1, [5], [], [7]), (3, 2, [4], [3], [7])]
    assert list(unlisted(BlockAnalysis(desc.blocks[0]), orders)) == [0, 6, 8]


ORDER = """\
train: 14 ops, by their positions
  op           forward  gradient  derivative  update  line
  op 1 matmul  4        12                    13      train.py:2
  op 2 tanh    5                  8, 10-11            train.py:2
  op 3 mean    6                  7                   train.py:2
  of no forward op: 1-3, 9, 14
"""


def test_the_view_counts_from_one_and_joins_neighbours(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    program = Program("two")
    x = program.input("x", "float32", (2, 2))
    w = program.parameter("w", (2, 2), constant(0.1))
    program.minimize(ops.mean(ops.tanh(x @ w)), sgd(0.1))
    desc = program.compile().desc
    desc.locations[:] = [f"train.py:{i}" for i in range(1, len(desc.locations) + 1)]
    save(desc, tmp_path / "two.pb")
    assert main(["show", str(tmp_path / "two.pb"), "--order"]) == 0
    assert capsys.readouterr().out == ORDER
