"""The arena over time as a self-contained picture: an SVG, alone or in a page.

Ops go from left to right in execution order, bytes from the bottom up. A rectangle is a buffer, and the line shows the
bytes needed at each moment. Hovering over a buffer shows its tensors, size, lifetime and source line. The colours of
text and lines are readable on light and dark backgrounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from compiler.analyses.step_memory import KINDS, Resident, StepMemory, needed
from compiler.commands.ops_in_words import line_of, op_in_words, size_in_words, stage_in_words
from compiler.commands.pictures.marks import STAGE_COLOURS, safe
from compiler.commands.views.show_memory import life_in_words, maker, names_in_words, peak_in_words
from prograd_proto import program_pb2 as pb
from prograd_proto.text.words import LIFESPANS, tensor
from runtime.step import FED

PICTURE_WIDTH: Final = 1280
TOP, BOTTOM, LEFT, RIGHT = 84, 600, 84, 1256
MIN_LABEL_HEIGHT: Final = 14
LETTER_WIDTH: Final = 6.4  # width of a label's character in pixels
COLOURS: Final = dict(zip(KINDS, ("#3fa787", "#4c86c6", "#e0863c", "#a877c9", "#9aa3ad"), strict=True))
STYLE: Final = """
svg { font: 12px system-ui, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; }
text { fill: #6b7480; }
.title { font-size: 18px; font-weight: 600; }
.grid { stroke: #8a939e; stroke-opacity: .28; }
.buffer { stroke: #ffffff; stroke-opacity: .55; stroke-width: .6; }
.buffer:hover { stroke: #d0342c; stroke-opacity: 1; stroke-width: 2; }
.label { fill: #ffffff; font-size: 11px; pointer-events: none; }
.needed { fill: none; stroke: #6b7480; stroke-width: 1.4; pointer-events: none; }
.peak { stroke: #d0342c; stroke-dasharray: 5 3; pointer-events: none; }
.peak-word { fill: #d0342c; font-weight: 600; }
"""
PAGE_STYLE: Final = """
:root { color-scheme: light dark; }
body { margin: 24px auto; max-width: 1280px; font: 14px system-ui, sans-serif; }
svg { width: 100%; height: auto; }
h2 { font-size: 16px; }
table { border-collapse: collapse; }
td, th { padding: 3px 16px 3px 0; text-align: left; }
td:first-child, th:first-child { text-align: right; }
tr + tr { border-top: 1px solid #8a939e55; }
"""


def memory_svg(title: str, program: pb.ProgramDesc, memory: StepMemory) -> str:
    """Return the picture as an SVG file."""
    return "\n".join(_drawing(title, program, memory)) + "\n"


def memory_page(title: str, program: pb.ProgramDesc, memory: StepMemory) -> str:
    """Return the picture in an HTML page, above a table of the buffers at the peak."""
    rows = "\n".join(_row(program, memory, resident) for resident in memory.at_peak())
    head = "".join(f"<th>{word}</th>" for word in ("bytes", "lifespan", "kind", "tensor", "defined by", "line"))
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{safe(title)}</title>\n'
        f"<style>{PAGE_STYLE}</style>\n{memory_svg(title, program, memory)}"
        f"<h2>Needed at the peak</h2>\n<table>\n<tr>{head}</tr>\n{rows}\n</table>\n</html>\n"
    )


@dataclass(frozen=True)
class _Scale:
    """The map from phases and bytes to pixels: a column for the rows that are fed, for each op, and for the end."""

    ops: int
    bytes: int

    def x(self, phase: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * (phase - FED) / (self.ops + 2), 2)

    def y(self, nbytes: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * nbytes / self.bytes, 2)


def _drawing(title: str, program: pb.ProgramDesc, memory: StepMemory) -> Iterator[str]:
    scale = _Scale(len(memory.block.ops), max(memory.plan.arena_bytes, 1))
    height = BOTTOM + 92
    size = f'viewBox="0 0 {PICTURE_WIDTH} {height}" width="{PICTURE_WIDTH}" height="{height}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    yield f"<style>{STYLE}</style>"
    yield _text(LEFT, 28, title, "title")
    arena, peak = size_in_words(memory.plan.arena_bytes), size_in_words(memory.peak_bytes)
    yield _text(LEFT, 48, f"arena {arena}, peak {peak} {peak_in_words(program, memory)}")
    yield from _legend(memory)
    yield from _bytes_axis(scale)
    shown = [resident for resident in memory.residents if resident.buffer.nbytes]
    for resident in shown:
        yield from _rectangle(program, memory, scale, resident)
    yield from _needed_line(memory, scale)
    for resident in shown:
        yield from _label(scale, resident)
    yield from _stages(program, memory, scale)
    yield from _peak(memory, scale)
    yield "</svg>"


def _legend(memory: StepMemory) -> Iterator[str]:
    x = float(LEFT)
    for kind in KINDS:
        if any(r.kind == kind for r in memory.residents):
            yield f'<rect x="{x}" y="60" width="12" height="12" rx="2" fill="{COLOURS[kind]}"/>'
            yield _text(x + 17, 70, kind)
            x += 40 + LETTER_WIDTH * len(kind)
    yield f'<path class="needed" d="M{x} 66h14"/>'
    yield _text(x + 20, 70, "needed")


def _bytes_axis(scale: _Scale) -> Iterator[str]:
    """Return lines at round numbers of a suitable unit."""
    unit, word = next(
        (u, w) for u, w in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes")) if scale.bytes >= u
    )
    if word == "KiB" and scale.bytes >= 100 << 10:  # one unit for all but the smallest arenas
        unit, word = 1 << 20, "MiB"
    step = next(s for s in _round_numbers() if scale.bytes / unit / s <= 8)
    number = 0
    while number * step * unit <= scale.bytes:
        y = scale.y(number * step * unit)
        yield f'<path class="grid" d="M{LEFT} {y}H{RIGHT}"/>'
        yield _text(LEFT - 8, y + 4, f"{number * step:g}", anchor="end")
        number += 1
    yield _text(LEFT - 8, TOP - 10, word, anchor="end")


def _round_numbers() -> Iterator[float]:
    power = 0.001
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def _rectangle(program: pb.ProgramDesc, memory: StepMemory, scale: _Scale, resident: Resident) -> Iterator[str]:
    x, right = scale.x(resident.buffer.start), scale.x(resident.buffer.stop)
    top = scale.y(resident.offset + resident.buffer.nbytes)
    width, height = round(right - x, 2), round(scale.y(resident.offset) - top, 2)
    yield f'<rect class="buffer" x="{x}" y="{top}" width="{width}" height="{height}" fill="{COLOURS[resident.kind]}">'
    yield f"<title>{safe(_hover(program, memory, resident))}</title></rect>"


def _label(scale: _Scale, resident: Resident) -> Iterator[str]:
    """Return the name of the first tensor, if there is space for it."""
    x, top = scale.x(resident.buffer.start), scale.y(resident.offset + resident.buffer.nbytes)
    width, height = scale.x(resident.buffer.stop) - x, scale.y(resident.offset) - top
    label = tensor(resident.tenants[0].tensor) if resident.tenants else resident.buffer.name
    if height >= 14 and width >= LETTER_WIDTH * len(label) + 8:
        yield _text(x + 5, top + min(height / 2, 12) + 4, label, "label")


def _hover(program: pb.ProgramDesc, memory: StepMemory, resident: Resident) -> str:
    op = maker(memory, resident, resident.tenants[0] if resident.tenants else None)
    by = f"defined by {op_in_words(op)}, {line_of(program, op)}".rstrip(", ") if op else "fed"
    return (
        f"{names_in_words(resident)}\n{resident.buffer.nbytes} bytes at {resident.offset}, {resident.kind}\n"
        f"{life_in_words(memory, resident)}, {LIFESPANS[resident.lifespan]}\n{by}"
    )


def _needed_line(memory: StepMemory, scale: _Scale) -> Iterator[str]:
    steps = [(phase, now) for phase, now in needed([r.buffer for r in memory.residents]) if phase <= scale.ops]
    if steps:
        path = "".join(f"H{scale.x(phase)}V{scale.y(now)}" for phase, now in steps)
        yield f'<path class="needed" d="M{LEFT} {BOTTOM}{path}H{RIGHT}"/>'


def _stages(program: pb.ProgramDesc, memory: StepMemory, scale: _Scale) -> Iterator[str]:
    """Return the band below the ops: runs of one stage, and op numbers at regular intervals."""
    ops = memory.block.ops
    words = [stage_in_words(op) for op in ops]
    first = 0
    for i in range(len(ops)):
        if i + 1 < len(ops) and words[i + 1] == words[i]:
            continue
        x, right = scale.x(first), scale.x(i + 1)
        count = i + 1 - first
        what = f"{op_in_words(ops[i])}, {line_of(program, ops[i])}".rstrip(", ") if count == 1 else f"{count} ops"
        at = f'x="{x}" y="{BOTTOM + 6}" width="{round(right - x, 2)}" height="{MIN_LABEL_HEIGHT}"'
        yield f'<rect {at} fill="{STAGE_COLOURS[words[i]]}">'
        yield f"<title>{safe(f'{words[i]}: {what}')}</title></rect>"
        first = i + 1
    step = next(int(s) for s in _round_numbers() if s >= 1 and len(ops) / s <= 12)
    for i in range(len(ops)):
        if i == 0 or (i + 1) % step == 0:
            yield _text(scale.x(i + 0.5), BOTTOM + 36, str(i + 1), anchor="middle")
    yield from _stage_words(words)


def _stage_words(words: list[str]) -> Iterator[str]:
    x = LEFT
    yield _text(x, BOTTOM + 64, "ops in the order in which they run")
    x += 230
    for word, colour in STAGE_COLOURS.items():
        if word in words:
            yield f'<rect x="{x}" y="{BOTTOM + 54}" width="12" height="12" rx="2" fill="{colour}"/>'
            yield _text(x + 17, BOTTOM + 64, word)
            x += 40 + round(LETTER_WIDTH * len(word))


def _peak(memory: StepMemory, scale: _Scale) -> Iterator[str]:
    if not memory.peak_bytes:
        return
    x, y = scale.x(memory.peak_phase), scale.y(memory.peak_bytes)
    yield f'<path class="peak" d="M{x} {BOTTOM + 6}V{TOP - 4}M{LEFT} {y}H{RIGHT}"/>'
    right = x < (LEFT + RIGHT) / 2
    yield _text(x + (6 if right else -6), TOP - 10, "peak", "peak-word", "start" if right else "end")


def _row(program: pb.ProgramDesc, memory: StepMemory, resident: Resident) -> str:
    tenant = resident.at(memory.peak_phase)
    op = maker(memory, resident, tenant)
    cells = [
        str(resident.buffer.nbytes),
        LIFESPANS[resident.lifespan],
        resident.kind,
        tensor(tenant.tensor) if tenant else resident.buffer.name,
        op_in_words(op) if op else "fed",
        line_of(program, op) if op else "",
    ]
    return f"<tr>{''.join(f'<td>{safe(cell)}</td>' for cell in cells)}</tr>"


def _text(x: float, y: float, words: str, style: str = "", anchor: str = "start") -> str:
    kind = f' class="{style}"' if style else ""
    at = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{round(x, 2)}" y="{round(y, 2)}"{kind}{at}>{safe(words)}</text>'
