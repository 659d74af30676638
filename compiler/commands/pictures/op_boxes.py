"""The ops of an entry as boxes in layers: readers stand below the ops that they read from.

A box is a run of consecutive ops of one scope and one stage, with the constants that it is the first to read; other
readers of a constant have no line to it. Below its ops, a box has the inputs and parameters that it is the first to
read. The ops of a block are in an executable order, so the reads between such boxes have no cycle. The schedule, which
is all updates that depend on no other box, is one box without lines. A box is in the layer given by the longest path to
it. Boxes of one scope and one stage in one layer are merged. A box is near the horizontal position of the boxes that it
reads from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, NamedTuple

from compiler.analyses.op_scopes import op_scopes
from compiler.commands.ops_in_words import stage_in_words
from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from prograd_proto.blocks.walk import inside
from prograd_proto.text import block_owners

BOX, HEIGHT, ACROSS, DOWN, EDGE, TOP, TITLE = 280, 55, 304, 99, 24, 76, 64
KEY: Final = 130  # width of a stage in the key
MAX_LABEL_LETTERS: Final = 42  # characters of a label that fit into a box
MAX_EDGE_TYPES: Final = 2  # types below a box; further ones are counted
SCHEDULE: Final = "schedule"


@dataclass
class Box:
    """A run of ops of one scope and one stage; `reads` has the tensors by the box that it reads them from.

    `given` are the inputs and parameters that it is the first to read.
    """

    scope: str
    stage: str
    ops: Sequence[pb.OpDesc]
    reads: dict[int, set[str]]
    given: Sequence[str]
    layer: int = 0
    column: int = 0
    top: int = TOP  # of the first layer

    @property
    def x(self) -> int:
        """The left edge."""
        return EDGE + ACROSS * self.column

    @property
    def y(self) -> int:
        """The upper edge."""
        return self.top + DOWN * self.layer


class Drawn(NamedTuple):
    """The boxes of a block with its title, empty for the outer one, and the types of its tensors by name."""

    words: str
    boxes: list[Box]
    types: dict[str, str]


def drawn_blocks(program: pb.ProgramDesc, block: pb.BlockDesc) -> list[Drawn]:
    """Return the boxes of a block, and below it those of the blocks inside its ops."""
    owners = block_owners(program)
    numbers = inside(program, [number for op in block.ops for number in op.blocks])
    drawn = [Drawn("", _laid_out(_boxes(program, block), TOP), _types(block))]
    for number in numbers:
        body, top = program.blocks[number], lower_edge(drawn) + TITLE
        drawn.append(Drawn(f"block {number}: {owners[number]}", _laid_out(_boxes(program, body), top), _types(body)))
    return drawn


def size(drawn: Sequence[Drawn], stages: int) -> tuple[int, int]:
    """Return the width and the height of a picture with the key of a number of stages."""
    right = [box.x + BOX + EDGE for one in drawn for box in one.boxes]
    return max([EDGE + KEY * stages, *right]), lower_edge(drawn) + EDGE


def edge_labels(one: Drawn) -> Iterator[tuple[Box, list[str]]]:
    """Yield each box that others read from, with the types of the tensors that they read."""
    read: dict[int, dict[str, None]] = {}
    for box in one.boxes:
        for source, tensors in box.reads.items():
            types = sorted({one.types.get(tensor, "") for tensor in tensors} - {""})
            read.setdefault(source, {}).update(dict.fromkeys(types))
    for source, types in sorted(read.items()):
        shown = [*types][:MAX_EDGE_TYPES]
        more = len(types) - len(shown)
        if more > 0:
            shown[-1] += f" and {more} more"
        yield one.boxes[source], [shorter(text) for text in shown]


def labels_of(box: Box) -> tuple[str, str, str]:
    """Return the lines of text in a box: its scope or stage, the types of its ops, and its inputs."""
    count = Counter(op.type for op in box.ops)
    if len(count) > 1:
        del count["constant"]
    types = ", ".join(f"{kind} x{n}" if n > 1 else kind for kind, n in count.items())
    own = f"{box.scope}."
    return shorter(box.scope or box.stage), shorter(types), shorter(", ".join(x.removeprefix(own) for x in box.given))


def shorter(words: str) -> str:
    """Return words that fit into a box."""
    return words if len(words) <= MAX_LABEL_LETTERS else f"{words[: MAX_LABEL_LETTERS - 3]}..."


def pale(colour: str) -> str:
    """Return a colour at a fifth of its strength on white; it is opaque, so lines behind a box stay hidden."""
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{255 - (255 - part) // 5:02x}" for part in parts)


def stage_counts(program: pb.ProgramDesc, block: pb.BlockDesc) -> Counter[str]:
    """Return the number of ops by stage, with those of the blocks inside ops."""
    numbers = inside(program, [number for op in block.ops for number in op.blocks])
    return Counter(stage_in_words(op) for one in [block, *(program.blocks[n] for n in numbers)] for op in one.ops)


def _types(block: pb.BlockDesc) -> dict[str, str]:
    return {tensor.name: str(type_of(tensor)) for tensor in block.tensors}


def lower_edge(drawn: Sequence[Drawn]) -> int:
    """Return the lower edge of all boxes."""
    return max([TOP, *(box.y + HEIGHT for one in drawn for box in one.boxes)])


def _boxes(program: pb.ProgramDesc, block: pb.BlockDesc) -> list[Box]:
    what = [(scope, stage_in_words(op)) for scope, op in zip(op_scopes(program, block), block.ops, strict=True)]
    constants = {output: op for op in block.ops if op.type == "constant" for output in op.outputs}
    read = {name for op in block.ops for name in op.inputs}
    ops = [i for i, op in enumerate(block.ops) if op.type != "constant" or read.isdisjoint(op.outputs)]
    parameters = {one.tensor: one.feed or one.state for one in block.parameters}
    boxes: list[Box] = []
    maker: dict[str, int] = {}
    for (scope, stage), run in groupby(ops, lambda i: what[i]):
        number, made = len(boxes), [block.ops[i] for i in run]
        reads = [read for op in made for read in op.inputs]
        taken = [constants.pop(read) for read in dict.fromkeys(reads) if read in constants]
        found: dict[int, set[str]] = {}
        for read in reads:
            if read in maker:
                found.setdefault(maker[read], set()).add(read)
        maker |= {output: number for op in made for output in op.outputs if output}
        given = [parameters.pop(read) for read in dict.fromkeys(reads) if read in parameters]
        boxes.append(Box(scope, stage, [*taken, *made], dict(sorted(found.items())), given))
    return _without_schedule(boxes)


def _without_schedule(boxes: list[Box]) -> list[Box]:
    """Merge the boxes that compute a schedule into one box at the end, to which no lines are drawn."""
    folded: set[int] = set()
    for number, box in enumerate(boxes):
        if box.stage == "update" and not box.scope and box.reads.keys() <= folded:
            folded.add(number)
    if not folded:
        return boxes
    kept = [number for number in range(len(boxes)) if number not in folded]
    place = {number: at for at, number in enumerate(kept)}
    found: list[Box] = []
    for number in kept:
        reads = {place[read]: tensors for read, tensors in boxes[number].reads.items() if read in place}
        found.append(replace(boxes[number], reads=reads))
    schedule = [boxes[number] for number in sorted(folded)]
    ops, given = ([x for box in schedule for x in getattr(box, name)] for name in ("ops", "given"))
    return [*found, Box(SCHEDULE, "update", ops, {}, given)]


def _laid_out(boxes: list[Box], top: int) -> list[Box]:
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


def _as_one(by_layer: Sequence[Box], numbered: Sequence[Box]) -> list[Box]:
    """Return boxes by layer, merged by scope and stage."""
    place: dict[tuple[int, str, str], int] = {}
    for box in by_layer:
        place.setdefault((box.layer, box.scope, box.stage), len(place))
    one: list[Box] = []
    for box in by_layer:
        reads: dict[int, set[str]] = {}
        for i, tensors in box.reads.items():
            read = numbered[i]
            reads.setdefault(place[read.layer, read.scope, read.stage], set()).update(tensors)
        at = place[box.layer, box.scope, box.stage]
        if at == len(one):
            one.append(Box(box.scope, box.stage, box.ops, dict(sorted(reads.items())), box.given, box.layer))
        else:
            before = one[at].reads
            both = {i: before.get(i, set()) | reads.get(i, set()) for i in sorted({*before, *reads})}
            given = [*one[at].given, *box.given]
            one[at] = replace(one[at], ops=[*one[at].ops, *box.ops], reads=both, given=given)
    return one
