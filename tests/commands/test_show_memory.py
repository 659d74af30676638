"""`compiler show --memory`, and its picture: what lies where, how long, and who makes the peak."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from oracles.memory import Placed, collide, most_alive
from subjects.models import MODELS

from compiler import Program, constant, momentum, ops, sgd
from compiler.__main__ import main
from compiler.analyses.lifespans import lifespans_of
from compiler.analyses.step_memory import StepMemory, step_memory
from compiler.commands.pictures.memory import memory_page, memory_svg
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from prograd_proto.files import load, save
from prograd_proto.text import from_text
from prograd_proto.text.words import LIFESPANS

Golden = Callable[[str, str | bytes], None]


def trained() -> pb.ProgramDesc:
    """Two layers, with the lines of a script that does not exist."""
    program = Program("layers")
    x = program.input("x", "float32", ("rows", 6))
    y = program.input("y", "float32", ("rows", 2))
    h = ops.relu(x @ program.parameter("w1", (6, 20), constant(0.1)))
    program.minimize(ops.squared_error(h @ program.parameter("w2", (20, 2), constant(0.1)), y), momentum(0.1))
    desc = program.compile(rows=8).desc
    desc.locations[:] = [f"train.py:{i}" for i in range(1, len(desc.locations) + 1)]
    return desc


def train_memory(desc: pb.ProgramDesc) -> StepMemory:
    return step_memory(desc, desc.entries[0].bindings[0])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save(trained(), tmp_path / "layers.pb")
    return tmp_path / "layers.pb"


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    try:
        code = main(["show", *map(str, arguments)])
    except SystemExit as end:
        code = int(end.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def test_the_view_is_a_table_of_buffers(path: Path, capsys, golden: Golden):
    code, out, err = run(capsys, path, "--memory")
    assert (code, err) == (0, "")
    heading, arena, of_runs, *rest = out.splitlines(keepends=True)
    assert re.fullmatch(r"runs   .+ \(native\) or 1\.88 KiB \(reference\), on 1 thread\n", of_runs)
    golden("memory.txt", "".join([heading, arena, *rest]))


@pytest.mark.parametrize(("sort", "column", "sign"), [("offset", 0, 1), ("bytes", 1, -1)])
def test_the_buffers_are_sorted_as_asked(path: Path, capsys, sort: str, column: int, sign: int):
    _, out, _ = run(capsys, path, "--memory", "--sort", sort)
    table = out.partition(f"buffers by {sort}\n")[2].partition("\n\n")[0].splitlines()[1:]
    cells = [line.split() for line in table]
    numbers = [sign * int(row[column]) for row in cells if row[0].isdecimal()]
    assert len(numbers) > 10
    assert numbers == sorted(numbers)


def test_by_time_the_buffers_stand_as_they_are_made(path: Path, capsys):
    _, out, _ = run(capsys, path, "--memory", "--sort", "time")
    table = out.partition("buffers by time\n")[2].partition("\n\n")[0]
    assert table.index("%x ") < table.index("%matmul_1 ") < table.index("%matmul_3 ") < table.index("%outer_sum")


def test_another_entry_is_shown_by_its_name(path: Path, capsys):
    code, out, _ = run(capsys, path, "--memory", "--entry", "evaluate")
    assert code == 0
    assert out.startswith("evaluate with {rows=8}: ")
    assert "backward" not in out


def test_other_sizes_of_an_entry_are_shown_by_their_symbols(path: Path, capsys, tmp_path: Path):
    asked = ["--entry", "evaluate", "--bind", "rows=1"]
    _, large, _ = run(capsys, path, "--memory", "--order", "--entry", "evaluate")
    code, small, _ = run(capsys, path, "--memory", "--order", *asked, "--svg", tmp_path / "m.svg")
    assert code == 0
    assert large.replace("rows=8", "rows=1").split(" bytes", 1)[0] != small.split(" bytes", 1)[0]
    assert small.count("evaluate with {rows=1}: ") == 2
    assert "evaluate with {rows=1}" in (tmp_path / "m.svg").read_text()
    assert run(capsys, path, "--memory", "--order", "--entry", "evaluate", "--bind", "rows=8") == (0, large, "")


def test_a_binding_is_found_by_some_of_its_sizes(tmp_path: Path, capsys):
    program = Program("two symbols")
    x = program.input("x", "float32", ("rows", "columns"))
    program.outputs(y=ops.exp(x))
    program.compile(rows=4, columns=6).save(tmp_path / "two.pb")
    _, out, _ = run(capsys, tmp_path / "two.pb", "--memory", "--bind", "columns=6")
    assert out.startswith("predict with {columns=6, rows=4}: ")
    code, out, err = run(capsys, tmp_path / "two.pb", "--memory", "--bind", "columns=5", "--bind", "rows=4")
    assert (code, out) == (2, "")
    assert "the entry 'predict' is not bound to {columns=5, rows=4}; it is to {columns=6, rows=4}" in err


@pytest.mark.parametrize("name", MODELS)
def test_the_peak_is_the_busiest_phase_and_its_buffers_are_those_alive(name: str):
    program = Program(name)
    model = MODELS[name]
    w = {key: program.parameter(key, shape, constant(0.1), dtype="float64") for key, shape in model.parameters.items()}
    program.minimize(model.build(program, w), sgd(0.1))
    memory = train_memory(program.compile(rows=16).desc)
    placed = [Placed(r.buffer.nbytes, r.buffer.start, r.buffer.stop, r.offset) for r in memory.residents]
    assert memory.peak_bytes == most_alive(placed)
    assert most_alive([p for p in placed if p.start < memory.peak_phase]) < memory.peak_bytes  # none before it
    alive = [p.nbytes for p in placed if p.start <= memory.peak_phase < p.stop and p.nbytes]
    assert [r.buffer.nbytes for r in memory.at_peak()] == sorted(alive, reverse=True)


def test_every_tensor_in_the_arena_is_in_one_buffer():
    desc = trained()
    memory = train_memory(desc)
    found = [tenant.tensor for resident in memory.residents for tenant in resident.tenants]
    assert len(found) == len(set(found))
    states = {p.tensor for p in memory.block.parameters if p.WhichOneof("source") == "state"}
    constants = {op.outputs[0] for op in memory.block.ops if op.type == "constant"}
    over_states = set(memory.block.updates.values()) | {"momentum_25.velocity"}
    everything = {tensor.name for tensor in memory.block.tensors}
    assert everything - states - constants - over_states <= set(found) <= everything - states - constants


LIVES = """
program lives, format 1

