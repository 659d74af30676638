"""Differences of two programs, in words: identity, states, data, the run, and each entry with its plan.

The user's lines, the numbers of blocks, and the order of tensor descriptions are not compared. For an entry, the blocks
that run are compared; if those are equal, the source blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from compiler.compare.block_differences import block_differences
from compiler.compare.field_differences import by_key, changed, field_differences
from prograd_proto import program_pb2 as pb
from prograd_proto.text.ops import op_line
from prograd_proto.text.tables import Definitions, Locations
from prograd_proto.text.values import type_of_tensor
from prograd_proto.text.words import name
from prograd_proto.text.writing import sizes


class Group(NamedTuple):
    """A part of the programs by name, and its differences."""

    title: str
    lines: list[str]


def differences(a: pb.ProgramDesc, b: pb.ProgramDesc) -> list[Group]:
    """Return the parts that differ."""
    parts = [
        Group("program", list(_program(a, b))),
        Group("states", list(by_key("state", a.states, b.states, lambda s: name(s.name), _state))),
        Group("data", list(_data(a, b))),
        Group("run", list(_run(a, b))),
    ]
    entries_a, entries_b = ({entry.name: entry for entry in program.entries} for program in (a, b))
    for key in dict.fromkeys([*entries_a, *entries_b]):
        lines = _entry(a, b, entries_a.get(key), entries_b.get(key))
        parts.append(Group(f"entry {name(key)}", list(lines)))
    return [part for part in parts if part.lines]


def _program(a: pb.ProgramDesc, b: pb.ProgramDesc) -> Iterator[str]:
    for field in ("format_version", "producer", "name", "seed"):
        yield from changed(f"{field.replace('_', ' ')}:", getattr(a, field), getattr(b, field))
    orders = ("pairs" if p.bfloat16_order == pb.BFLOAT16_ORDER_PAIRS else "tiles" for p in (a, b))
    yield from changed("order of products of bfloat16:", *orders)
    yield from by_key("text of the model", a.model, b.model, lambda t: name(t.key))
    yield from by_key("limits of", a.limits, b.limits, lambda each: name(each.symbol))
    yield from by_key("operator", a.operators, b.operators, lambda o: name(o.type))
    yield from by_key("file", a.files, b.files, lambda f: name(f.path))
    yield from changed("entries, in order:", *(", ".join(name(e.name) for e in p.entries) for p in (a, b)))


def _state(a: pb.StateDesc, b: pb.StateDesc) -> Iterator[str]:
    what = f"{name(a.name)}: "
    yield from changed(f"{what}type", type_of_tensor(a), type_of_tensor(b))
    yield from field_differences(what, a, b, skip=("dtype", "shape", "op", "external"))
    yield from changed(f"{what}initial value", _initial(a), _initial(b))
    yield from field_differences(f"{what}initial op: ", a.op, b.op, skip=("type", "inputs", "attributes", "location"))


def _initial(state: pb.StateDesc) -> str:
    match state.WhichOneof("initial"):
        case "op":
            bare = pb.OpDesc(type=state.op.type, inputs=state.op.inputs, attributes=state.op.attributes)
            return op_line(bare, Definitions(), Locations(pb.ProgramDesc())).removeprefix("() = ")
        case "external":
            return f"{name(state.external.key)} of {name(state.external.path)}"
        case _:
            return "none"


def _data(a: pb.ProgramDesc, b: pb.ProgramDesc) -> Iterator[str]:
    yield from changed("data:", *("some" if program.HasField("data") else "none" for program in (a, b)))
    yield from field_differences("", a.data, b.data, skip=("columns", "splits"))
    yield from by_key("column", a.data.columns, b.data.columns, lambda c: name(c.feed))
    yield from by_key("split", a.data.splits, b.data.splits, lambda s: name(s.name))


def _run(a: pb.ProgramDesc, b: pb.ProgramDesc) -> Iterator[str]:
    yield from changed("run:", *("some" if program.HasField("run") else "none" for program in (a, b)))
    yield from field_differences("", a.run, b.run)


def _entry(a: pb.ProgramDesc, b: pb.ProgramDesc, old: pb.EntryDesc | None, new: pb.EntryDesc | None) -> Iterator[str]:
    if old is None or new is None:
        yield "is gone" if new is None else "is new"
        return
    yield from changed("sizes:", _sizes(old), _sizes(new))
    running: list[str] = []
    for i, (before, after) in enumerate(zip(old.bindings, new.bindings, strict=False)):
        lines = [
            *block_differences(a.blocks[before.block], b.blocks[after.block], (a.blocks, b.blocks)),
            *_plan(before, after),
        ]
        running += [f"with {sizes(before)}: {line}" if i else line for line in lines if line not in running]
    yield from running
    if not running:
        built = block_differences(a.blocks[old.source_block], b.blocks[new.source_block], (a.blocks, b.blocks))
        yield from (f"as built: {line}" for line in built)


def _sizes(entry: pb.EntryDesc) -> str:
    return " and ".join(map(sizes, entry.bindings)) or "none"


def _plan(a: pb.Binding, b: pb.Binding) -> Iterator[str]:
    yield from changed("plan:", *("some" if binding.HasField("plan") else "none" for binding in (a, b)))
    yield from field_differences("plan: ", a.plan, b.plan)
