"""The ops of an entry as an SVG of layers: boxes, edges with the types of the tensors, and ops on hovering."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from compiler.commands.ops_in_words import line_of, op_in_words
from compiler.commands.pictures.marks import STAGE_COLOURS, safe
from compiler.commands.pictures.op_boxes import (
    BOX,
    EDGE,
    HEIGHT,
    KEY,
    Box,
    Drawn,
    drawn_blocks,
    edge_labels,
    labels_of,
    pale,
    size,
    stage_counts,
)
from prograd_proto import program_pb2 as pb
from prograd_proto.text.words import name, tensor

MAX_LISTED_OPS: Final = 12  # ops that hovering over a box lists
STYLE: Final = """
svg { font: 12px system-ui, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; }
text { fill: #6b7480; }
.title { font-size: 18px; font-weight: 600; }
.box { stroke-width: 1.5; }
.box:hover { stroke: #d0342c; stroke-width: 2.5; }
.words { pointer-events: none; }
.scope, .inside { font-weight: 600; }
.type, .given { font-size: 11px; }
.given { font-style: italic; }
.read { fill: none; stroke: #8a939e; stroke-opacity: .55; }
"""


def layers_svg(title: str, program: pb.ProgramDesc, block: pb.BlockDesc) -> str:
    """Return the picture as an SVG file, with the blocks inside ops below."""
    return "\n".join(_drawing(title, program, block)) + "\n"


def _drawing(title: str, program: pb.ProgramDesc, block: pb.BlockDesc) -> Iterator[str]:
    drawn = drawn_blocks(program, block)
    counts = stage_counts(program, block)
    width, height = size(drawn, len(counts))
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    yield f"<style>{STYLE}</style>"
    yield f'<text class="title" x="{EDGE}" y="28">{safe(title)}</text>'
    yield from _key(counts)
    for one in drawn:
        if one.words and one.boxes:
            yield f'<text class="inside" x="{EDGE}" y="{one.boxes[0].top - 14}">{safe(one.words)}</text>'
        for box in one.boxes:
            for read in box.reads:
                yield _edge(one.boxes[read], box)
        yield from _types_below(one)
        for box in one.boxes:
            yield from _box(program, box)
    yield "</svg>"


def _key(count: Counter[str]) -> Iterator[str]:
    x = EDGE
    for stage, colour in STAGE_COLOURS.items():
        if count[stage]:
            yield f'<rect x="{x}" y="42" width="12" height="12" rx="2" fill="{colour}"/>'
            yield f'<text x="{x + 17}" y="52">{stage} {count[stage]}</text>'
            x += KEY


def _edge(above: Box, below: Box) -> str:
    x, y, to_x, to_y = above.x + BOX // 2, above.y + HEIGHT, below.x + BOX // 2, below.y
    bend = (to_y - y) // 2
    return f'<path class="read" d="M{x} {y}C{x} {y + bend} {to_x} {to_y - bend} {to_x} {to_y}"/>'


def _types_below(one: Drawn) -> Iterator[str]:
    """Yield the types of the tensors that leave a box, on the edges below it."""
    for box, types in edge_labels(one):
        for line, text in enumerate(types):
            x, y = box.x + BOX // 2 + 6, box.y + HEIGHT + 13 + 12 * line
            yield f'<text class="type" x="{x}" y="{y}">{safe(text)}</text>'


def _box(program: pb.ProgramDesc, box: Box) -> Iterator[str]:
    colour = STAGE_COLOURS[box.stage]
    yield (
        f'<rect class="box" x="{box.x}" y="{box.y}" width="{BOX}" height="{HEIGHT}" rx="5" fill="{pale(colour)}" '
        f'stroke="{colour}"><title>{safe(_hover(program, box))}</title></rect>'
    )
    scope, types, given = labels_of(box)
    yield _words(box, 17, scope, "words scope")
    yield _words(box, 32, types, "words")
    if given:
        yield _words(box, 47, given, "words given")


def _words(box: Box, down: int, words: str, style: str) -> str:
    return f'<text class="{style}" x="{box.x + 8}" y="{box.y + down}">{safe(words)}</text>'


def _hover(program: pb.ProgramDesc, box: Box) -> str:
    lines = [f"{name(box.scope) if box.scope else 'no scope'}, {box.stage}"]
    for op in box.ops[:MAX_LISTED_OPS]:
        read = ", ".join(map(tensor, op.inputs))
        lines.append(f"{op_in_words(op)}({read}), {line_of(program, op)}".rstrip(", "))
    more = len(box.ops) - MAX_LISTED_OPS
    return "\n".join([*lines, f"and {more} more"] if more > 0 else lines)
