"""Tools that look at programs with blocks inside ops."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from compiler import Program, constant, ops, sgd
from compiler.__main__ import main as compiler
from compiler.compare.differences import differences
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks.walk import inside
from registry import Value
from runtime import Run


def looped(factor: float = 2.0, *, before: bool = False) -> pb.ProgramDesc:
    program = Program("looped", seed=1)
    x = program.input("x", "float32", ("n", 3))
    w = program.parameter("w", (3,), constant(0.5))
    if before:
        program.outputs(more=ops.map(lambda row: row + 1.0, x))

    def step(c: Value, row: Value) -> tuple[Value, Value]:
        return ops.cond(ops.sum(row) > 0, lambda: c * row * factor, lambda: c * w), c

    last, rows = ops.scan(step, w, x)
    program.minimize(ops.sum(last) + ops.sum(rows), sgd(0.1))
    return program.compile(n=4).desc


def test_equal_programs_have_no_differences_inside_their_ops():
    assert list(differences(looped(), looped())) == []


def test_a_difference_inside_an_op_is_said_with_the_way_to_it():
    lines = [line for group in differences(looped(), looped(3.0)) for line in group.lines]
    assert any("scan: in its body: op" in line and "cond: in its branch for true: op" in line for line in lines)
    assert all("branch for false" not in line for line in lines)


def test_other_numbers_of_blocks_are_no_difference():
    titles = [group.title for group in differences(looped(), looped(before=True))]
    assert "entry predict" in titles
    lines = [line for group in differences(looped(), looped(before=True)) for line in group.lines]
    assert all("in its body" not in line for line in lines)


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "p.pb"],
        ["summary", "p.pb"],
        ["show", "p.pb"],
        ["show", "--memory", "--entry", "train", "p.pb"],
        ["show", "--order", "--entry", "train", "p.pb"],
        ["show", "--engine", "native", "--entry", "train", "p.pb"],
        ["draw", "p.pb", "-o", "p.svg"],
        ["plan", "p.pb", "--threads", "2", "-o", "planned.pb"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_verbs_take_programs_with_loops(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from prograd_proto.files import save

    monkeypatch.chdir(tmp_path)
    save(looped(), "p.pb")
    assert compiler(arguments) == 0


def test_rows_of_a_prediction_with_a_loop_are_computed_step_by_step():
    program = Program()
    x = program.input("x", "float32", ("n", 3))
    program.outputs(y=ops.map(lambda row: row * 2.0, x))
    run = Run(program.compile(n=4))
    given = np.arange(21, dtype=np.float32).reshape(7, 3)
    np.testing.assert_array_equal(run.predict({"x": given})["y"], given * 2)
    run.close()


def test_the_block_of_an_entry_is_shown_with_those_inside_its_ops_and_what_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from prograd_proto.files import save

    monkeypatch.chdir(tmp_path)
    save(looped(), "p.pb")
    assert compiler(["show", "p.pb", "--entry", "train"]) == 0
    out = capsys.readouterr().out
    scan = next(line for line in out.splitlines() if " = scan(" in line)
    number, block = re.search(r"op (\d+), block (\d+)", scan).groups()  # pyright: ignore[reportOptionalMemberAccess]: it is there
    assert f"\n\n# body of op {number} (scan) of block 0\nblock {block}\n" in out
    assert re.search(rf"\n\n# branch for true of op \d+ \(cond\) of block {block}\nblock \d+\n", out)
    assert re.search(rf"\n\n# branch for false of op \d+ \(cond\) of block {block}\nblock \d+\n", out)


def test_a_summary_counts_the_ops_inside_ops():
    from compiler.analyses.summary import summary

    desc = looped()
    _, row, *_ = summary(desc).split("\n\n")[-1].splitlines()
    numbers = inside(desc, [desc.entries[0].bindings[0].block])
    assert row.split()[3] == str(sum(len(desc.blocks[number].ops) for number in numbers))


def test_a_picture_has_the_blocks_inside_ops_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from xml.etree import ElementTree

    from compiler.commands.pictures.op_layers import layers_svg

    desc = looped()
    texts = [
        e for e in ElementTree.fromstring(layers_svg("looped", desc, desc.blocks[0])).iter() if e.tag.endswith("text")
    ]
    titles = [(e.text or "", int(e.attrib["y"])) for e in texts if e.attrib.get("class") == "inside"]
    assert any("branch for true of op" in title for title, _ in titles)
    ends = [int(e.attrib["y"]) for e in texts if (e.text or "").startswith("scan")]
    assert ends, "the op around them is drawn"
    assert all(y > min(ends) for _, y in titles)
    assert [y for _, y in titles] == sorted({y for _, y in titles})
