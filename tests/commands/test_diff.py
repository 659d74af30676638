"""`compiler diff`: every change in words, and nothing about what is equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from subjects.small_programs import rich
from subjects.small_programs import save as save_run

from compiler import Program, Value, constant, ops, sgd
from compiler.__main__ import main
from compiler.compare.differences import differences
from compiler.compare.matched_ops import matched_ops, moved
from prograd_proto import program_pb2 as pb
from prograd_proto.files import load, save

Change = Callable[[pb.ProgramDesc], object]


def built(
    *, act: Callable[[Value], Value] = ops.tanh, width: int = 4, rate: float = 0.1, more: bool = False, rows: int = 2
) -> pb.ProgramDesc:
    program = Program("net", seed=3)
    x = program.input("x", "float32", ("rows", 3))
    w = program.parameter("w", (3, width), constant(0.5))
    h = act(x @ w)
    if more:
        h = ops.exp(h)
    program.minimize(ops.mean(ops.square(h)), sgd(rate))
    program.outputs(h=h)
    return program.compile(rows=rows).desc


def lines(a: pb.ProgramDesc, b: pb.ProgramDesc) -> dict[str, list[str]]:
    return {title: [line for line in lines if not line.startswith("plan: ")] for title, lines in differences(a, b)}


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["diff", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def test_equal_programs_are_equal_also_with_other_lines(tmp_path: Path, capsys):
    save(built(), tmp_path / "a.pb")
    other = built()
    other.locations[:] = [f"moved.py:{i}" for i, _ in enumerate(other.locations)]
    save(other, tmp_path / "b.pb")
    assert run(capsys, tmp_path / "a.pb", tmp_path / "b.pb") == (0, "OK the programs are equal\n", "")


def test_what_differs_is_printed_by_what_it_belongs_to(tmp_path: Path, capsys):
    save(built(), tmp_path / "a.pb")
    other = built(rate=0.2)
    other.seed = 4
    save(other, tmp_path / "b.pb")
    assert run(capsys, tmp_path / "a.pb", tmp_path / "b.pb") == (
        1,
        "program\n  seed: 3 -> 4\nentry train\n"
        "  op 20 constant: attribute value=float32[] {0.1} -> value=float32[] {0.2}\n"
        "  op 19 constant: attribute value=float64[] {0.1} -> value=float64[] {0.2}\n",
        "",
    )


def test_a_file_that_is_no_program_is_one_sentence(tmp_path: Path, capsys):
    save(built(), tmp_path / "a.pb")
    (tmp_path / "b.pb").write_bytes(b"noise")
    code, out, err = run(capsys, tmp_path / "a.pb", tmp_path / "b.pb")
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert err.startswith(f"compiler: {tmp_path}/b.pb: ")


def test_another_activation_is_a_change_of_type_and_of_what_follows():
    assert lines(built(), built(act=ops.sigmoid)) == {
        "program": ["operator tanh is gone", "operator sigmoid is new"],
        "entry train": [
            "op 2 sigmoid is new, at position 5",
            "op 2 tanh is gone, from position 5",
            "op 3 square: reads %tanh_2 -> %sigmoid_2",
            "op 11 mul: reads %tanh_2, %constant_10 -> %sigmoid_2, %constant_10",
            "op 12 mul: is the gradient of %tanh_2 -> %sigmoid_2",
            "op 13 mul is gone, from position 12",
            "op 15 sub: reads %constant_13, %mul_13 -> %constant_13, %sigmoid_2",
            "op 15 mul is new, at position 14",
            "op 16 mul: reads %mul_12, %sub_14 -> %mul_12, %mul_15",
            "2 of 16 ops have other ids or names",
        ],
        "entry predict": ["op 2 tanh: type tanh -> sigmoid", "1 of 2 ops have other ids or names"],
        "entry evaluate": ["op 2 tanh: type tanh -> sigmoid", "1 of 4 ops have other ids or names"],
    }


def test_an_op_put_in_is_new_and_what_only_has_another_name_is_counted():
    assert lines(built(), built(more=True)) == {
        "program": ["operator exp is new"],
        "entry train": [
            "op 3 exp is new, at position 6",
            "op 3 square: reads %tanh_2 -> %exp_3",
            "op 12 mul is new, at position 11",
            "op 11 mul: reads %tanh_2, %constant_11 -> %broadcast_to_10, %mul_12",
            "op 11 mul: is the gradient of nothing -> %exp_3",
            "op 12 mul: reads %broadcast_to_10, %mul_13 -> %mul_13, %exp_3",
            "op 12 mul: helps to differentiate op 4 -> op 3",
            "16 of 18 ops have other ids or names",
        ],
        "entry predict": ["op 3 exp is new, at position 3", "fetch h: %tanh_2, last -> %exp_3, last"],
        "entry evaluate": [
            "op 3 exp is new, at position 3",
            "op 3 square: reads %tanh_2 -> %exp_3",
            "2 of 4 ops have other ids or names",
        ],
    }


def test_an_op_taken_out_is_gone():
    assert lines(built(more=True), built()) == {
        "program": ["operator exp is gone"],
        "entry train": [
            "op 3 exp is gone, from position 6",
            "op 4 square: reads %exp_3 -> %tanh_2",
            "op 12 mul is gone, from position 11",
            "op 13 mul: reads %broadcast_to_9, %mul_12 -> %tanh_2, %constant_10",
            "op 13 mul: is the gradient of %exp_3 -> nothing",
            "op 14 mul: reads %mul_11, %exp_3 -> %broadcast_to_9, %mul_11",
            "16 of 18 ops have other ids or names",
        ],
        "entry predict": ["op 3 exp is gone, from position 3", "fetch h: %exp_3, last -> %tanh_2, last"],
        "entry evaluate": [
            "op 3 exp is gone, from position 3",
            "op 4 square: reads %exp_3 -> %tanh_2",
            "2 of 4 ops have other ids or names",
        ],
    }


def test_another_width_is_a_change_of_the_state_and_of_the_first_op():
    assert lines(built(), built(width=5)) == {
        "states": [
            "w: type float32[3, 4] -> float32[3, 5]",
            "w: initial value full() {shape=(3, 4), value=0.5, dtype=float32} -> full() {shape=(3, "
            "5), value=0.5, dtype=float32}",
        ],
        "entry train": [
            "state w: float32[3, 4] -> float32[3, 5]",
            "op 9 constant: attribute value=float32[2, 4] {0.125, 0.125, 0.125, 0.125, 0.125, "
            "0.125, 0.125, 0.125} -> value=float32[2, 5] {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, "
            "0.1, 0.1, 0.1}",
            "op 9 constant: gives float32[2, 4] -> float32[2, 5]",
        ],
        "entry predict": ["state w: float32[3, 4] -> float32[3, 5]"],
        "entry evaluate": ["state w: float32[3, 4] -> float32[3, 5]"],
    }


def test_another_size_is_said_once_and_not_for_every_tensor():
    assert lines(built(), built(rows=7)) == {
        "entry train": [
            "sizes: {rows=2} -> {rows=7}",
            "feed x: float32[2, 3] -> float32[7, 3]",
            "op 9 constant: attribute value=float32[2, 4] {0.125, 0.125, 0.125, 0.125, 0.125, "
            "0.125, 0.125, 0.125} -> value=float32[7, 4] "
            "0x2549123d2549123d2549123d2549123d254912… (246 letters)",
            "op 9 constant: gives float32[2, 4] -> float32[7, 4]",
        ],
        "entry predict": [
            "sizes: {rows=2} and {rows=1} -> {rows=7} and {rows=1}",
            "feed x: float32[2, 3] -> float32[7, 3]",
        ],
        "entry evaluate": [
            "sizes: {rows=2} and {rows=1} -> {rows=7} and {rows=1}",
            "feed x: float32[2, 3] -> float32[7, 3]",
        ],
    }


def move_first(p: pb.ProgramDesc) -> None:
    block = p.blocks[p.entries[0].bindings[0].block]
    op = pb.OpDesc.FromString(block.ops[0].SerializeToString())
    del block.ops[0]
    block.ops.append(op)


WORDS: list[tuple[str, Change, dict[str, list[str]]]] = [
    ("a seed", lambda p: setattr(p, "seed", 9), {"program": ["seed: 7 -> 9"]}),
    ("a file", lambda p: setattr(p.files[0], "bytes", 9), {"program": ["file rows.safetensors: bytes: 1280 -> 9"]}),
    (
        "a frozen parameter with another rate",
        lambda p: [setattr(p.states[3], "trainable", False), setattr(p.states[3], "rate_scale", 0.5)],
        {"states": ["w: trainable: true -> false", "w: rate scale: 1.0 -> 0.5"]},
    ),
    (
        "a state of another kind and lifespan",
        lambda p: [setattr(p.states[6], "kind", pb.STATE_KIND_SLOT), setattr(p.states[6], "lifespan", 1)],
        {"states": ["seen: kind: buffer -> slot", "seen: lifespan: epoch -> always"]},
    ),
    (
        "another first value",
        lambda p: setattr(p.states[3].op.attributes[1], "float_value", 0.25),
        {
            "states": [
                "w: initial value full() {shape=(3), value=0.1, dtype=float32} -> "
                "full() {shape=(3), value=0.25, dtype=float32}"
            ]
        },
    ),
    ("a state that is gone", lambda p: p.states.pop(), {"states": ["state largest is gone"]}),
    ("data that is not shuffled", lambda p: setattr(p.data, "shuffle", False), {"data": ["shuffle: true -> false"]}),
    (
        "another split",
        lambda p: setattr(p.data.splits[0], "name", "fit"),
        {"data": ["split train is gone", "split fit is new"]},
    ),
    ("longer training", lambda p: setattr(p.run, "epochs", 9), {"run": ["epochs: 3 -> 9"]}),
    (
        "no evaluation",
        lambda p: p.run.ClearField("evaluate"),
        {"run": ['evaluate: entry "evaluate", split "test", every 1 -> none']},
    ),
    (
        "an entry that is gone",
        lambda p: p.entries.pop(),
        {"program": ["entries, in order: train, evaluate, predict -> train, evaluate"], "entry predict": ["is gone"]},
    ),
    (
        "another arena",
        lambda p: setattr(p.entries[0].bindings[0].plan, "arena_bytes", 1024),
        {"entry train": ["plan: arena bytes: 768 -> 1024"]},
    ),
    (
        "another random stream",
        lambda p: setattr(p.blocks[3].ops[1], "random_stream", 2),
        {"entry train": ["op 2 dropout: random stream 1 -> 2"]},
    ),
    (
        "another stage",
        lambda p: setattr(p.blocks[3].ops[0], "stage", pb.STAGE_UPDATE),
        {"entry train": ["op 1 mul: stage forward -> update"]},
    ),
    (
        "an op that repeats another",
        lambda p: setattr(p.blocks[3].ops[2], "recompute_of", 1),
        {"entry train": ["op 3 sum: repeats no op -> op 1"]},
    ),
    (
        "a declared lifespan",
        lambda p: setattr(next(t for t in p.blocks[3].tensors if t.name == "mul_1"), "lifespan", pb.LIFESPAN_FORWARD),
        {"entry train": ["op 1 mul: declared lifespan none -> forward"]},
    ),
    ("another order", move_first, {"entry train": ["op 1 mul moved from position 1 to 49"]}),
    (
        "another fetch",
        lambda p: setattr(p.blocks[3].fetches[0], "over", pb.OVER_LAST),
        {"entry train": ["fetch loss: %squared_error_4, mean -> %squared_error_4, last"]},
    ),
    (
        "another update",
        lambda p: setattr(p.blocks[3].updates[0], "tensor", "w"),
        {"entry train": ["update of w: %adam_45.new_w -> %w"]},
    ),
    (
        "a block as it was built",
        lambda p: setattr(p.blocks[0].ops[0], "stage", pb.STAGE_UPDATE),
        {"entry train": ["as built: op 1 mul: stage forward -> update"]},
    ),
]


@pytest.mark.parametrize(("change", "expected"), [row[1:] for row in WORDS], ids=[row[0] for row in WORDS])
def test_every_part_has_its_words(tmp_path: Path, change: Change, expected: dict[str, list[str]]):
    a = load(save_run(rich(), tmp_path))
    b = pb.ProgramDesc.FromString(a.SerializeToString())
    change(b)
    assert dict(differences(a, b)) == expected


NOT_COMPARED = {
    ("ProgramDesc", "locations"),
    ("ProgramDesc", "complete"),
    ("OpDesc", "location"),
    ("EntryDesc", "source_block"),
    ("Binding", "block"),
}


def places(message: Message) -> Iterator[tuple[Message, Any]]:
    """Every message in a message, with each field that is set."""
    for field, value in message.ListFields():
        yield message, field
        for part in value if hasattr(value, "append") else [value]:
            if isinstance(part, Message):
                yield from places(part)


def changed(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    return value + ("x" if isinstance(value, str) else b"x" if isinstance(value, bytes) else 1)


@pytest.mark.thorough
def test_no_field_of_a_program_can_change_unnoticed(tmp_path: Path):
    original = load(save_run(rich(), tmp_path))
    program = pb.ProgramDesc.FromString(original.SerializeToString())
    block = program.blocks[program.entries[0].bindings[0].block]
    parts = [
        program.states,
        program.operators,
        program.files,
        block.parameters,
        block.ops,
        block.updates,
        block.fetches,
    ]
    parts += [block.tensors, program.entries, [program.data, program.run]]
    top = [(program, field) for field, value in program.ListFields() if not hasattr(value, "append")]
    seen: Counter[tuple[str, str]] = Counter()
    for message, field in [*top, *(place for part in parts for item in part for place in places(item))]:
        value = getattr(message, field.name)
        kind = message.DESCRIPTOR.name, field.name
        if kind in NOT_COMPARED or isinstance(value, Message) or seen[kind] == 3:
            continue
        if hasattr(value, "append"):
            if not len(value) or isinstance(value[0], Message):
                continue
            before, value[0] = value[0], changed(value[0])
            found = differences(original, program)
            value[0] = before
        else:
            setattr(message, field.name, changed(value))
            found = differences(original, program)
            setattr(message, field.name, value)
        assert found, f"{message.DESCRIPTOR.name}.{field.name} of {message}"
        seen[kind] += 1
    assert len(seen) > 60
    assert not differences(original, program)


def chain(*types: str) -> list[pb.OpDesc]:
    return [pb.OpDesc(id=i, type=type, inputs=[f"t{i - 1}"], outputs=[f"t{i}"]) for i, type in enumerate(types, 1)]


def test_ops_are_matched_by_identity_then_by_what_they_do_then_by_position():
    assert matched_ops(chain("exp", "tanh"), chain("exp", "tanh")) == [(0, 0), (1, 1)]
    assert matched_ops(chain("exp", "tanh", "sin"), chain("exp", "cos", "tanh", "sin")) == [(0, 0), (1, 2), (2, 3)]
    assert matched_ops(chain("exp", "tanh", "sin"), chain("exp", "cos", "sin")) == [(0, 0), (1, 1), (2, 2)]
    assert matched_ops(chain("exp"), []) == []


def test_as_few_ops_as_possible_moved():
    assert moved([(0, 0), (1, 1), (2, 2)]) == []
    assert moved([(0, 3), (1, 0), (2, 1), (3, 2)]) == [(0, 3)]
    assert moved([(0, 1), (1, 0)]) in ([(0, 1)], [(1, 0)])
    assert moved([]) == []
