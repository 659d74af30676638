"""The ops of an entry as a PNG of layers, drawn by matplotlib: the boxes and edges of the SVG."""

from __future__ import annotations

from io import BytesIO
from typing import Any, Final

from compiler.commands.pictures.marks import STAGE_COLOURS
from compiler.commands.pictures.op_boxes import (
    BOX,
    EDGE,
    HEIGHT,
    KEY,
    Drawn,
    drawn_blocks,
    edge_labels,
    labels_of,
    pale,
    size,
    stage_counts,
)
from compiler.errors import UsageError
from prograd_proto import program_pb2 as pb
from prograd_proto.printable import printable
from runtime.extras import extra

MAX_PIXELS: Final = 30_000
"""Upper bound on the width and the height of a PNG; larger graphs are drawn as SVG or HTML."""

_DOTS: Final = 144  # pixels of 96 units, the resolution of a screen
_GREY, _LINE = "#6b7480", "#8a939e"
_POINTS: Final = 72 / 96  # of a unit


def layers_png(title: str, program: pb.ProgramDesc, block: pb.BlockDesc) -> bytes:
    """Return the picture as a PNG file.

    Raises UsageError if the graph is too large for one, or matplotlib is missing.
    """
    drawn = drawn_blocks(program, block)
    width, height = size(drawn, len(stage_counts(program, block)))
    if max(width, height) * _DOTS / 96 > MAX_PIXELS:
        raise UsageError(
            f"the graph takes {width} x {height} units, too much for a .png; write an .svg or a page, .html"
        )
    figure = extra("matplotlib.figure", "plot", "a picture as .png").Figure(figsize=(width / 96, height / 96))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.axis("off")
    _text(axes, EDGE, 28, title, 18, weight="bold")
    _key(axes, program, block)
    for one in drawn:
        _draw(axes, one)
    stream = BytesIO()
    figure.savefig(stream, format="png", dpi=_DOTS, metadata={"Software": None})
    return stream.getvalue()


def _key(axes: Any, program: pb.ProgramDesc, block: pb.BlockDesc) -> None:
    patches = extra("matplotlib.patches", "plot", "a picture as .png")
    counts, x = stage_counts(program, block), EDGE
    for stage, colour in STAGE_COLOURS.items():
        if counts[stage]:
            axes.add_patch(patches.Rectangle((x, 42), 12, 12, facecolor=colour))
            _text(axes, x + 17, 52, f"{stage} {counts[stage]}", 12)
            x += KEY


def _draw(axes: Any, one: Drawn) -> None:
    patches = extra("matplotlib.patches", "plot", "a picture as .png")
    path = extra("matplotlib.path", "plot", "a picture as .png").Path
    if one.words and one.boxes:
        _text(axes, EDGE, one.boxes[0].top - 14, one.words, 12, weight="bold")
    for below in one.boxes:
        for read in below.reads:
            x, y = one.boxes[read].x + BOX // 2, one.boxes[read].y + HEIGHT
            to_x, bend = below.x + BOX // 2, (below.y - y) // 2
            curve = path(
                [(x, y), (x, y + bend), (to_x, below.y - bend), (to_x, below.y)], [path.MOVETO, *[path.CURVE4] * 3]
            )
            axes.add_patch(patches.PathPatch(curve, facecolor="none", edgecolor=_LINE, alpha=0.55, lw=_POINTS))
    for box, types in edge_labels(one):
        for line, text in enumerate(types):
            _text(axes, box.x + BOX // 2 + 6, box.y + HEIGHT + 13 + 12 * line, text, 11)
    for box in one.boxes:
        colour = STAGE_COLOURS[box.stage]
        style = patches.BoxStyle("Round", pad=0, rounding_size=5)
        axes.add_patch(
            patches.FancyBboxPatch(
                (box.x, box.y), BOX, HEIGHT, boxstyle=style, facecolor=pale(colour), edgecolor=colour, lw=1.5 * _POINTS
            )
        )
        scope, types, given = labels_of(box)
        _text(axes, box.x + 8, box.y + 17, scope, 12, weight="bold")
        _text(axes, box.x + 8, box.y + 32, types, 12)
        _text(axes, box.x + 8, box.y + 47, given, 11, style="italic")


def _text(axes: Any, x: int, y: int, words: str, pixels: int, weight: str = "normal", style: str = "normal") -> None:
    look = {"fontsize": pixels * _POINTS, "color": _GREY, "weight": weight, "style": style}
    axes.text(x, y, printable(words), parse_math=False, **look)
