"""The ops of an entry as an SVG of layers: readers stand below the ops that they read from.

A box is a run of consecutive ops of one scope and one stage, with the constants that it is the first to read; other
readers of a constant have no line to it. The ops of a block are in an executable order, so the reads between such boxes
have no cycle. A box is in the layer given by the longest path to it. Boxes of one scope and one stage in one layer are
merged. A box is near the horizontal position of the boxes that it reads from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

from compiler.analyses.op_scopes import op_scopes
from compiler.commands.ops_in_words import line_of, op_in_words, stage_in_words
from compiler.commands.pictures.marks import STAGE_COLOURS, safe
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks.walk import inside
from prograd_proto.text import block_owners
from prograd_proto.text.words import name, tensor

BOX, HEIGHT, ACROSS, DOWN, EDGE, TOP, TITLE = 210, 40, 234, 84, 24, 76, 64
MAX_LABEL_LETTERS: Final = 30  # characters of a label that fit into a box
MAX_LISTED_OPS: Final = 12  # ops that hovering over a box lists
STYLE: Final = """
svg { font: 12px system-ui, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; }
text { fill: #6b7480; }
.title { font-size: 18px; font-weight: 600; }
.box { stroke-width: 1.5; }
.box:hover { stroke: #d0342c; stroke-width: 2.5; }
.words { pointer-events: none; }
.scope, .inside { font-weight: 600; }
.read { fill: none; stroke: #8a939e; stroke-opacity: .55; }
"""


def layers_svg(title: str, program: pb.ProgramDesc, block: pb.BlockDesc) -> str:
    """Return the picture as an SVG file, with the blocks inside ops below."""
    return "\n".join(_drawing(title, program, block)) + "\n"


@dataclass
class _Box:
    scope: str
    stage: str
    ops: Sequence[pb.OpDesc]
    reads: list[int] = field(default_factory=list[int])  # boxes before it
    layer: int = 0
    column: int = 0
    top: int = TOP  # of the first layer

    @property
    def x(self) -> int:
        return EDGE + ACROSS * self.column

    @property
    def y(self) -> int:
        return self.top + DOWN * self.layer


def _drawing(title: str, program: pb.ProgramDesc, block: pb.BlockDesc) -> Iterator[str]:
    owners = block_owners(program)
    numbers = inside(program, [number for op in block.ops for number in op.blocks])
    drawn = [("", _laid_out(_boxes(program, block), TOP))]
    for number in numbers:
        top = _end(drawn) + TITLE
        drawn.append((f"block {number}: {owners[number]}", _laid_out(_boxes(program, program.blocks[number]), top)))
    width = max([640, *(box.x + BOX + EDGE for _, boxes in drawn for box in boxes)])
    height = _end(drawn) + EDGE
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    yield f"<style>{STYLE}</style>"
    yield f'<text class="title" x="{EDGE}" y="28">{safe(title)}</text>'
    yield from _key([block, *(program.blocks[number] for number in numbers)])
    for words, boxes in drawn:
        if words and boxes:
            yield f'<text class="inside" x="{EDGE}" y="{boxes[0].top - 14}">{safe(words)}</text>'
        for box in boxes:
            for read in box.reads:
                yield _edge(boxes[read], box)
        for box in boxes:
            yield from _box(program, box)
    yield "</svg>"


def _end(drawn: Sequence[tuple[str, Sequence[_Box]]]) -> int:
    """Return the lower edge of what is drawn."""
    return max([TOP, *(box.y + HEIGHT for _, boxes in drawn for box in boxes)])


def _boxes(program: pb.ProgramDesc, block: pb.BlockDesc) -> list[_Box]:
    what = [(scope, stage_in_words(op)) for scope, op in zip(op_scopes(program, block), block.ops, strict=True)]
    constants = {output: op for op in block.ops if op.type == "constant" for output in op.outputs}
    ops = [i for i, op in enumerate(block.ops) if op.type != "constant" or set(op.outputs) <= _unread(block)]
    boxes: list[_Box] = []
    maker: dict[str, int] = {}
    for (scope, stage), run in groupby(ops, lambda i: what[i]):
        number, made = len(boxes), [block.ops[i] for i in run]
        reads = [read for op in made for read in op.inputs]
        taken = [constants.pop(read) for read in dict.fromkeys(reads) if read in constants]
        found = (maker.get(read, number) for read in reads)
        maker |= {output: number for op in made for output in op.outputs if output}
        boxes.append(_Box(scope, stage, [*taken, *made], sorted({box for box in found if box != number})))
    return boxes


def _unread(block: pb.BlockDesc) -> set[str]:
    """Return the tensors that no op reads."""
    return {output for op in block.ops for output in op.outputs} - {read for op in block.ops for read in op.inputs}


def _laid_out(boxes: list[_Box], top: int) -> list[_Box]:
    """Return the boxes with layers below `top` and columns, merged by scope and stage within a layer."""
    for box in boxes:
        box.layer = 1 + max((boxes[read].layer for read in box.reads), default=-1)
    first: dict[int, int] = {}  # the layer of the readers of a box
    for box in boxes:
        first |= {read: min(box.layer, first.get(read, box.layer)) for read in box.reads}
    for number, box in enumerate(boxes):
        if not box.reads:  # place it right above its reader
            box.layer = first.get(number, 1) - 1
    one = _as_one(sorted(boxes, key=lambda box: box.layer), boxes)
    for _, layer in groupby(one, lambda box: box.layer):
        beside = list(layer)
        wanted = [(sum(one[i].column for i in box.reads) / max(len(box.reads), 1), n) for n, box in enumerate(beside)]
        for column, (_, number) in enumerate(sorted(wanted)):
            beside[number].column = column
    return [replace(box, top=top) for box in one]


def _as_one(by_layer: Sequence[_Box], numbered: Sequence[_Box]) -> list[_Box]:
    """Return boxes by layer, merged by scope and stage."""
    place: dict[tuple[int, str, str], int] = {}
    for box in by_layer:
        place.setdefault((box.layer, box.scope, box.stage), len(place))
    one: list[_Box] = []
    for box in by_layer:
        reads = {place[read.layer, read.scope, read.stage] for read in (numbered[i] for i in box.reads)}
        at = place[box.layer, box.scope, box.stage]
        if at == len(one):
            one.append(_Box(box.scope, box.stage, box.ops, sorted(reads), box.layer))
        else:
            one[at] = replace(one[at], ops=[*one[at].ops, *box.ops], reads=sorted({*one[at].reads, *reads}))
    return one


def _key(blocks: Sequence[pb.BlockDesc]) -> Iterator[str]:
    count, x = Counter(stage_in_words(op) for block in blocks for op in block.ops), EDGE
    for stage, colour in STAGE_COLOURS.items():
        if count[stage]:
            yield f'<rect x="{x}" y="42" width="12" height="12" rx="2" fill="{colour}"/>'
            yield f'<text x="{x + 17}" y="52">{stage} {count[stage]}</text>'
            x += 130


def _edge(above: _Box, below: _Box) -> str:
    x, y, to_x, to_y = above.x + BOX // 2, above.y + HEIGHT, below.x + BOX // 2, below.y
    bend = (to_y - y) // 2
    return f'<path class="read" d="M{x} {y}C{x} {y + bend} {to_x} {to_y - bend} {to_x} {to_y}"/>'


def _box(program: pb.ProgramDesc, box: _Box) -> Iterator[str]:
    colour = STAGE_COLOURS[box.stage]
    yield (
        f'<rect class="box" x="{box.x}" y="{box.y}" width="{BOX}" height="{HEIGHT}" rx="5" fill="{_pale(colour)}" '
        f'stroke="{colour}"><title>{safe(_hover(program, box))}</title></rect>'
    )
    count = Counter(op.type for op in box.ops)
    if len(count) > 1:
        del count["constant"]
    types = ", ".join(f"{kind} x{n}" if n > 1 else kind for kind, n in count.items())
    yield _words(box, 17, _short(box.scope or box.stage), "words scope")
    yield _words(box, 32, _short(types), "words")


def _pale(colour: str) -> str:
    """Return a fifth of a colour on white, so that no line shines through."""
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{255 - (255 - part) // 5:02x}" for part in parts)


def _words(box: _Box, down: int, words: str, style: str) -> str:
    return f'<text class="{style}" x="{box.x + 8}" y="{box.y + down}">{safe(words)}</text>'


def _short(words: str) -> str:
    return words if len(words) <= MAX_LABEL_LETTERS else f"{words[: MAX_LABEL_LETTERS - 3]}..."


def _hover(program: pb.ProgramDesc, box: _Box) -> str:
    lines = [f"{name(box.scope) if box.scope else 'no scope'}, {box.stage}"]
    for op in box.ops[:MAX_LISTED_OPS]:
        read = ", ".join(map(tensor, op.inputs))
        lines.append(f"{op_in_words(op)}({read}), {line_of(program, op)}".rstrip(", "))
    more = len(box.ops) - MAX_LISTED_OPS
    return "\n".join([*lines, f"and {more} more"] if more > 0 else lines)
