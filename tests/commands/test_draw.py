"""`compiler draw`: ops by scopes, as a page and as layers."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from subjects.commands import run_compiler

from compiler import Program, adam, constant, ops, sgd, warmup_cosine
from compiler.analyses.op_scopes import op_scopes
from compiler.commands.pictures.marks import STAGE_COLOURS
from compiler.commands.pictures.op_boxes import BOX, EDGE, KEY, drawn_blocks, edge_labels, labels_of, size
from compiler.commands.pictures.op_layers import layers_svg
from compiler.commands.pictures.op_page import op_page
from prograd_proto import program_pb2 as pb
from prograd_proto.files import save

SVG = "{http://www.w3.org/2000/svg}"


def two_layers(first: str = "encoder") -> Program:
    program = Program("two")
    x = program.input("x", "float32", ("rows", 6))
    with program.scope(first), program.scope("dense"):
        h = ops.relu(x @ program.parameter("w", (6, 4), constant(0.1)))
    h = ops.tanh(h @ program.parameter("head.w", (4, 2), constant(0.1)))
    program.minimize(ops.mean(h), sgd(0.1))
    program.outputs(h=h)
    return program


def trained() -> pb.ProgramDesc:
    return two_layers().compile(rows=2).desc


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    save(trained(), tmp_path / "two.pb")
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Page(HTMLParser):
    """Ids, links, the scopes around each op, and what is open at the end."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: dict[str, tuple[str, ...]] = {}
        self.links: list[str] = []
        self.around: list[str] = []
        self.bold = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.bold = tag == "b"
        if tag == "details":
            self.around.append("")
        if tag == "li":
            self.ids[str(found["id"])] = tuple(self.around)
        if tag == "a":
            self.links.append(str(found["href"]))

    def handle_endtag(self, tag: str) -> None:
        if tag == "details":
            self.around.pop()

    def handle_data(self, data: str) -> None:
        if self.bold:
            self.around[-1] = data
            self.bold = False


def test_ops_belong_to_scopes_states_and_what_they_differentiate():
    desc = trained()
    block = desc.blocks[0]
    of = {op.id: scope for op, scope in zip(block.ops, op_scopes(desc, block), strict=True)}
    by_type = {op.type: of[op.id] for op in block.ops if op.stage == pb.STAGE_FORWARD}
    assert (by_type["relu"], by_type["tanh"]) == ("encoder.dense", "head")
    for op in block.ops:
        if op.gradient_of:
            assert of[op.id] == of[op.gradient_of], op
        if op.type == "sgd":
            assert of[op.id] == op.inputs[0].rpartition(".")[0]


def test_what_reads_two_scopes_stands_in_what_they_have_in_common():
    program = Program("sum")
    x = program.input("x", "float32", (3,))
    a, b = (x * program.parameter(name, (3,), constant(1.0)) for name in ("net.a.w", "net.b.w"))
    program.outputs(sum=a + b)
    desc = program.compile().desc
    assert op_scopes(desc, desc.blocks[0]) == ["net.a", "net.b", "net"]


def test_one_of_several_outputs_is_no_scope():
    program = Program("sorted")
    x = program.input("x", "float32", (5,))
    with program.scope("net"):
        found = ops.topk(x, k=2)
    plain = ops.topk(x, k=2)
    program.outputs(values=found[0], others=plain[0])
    desc = program.compile().desc
    assert op_scopes(desc, desc.blocks[0]) == ["net", ""]


def test_the_page_has_every_op_once_within_its_scopes_and_links_that_lead_somewhere():
    desc = trained()
    block = desc.blocks[0]
    page = Page(op_page("two: train", desc, block))
    scopes = [tuple(scope.split(".")) if scope else () for scope in op_scopes(desc, block)]
    assert page.ids == {str(op.id): scope for op, scope in zip(block.ops, scopes, strict=True)}
    assert page.links
    assert all(link[1:] in page.ids for link in page.links)
    assert page.around == []