state w: float32[2], parameter, always
state n: float32[2], buffer, epoch

block 0
  parameter %x: float32[2] <- feed x
  parameter %late: float32[2] <- feed late
  parameter %w: float32[2] <- state w
  parameter %n: float32[2] <- state n
  %c: float32[] = constant() {value=float32[] {1}}  # forward, op 1
  %f: float32[2] = exp(%x)  # forward, op 2
  %both: float32[2] = exp(%f)  # forward, op 3
  %told: float32[2] = exp(%both)  # op 4
  %viewed: float32[2] = exp(%told)  # forward, op 5
  %view: float32[1, 2] = reshape(%viewed) {shape=(1, 2)}  # forward, op 6
  %b: float32[2] = mul(%both, %late)  # derivative, op 7
  %g: float32[1, 2] = mul(%view, %b)  # gradient, op 8
  %new: float32[2] = reshape(%g) {shape=(2)}  # update, op 9
  %unread: float32[2] = exp(%x)  # forward, op 10
  update w <- %new
  fetch told <- %told
"""


def test_a_lifespan_says_which_pass_defines_and_reads_a_tensor():
    desc = from_text(LIVES)
    words = {name: LIFESPANS[span] for name, span in lifespans_of(desc, BlockAnalysis(desc.blocks[0])).items()}
    assert words == {
        "x": "forward",
        "late": "iteration",
        "w": "always",
        "n": "epoch",
        "c": "always",
        "f": "forward",
        "both": "iteration",
        "told": "iteration",
        "viewed": "iteration",  # because its view is
        "view": "iteration",
        "b": "backward",
        "g": "iteration",  # its view is the update, which the end of the step reads
        "new": "iteration",
        "unread": "forward",
    }


def rectangles(svg: str) -> list[tuple[float, float, float, float, str]]:
    """x, y, width, height and the first line of the title of every buffer."""
    tree = ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    found = [r for r in tree.iter(f"{space}rect") if r.get("class") == "buffer"]
    return [
        (*(float(r.get(k, "")) for k in ("x", "y", "width", "height")), str(r.findtext(f"{space}title")).split("\n")[0])
        for r in found
    ]


def test_the_picture_has_a_rectangle_for_each_buffer_where_and_when_it_is():
    memory = train_memory(trained())
    found = rectangles(memory_svg("train", trained(), memory))
    shown = sorted(memory.residents, key=lambda r: (r.offset, r.buffer.start))
    assert len(found) == len(shown)
    right, bottom = 1256, 600
    a_phase = (right - 84) / (len(memory.block.ops) + 2)  # rows are fed in the first, and the last is the end
    a_byte = (bottom - 84) / memory.plan.arena_bytes
    for (x, y, width, height, title), resident in zip(found, shown, strict=True):
        assert x == pytest.approx(84 + a_phase * (resident.buffer.start + 1), abs=0.02)
        assert width == pytest.approx(a_phase * (resident.buffer.stop - resident.buffer.start), abs=0.02)
        assert y + height == pytest.approx(bottom - a_byte * resident.offset, abs=0.02)
        assert height == pytest.approx(a_byte * resident.buffer.nbytes, abs=0.02)
        assert title.startswith(f"%{resident.buffer.name}" if resident.tenants else "scratch ")


def test_hovering_gives_name_bytes_life_and_line(path: Path, tmp_path: Path, capsys):
    svg = tmp_path / "m.svg"
    assert run(capsys, path, "--svg", svg) == (0, "", f"wrote {svg}\n")
    titles = [t.text for t in ElementTree.fromstring(svg.read_text()).iter("{http://www.w3.org/2000/svg}title")]
    memory = train_memory(load(path))
    first = next(r for r in memory.residents if r.buffer.name == "matmul_1")
    count, stop = len(memory.block.ops), first.buffer.stop
    assert stop < count
    position = first.buffer.start + 1
    assert (
        f"%matmul_1, %relu_2 over %matmul_1\n640 bytes at {first.offset}, activation\n{position} to {stop}, iteration\n"
        "defined by op 1 matmul, train.py:1"
    ) in titles


def test_a_page_needs_nothing_but_itself_and_lists_the_peak(path: Path, tmp_path: Path, capsys):
    page = tmp_path / "m.html"
    assert run(capsys, path, "--html", page)[0] == 0
    text = page.read_text()
    assert "<script" not in text
    assert [word for word in ("src=", "href=", "url(", "@import") if word in text] == []
    assert text.replace("http://www.w3.org/2000/svg", "").count("http") == 0
    assert text.count("<tr>") == 1 + len(train_memory(load(path)).at_peak())


def test_names_in_a_picture_are_text_whatever_is_in_them():
    program = Program("odd")
    x = program.input('<b>&"x', "float32", (4,))
    program.minimize(ops.sum(ops.exp(x * program.parameter("]]>", (4,), constant(1.0)))), sgd(0.1))
    desc = program.compile().desc
    memory = train_memory(desc)
    titles = [title for *_, title in rectangles(memory_svg("train", desc, memory))]
    assert r'%"<b>&\"x"' in titles
    assert "<b>" not in memory_page("train", desc, memory)


def test_a_picture_overwrites_only_when_forced(path: Path, tmp_path: Path, capsys):
    for option in ("--html", "--svg"):
        picture = tmp_path / f"m{option}"
        picture.write_text("mine")
        assert run(capsys, path, option, picture) == (
            2,
            "",
            f"compiler: {picture}: the file exists; --force replaces it\n",
        )
        assert picture.read_text() == "mine"
        assert run(capsys, path, option, picture, "--force")[0] == 0
        assert picture.read_text() != "mine"


def test_a_program_without_an_arena_has_a_picture_too(tmp_path: Path, capsys):
    program = Program("nothing")
    program.outputs(one=program.constant(1.0))
    program.compile().save(tmp_path / "nothing.pb")
    code, out, _ = run(capsys, tmp_path / "nothing.pb", "--memory", "--svg", tmp_path / "m.svg")
    assert code == 0
    assert out.startswith("predict: 1 ops, 0 buffers\narena  0 bytes, as small as this order of ops allows;")
    assert rectangles((tmp_path / "m.svg").read_text()) == []


def without_bindings(desc: pb.ProgramDesc) -> None:
    for entry in desc.entries:
        del entry.bindings[:]


@pytest.mark.parametrize(
    ("change", "options", "code", "sentence"),
    [
        (without_bindings, ["--memory"], 3, "{}: the entry 'train' has no block that runs; compile the program"),
        (None, ["--memory", "--entry", "tran"], 2, "{}: there is no entry 'tran'; did you mean 'train'?"),
        (
            None,
            ["--memory", "--entry", "evaluate", "--bind", "rows=2"],
            2,
            "{}: the entry 'evaluate' is not bound to {{rows=2}}; it is to {{rows=8}} and {{rows=1}}",
        ),
        (None, ["--order", "--bind", "row=8"], 2, "{}: the entry 'train' has no symbol 'row'; did you mean 'rows'?"),
        (None, ["--order", "--bind", "rows"], 2, "--bind rows: write symbol=size, as in batch=64"),
        (
            None,
            ["--entry", "train", "--bind", "rows=8"],
            2,
            "--bind is for --memory, --order, --html and --svg, and for --entry with --bound",
        ),
        (None, ["--sort", "time"], 2, "--sort is for --memory"),
        (None, ["--memory", "--force"], 2, "--force is for --html and --svg"),
        (None, ["--html", "a", "--svg", "a"], 2, "--html and --svg both name a; give two files"),
        (None, ["--svg", "/no/such/folder/m.svg"], 2, "/no/such/folder/m.svg: there is no such folder"),
    ],
)
def test_what_cannot_be_shown_is_a_sentence(path: Path, capsys, change, options, code, sentence):
    if change is not None:
        desc = load(path)
        change(desc)
        save(desc, path, force=True)
    assert run(capsys, path, *options) == (code, "", f"compiler: {sentence.format(path)}\n")


def test_a_binding_without_a_plan_is_planned(path: Path, capsys):
    _, before, _ = run(capsys, path, "--memory")
    desc = load(path)
    for binding in desc.entries[0].bindings:
        binding.ClearField("plan")
    save(desc, path, force=True)
    assert run(capsys, path, "--memory") == (0, before, "")


def test_rectangles_of_a_good_plan_never_meet():
    """The picture of a placement in which two buffers meet would show it."""
    memory = train_memory(trained())
    boxes = [Placed(r.buffer.nbytes, r.buffer.start, r.buffer.stop, r.offset) for r in memory.residents]
    assert not any(collide(a, b) for i, a in enumerate(boxes) for b in boxes[:i])
