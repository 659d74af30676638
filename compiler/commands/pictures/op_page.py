"""The ops of an entry as a page: scopes that can be opened and closed, and the operands of each op.

Colours distinguish stages. The name of an operand links to the op that defines it; for a state or a feed, the page
names it instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from compiler.analyses.op_scopes import op_scopes
from compiler.commands.ops_in_words import line_of, op_in_words, stage_in_words
from compiler.commands.pictures.marks import STAGE_COLOURS, safe
from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from prograd_proto.blocks.walk import inside
from prograd_proto.text import block_owners
from prograd_proto.text.words import name, tensor

MAX_SCOPE_DEPTH: Final = 16
"""Upper bound on the depth of scopes; further dots stay in the name of the innermost."""

MAX_OPEN_OPS: Final = 40
"""Upper bound on the ops of a block whose scopes are all open at first."""

STYLE: Final = """
:root { color-scheme: light dark; }
body { margin: 24px auto; max-width: 1100px; padding: 0 16px; font: 14px system-ui, sans-serif; }
h1 { font-size: 18px; }
h2 { font-size: 16px; margin-top: 28px; }
details { margin: 3px 0 3px 14px; padding-left: 8px; border-left: 1px solid #8a939e66; }
summary { cursor: pointer; margin-left: -8px; }
summary span, .from { color: #6b7480; }
ol { list-style: none; margin: 2px 0; padding: 0 0 0 14px; }
li { margin: 2px 0; padding: 1px 8px; border-left: 5px solid; overflow-wrap: anywhere; }
li:target { outline: 2px solid #d0342c; }
a { color: inherit; text-decoration-color: #8a939e; }
.key { border-left: 5px solid; padding: 0 14px 0 6px; }
"""


def op_page(title: str, program: pb.ProgramDesc, block: pb.BlockDesc) -> str:
    """Return the page, with the blocks inside ops of control flow below."""
    colours = "".join(f".{stage} {{ border-color: {colour}; }}\n" for stage, colour in STAGE_COLOURS.items())
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{safe(title)}</title>\n'
        f"<style>{STYLE}{colours}</style>\n<h1>{safe(title)}</h1>\n{_key(block)}\n"
        + "\n".join(_blocks(program, block))
        + "\n</html>\n"
    )


@dataclass
class _Scope:
    """A scope with its ops and the scopes within it, in order."""

    parts: list[int | str] = field(default_factory=list[int | str])  # ops by position, and scopes by name
    within: dict[str, _Scope] = field(default_factory=dict[str, "_Scope"])
    stages: Counter[str] = field(default_factory=Counter[str])


def _key(block: pb.BlockDesc) -> str:
    count = Counter(map(stage_in_words, block.ops))
    keys = (f'<span class="key {stage}">{stage} {count[stage]}</span>' for stage in STAGE_COLOURS if count[stage])
    return f"<p>{''.join(keys)}</p>"


def _blocks(program: pb.ProgramDesc, block: pb.BlockDesc) -> Iterator[str]:
    yield from _block(program, block, "")
    numbers, owners = [number for op in block.ops for number in op.blocks], block_owners(program)
    for number in inside(program, numbers):
        yield f'<h2 id="b{number}">block {number}: {safe(owners[number])}</h2>'
        yield from _block(program, program.blocks[number], f"b{number}-")


def _block(program: pb.ProgramDesc, block: pb.BlockDesc, mark: str) -> Iterator[str]:
    root = _Scope()
    for i, scope in enumerate(op_scopes(program, block)):
        here, stage = root, stage_in_words(block.ops[i])
        for part in scope.split(".", MAX_SCOPE_DEPTH - 1) if scope else []:
            if part not in here.within:
                here.within[part] = _Scope()
                here.parts.append(part)
            here = here.within[part]
            here.stages[stage] += 1
        here.parts.append(i)
    yield from _scope(root, _Ops(program, block, mark))


def _scope(scope: _Scope, ops: _Ops) -> Iterator[str]:
    listed = False
    for part in scope.parts:
        if listed != isinstance(part, int):
            listed = not listed
            yield "<ol>" if listed else "</ol>"
        if isinstance(part, int):
            yield ops.line(part)
        else:
            inner = scope.within[part]
            counts = ", ".join(f"{inner.stages[stage]} {stage}" for stage in STAGE_COLOURS if inner.stages[stage])
            yield f"<details{' open' if len(ops.block.ops) <= MAX_OPEN_OPS else ''}>"
            yield f"<summary><b>{safe(name(part))}</b> <span>{counts}</span></summary>"
            yield from _scope(inner, ops)
            yield "</details>"
    if listed:
        yield "</ol>"


class _Ops:
    """The ops of a block as lines."""

    def __init__(self, program: pb.ProgramDesc, block: pb.BlockDesc, mark: str) -> None:
        self.block = block
        self._program = program
        self._mark = mark
        self._types = {t.name: str(type_of(t)) for t in block.tensors}
        self._makers = {output: op.id for op in block.ops for output in op.outputs if output}
        self._outside = {
            p.tensor: "fed" if p.HasField("feed") else "state" if p.HasField("state") else "argument"
            for p in block.parameters
        }

    def line(self, position: int) -> str:
        op = self.block.ops[position]
        made = ", ".join(safe(f"{tensor(o)}: {self._types.get(o, '')}") for o in op.outputs if o)
        read = f" reads {', '.join(map(self._read, op.inputs))}" if op.inputs else ""
        blocks = "".join(f' <a href="#b{number}">block {number}</a>' for number in op.blocks)
        place = line_of(self._program, op)
        return (
            f'<li id="{self._mark}{op.id}" class="{stage_in_words(op)}">{safe(op_in_words(op))} gives {made}{read}'
            f"{blocks}{f' <span class=from>{safe(place)}</span>' if place else ''}</li>"
        )

    def _read(self, name: str) -> str:
        if name in self._makers:
            return f'<a href="#{self._mark}{self._makers[name]}">{safe(tensor(name))}</a>'
        source = self._outside.get(name, "")
        return f"{safe(tensor(name))}{f' ({source})' if source else ''}"