def test_layers_stand_below_what_they_read():
    desc = trained()
    root = ElementTree.fromstring(layers_svg("two: train", desc, desc.blocks[0]))
    boxes = [box for box in root.iter(f"{SVG}rect") if box.get("class") == "box"]
    places = [(int(box.get("x", "")), int(box.get("y", ""))) for box in boxes]
    assert len(set(places)) == len(places)
    told = "\n".join(box.find(f"{SVG}title").text or "" for box in boxes)  # pyright: ignore[reportOptionalMemberAccess]: each has one
    assert all(f"op {op.id} {op.type}(" in told for op in desc.blocks[0].ops)
    edges = [re.findall(r"[\d]+", edge.get("d", "")) for edge in root.iter(f"{SVG}path")]
    assert edges
    assert all(int(edge[-1]) > int(edge[1]) for edge in edges)


def test_equal_boxes_of_a_layer_are_one_and_constants_stand_with_what_reads_them_first():
    program = Program("averaged")
    x = program.input("x", "float32", ("rows", 3))
    for name in ("a.w", "a.v"):
        x = x * program.parameter(name, (3,), constant(1.0)) + 0.5
    program.minimize(ops.mean(x), sgd(0.1))
    program.average(0.9)
    desc = program.compile(rows=2).desc
    root = ElementTree.fromstring(layers_svg("averaged: train", desc, desc.blocks[0]))
    boxes = [box for box in root.iter(f"{SVG}rect") if box.get("class") == "box"]
    places = [(box.get("x"), box.get("y")) for box in boxes]
    words = [element.text or "" for element in root.iter(f"{SVG}text")]
    named = [(words[i], words[i + 1]) for i in range(len(words) - 2 * len(boxes), len(words), 2)]
    assert "constant" not in [types for _, types in named]
    assert not any("a.w" in scope or "a.v" in scope for scope, _ in named), "an average is of its parameter's scope"
    beside = [(y, scope, box.get("fill")) for (_, y), (scope, _), box in zip(places, named, boxes, strict=True)]
    assert len(set(beside)) == len(beside)
    told = "\n".join(box.find(f"{SVG}title").text or "" for box in boxes)  # pyright: ignore[reportOptionalMemberAccess]: as above
    assert all(told.count(f"op {op.id} {op.type}(") == 1 for op in desc.blocks[0].ops)


@pytest.mark.parametrize("draw", [op_page, layers_svg])
def test_names_are_no_marks_of_the_language(draw: object):
    desc = trained()
    desc.blocks[0].ops[0].outputs[0] = "<script>&\x1b.x"
    picture = draw("<b>\x1b", desc, desc.blocks[0])  # pyright: ignore[reportCallIssue, reportUnknownVariableType]: either function
    assert "<script>" not in picture
    assert "<b>\\" not in picture
    assert "\x1b" not in picture


def test_a_scope_of_very_many_dots_is_drawn():
    desc = trained()
    desc.blocks[0].ops[0].outputs[0] = "a." * 5000 + "x"
    assert Page(op_page("t", desc, desc.blocks[0])).around == []


def test_the_verb_writes_either_and_overwrites_neither(folder: Path, capsys: pytest.CaptureFixture[str]):
    left_out = "note: 18 ops of gradients and updates are left out; see --all\n"
    for file in ("two.html", "two.svg"):
        assert run_compiler(capsys, "draw", "two.pb", "-o", file) == (0, "", f"wrote {file}\n{left_out}")
        code, _, err = run_compiler(capsys, "draw", "two.pb", "-o", file)
        assert (code, err) == (2, f"compiler: {file}: the file exists; --force replaces it\n")
        assert run_compiler(capsys, "draw", "two.pb", "-o", file, "--entry", "predict", "--force", "-q") == (0, "", "")
        assert "two: predict" in (folder / file).read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "the following arguments are required: -o/--output; see compiler draw --help"),
        (["-o", "two.gif"], "-o two.gif: the name ends in none of .html, .svg and .png"),
        (["-o", "t.svg", "--entry", "trian"], "two.pb: there is no entry 'trian'; did you mean 'train'?"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
):
    assert run_compiler(capsys, "draw", "two.pb", *words) == (2, "", f"compiler: {sentence}\n")
    assert [path.name for path in folder.iterdir()] == ["two.pb"]


def drawn_words(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    assert run_compiler(capsys, "draw", "two.pb", "-o", "p.svg", "--force", "-q", *options) == (0, "", "")
    return [element.text or "" for element in ElementTree.parse(folder / "p.svg").iter(f"{SVG}text")]


def test_the_forward_pass_is_drawn_unless_all_is_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]):
    forward, everything = drawn_words(folder, capsys), drawn_words(folder, capsys, "--all")
    stages = [{words.split()[0] for words in drawn} & set(STAGE_COLOURS) for drawn in (forward, everything)]
    assert stages == [{"forward"}, {"forward", "gradient", "derivative", "update"}]
    assert not any("sgd" in words for words in forward)
    assert any("sgd" in words for words in everything)


def test_edges_have_the_types_of_what_is_read(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert "float32[rows, 4]" in drawn_words(folder, capsys)
    program = Program("many")
    x = program.input("x", "float32", ("rows", 3))
    with program.scope("a"):
        parts = [ops.cast(x, dtype=dtype) for dtype in ("float64", "float16", "bfloat16", "int64")]
    with program.scope("b"):
        program.outputs(**{f"y{i}": ops.flip(part, axis=1) for i, part in enumerate(parts)})
    desc = program.compile(rows=2).desc
    below = [types for one in drawn_blocks(desc, desc.blocks[0]) for _, types in edge_labels(one)]
    assert below == [["bfloat16[rows, 3]", "float16[rows, 3] and 2 more"]]


def test_a_png_has_the_size_of_the_svg_and_its_colours(folder: Path, capsys: pytest.CaptureFixture[str]):
    image = pytest.importorskip("PIL.Image")
    drawn_words(folder, capsys, "--all")
    assert run_compiler(capsys, "draw", "two.pb", "-o", "p.png", "--all", "-q") == (0, "", "")
    root = ElementTree.parse(folder / "p.svg").getroot()
    picture = image.open(folder / "p.png").convert("RGB")
    assert picture.size == tuple(int(root.get(side, "")) * 3 // 2 for side in ("width", "height"))
    colours = {colour for _, colour in picture.getcolors(1 << 24)}
    for stage in ("forward", "gradient", "update"):
        assert tuple(int(STAGE_COLOURS[stage][i : i + 2], 16) for i in (1, 3, 5)) in colours


def test_a_graph_that_is_too_large_for_a_png_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]):
    program = Program("deep")
    x = program.input("x", "float32", (3,))
    for number in range(300):
        with program.scope(f"layer{number}"):
            x = x + 1.0
    program.outputs(x=x)
    save(program.compile().desc, folder / "deep.pb")
    assert run_compiler(capsys, "draw", "deep.pb", "-o", "p.png") == (
        2,
        "",
        "compiler: the graph takes 328 x 29756 units, too much for a .png; write an .svg or a page, .html\n",
    )
    assert not (folder / "p.png").exists()


def test_boxes_name_inputs_and_parameters_once_and_the_schedule_is_one_box():
    program = Program("two", seed=1)
    x = program.input("x", "float32", ("rows", 6))
    with program.scope("dense"):
        h = ops.relu(x @ program.parameter("w", (6, 4), constant(0.1)) + program.parameter("b", (4,), constant(0.1)))
    program.minimize(ops.mean(h), adam(warmup_cosine(1e-2)))
    desc = program.compile(rows=2).desc
    [drawn] = drawn_blocks(desc, desc.blocks[0])
    labels = [labels_of(box) for box in drawn.boxes]
    assert labels[0][2] == "x, w, b"
    assert [given for _, _, given in labels if "w" in given.split(", ")] == [labels[0][2]]
    [schedule] = [box for box in drawn.boxes if labels_of(box)[0] == "schedule"]
    assert len(schedule.ops) > 5
    assert not schedule.reads
    assert all(drawn.boxes[read] is not schedule for box in drawn.boxes for read in box.reads)
    assert not any(box.stage == "update" and not box.scope for box in drawn.boxes)
    listed = [id(op) for box in drawn.boxes for op in box.ops]
    assert len(listed) == len(set(listed)) == len(desc.blocks[0].ops)


def test_a_picture_is_as_wide_as_what_is_drawn():
    desc = trained()
    drawn = drawn_blocks(desc, desc.blocks[0])
    widest = max(box.x + BOX for one in drawn for box in one.boxes)
    assert size(drawn, 1)[0] == widest + EDGE
    assert size(drawn, 9)[0] == EDGE + 9 * KEY
