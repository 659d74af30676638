"""Changes to a program as a message: every kind of field, references, grafts, plans; and as bytes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from mutations import NUMBERS, WIDE, change, changed_bytes, copied, messages, names, one_op_changed

from hostile.programs import parsed, programs
from prograd_proto import program_pb2 as pb

STRINGS = (
    "a\nOK state_sha256=dead",
    "train state_sha256=dead",
    "\x1b[2J\x1b]0;owned\x07",
    "\u202egnp.exe\u2066",
    "\u200b\ufeff\u00ad",
    "\x9b31m\x85\u2028",
    "a\0b",
    "<script>alert(1)</script>\"'&]]>",
    "=cmd|' /C calc'!A1",
    "../../../etc/passwd",
    "/etc/passwd",
    "rows.safetensors/../x",
    "%s%n{0}{a.b}",
    "größe 大 😀",
    "𐀀" * 300,
    "x" * 5000,
    "",
    " ",
    ":",
    "run:best:w",
    "__metadata__",
    "acme.swish",
)
"""Names that are dangerous to print, to open as files, to format or to compare."""


def mutated(rng: random.Random) -> bytes:
    """A program file made from a good one by a few changes."""
    single, training, networks = programs()
    kind = rng.random()
    if kind < 0.35:
        return one_op_changed(rng)
    raw = rng.choice(single if kind < 0.8 else training[:1] if kind < 0.95 else training if kind < 0.99 else networks)
    if rng.random() < 0.12:
        return changed_bytes(rng, raw)
    program = parsed(raw)
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3, 6))):
        rng.choices(CHANGES, WEIGHTS)[0](rng, program)
    return program.SerializeToString(deterministic=True)


def say_something_hostile(rng: random.Random, program: pb.ProgramDesc) -> None:
    """Put a hostile string where a string is, or in place of a name everywhere, so that it still refers."""
    found = [(m, f) for m in messages(program) for f in m.DESCRIPTOR.fields if f.type == FieldDescriptor.TYPE_STRING]
    message, field = rng.choice(found)
    value = rng.choice(STRINGS)
    if rng.random() < 0.4:
        old = rng.choice(names(program) or [""])
        for other, others in found:
            _rename(other, others, old, value)
    elif hasattr(getattr(message, field.name), "append"):
        getattr(message, field.name).append(value)
    else:
        setattr(message, field.name, value)


def _rename(message: Message, field: FieldDescriptor, old: str, new: str) -> None:
    value = getattr(message, field.name)
    if isinstance(value, str):
        if value == old:
            setattr(message, field.name, new)
    else:
        value[:] = [new if word == old else word for word in value]


def refer_elsewhere(rng: random.Random, program: pb.ProgramDesc) -> None:
    """Let a reference name another thing that exists."""
    found = [(m, f) for m in messages(program) for f, v in m.ListFields() if f.type == FieldDescriptor.TYPE_STRING]
    message, field = rng.choice(found)
    value = getattr(message, field.name)
    other = rng.choice(names(program) or [""])
    if isinstance(value, str):
        setattr(message, field.name, other)
    else:
        value[rng.randrange(len(value))] = other


def exchange(rng: random.Random, program: pb.ProgramDesc) -> None:
    """Two messages of one kind change places."""
    a = rng.choice(list(messages(program)))
    others = [m for m in messages(program) if m.DESCRIPTOR is a.DESCRIPTOR and m is not a]
    if others and a is not program:
        b = rng.choice(others)
        first, second = copied(a), copied(b)
        if not _is_within(a, b) and not _is_within(b, a):
            a.CopyFrom(second)
            b.CopyFrom(first)


def _is_within(inner: Message, outer: Message) -> bool:
    return any(m is inner for m in messages(outer))


def graft(rng: random.Random, program: pb.ProgramDesc) -> None:
    """A part of another program takes the place of one of its kind."""
    donor = parsed(rng.choice(rng.choice(programs()[:2])))
    here = rng.choice([m for m in messages(program) if m is not program] or [program])
    parts = [m for m in messages(donor) if m.DESCRIPTOR is here.DESCRIPTOR]
    if parts and here is not program:
        here.CopyFrom(copied(rng.choice(parts)))


def take_out(rng: random.Random, program: pb.ProgramDesc) -> None:
    """A field, or an item of a list, is gone."""
    found = [
        (m, f) for m in messages(program) for f, _ in m.ListFields() if f.name not in ("complete", "format_version")
    ]
    message, field = rng.choice(found)
    value = getattr(message, field.name)
    if hasattr(value, "append") and rng.random() < 0.8:
        del value[rng.randrange(len(value))]
    else:
        message.ClearField(field.name)


def number(rng: random.Random, program: pb.ProgramDesc) -> None:
    """A number becomes another one, mostly extreme or next to what it was."""
    kinds = (FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_UINT32)
    found = [(m, f) for m in messages(program) for f in m.DESCRIPTOR.fields if f.type in kinds]
    found = [(m, f) for m, f in found if f.name != "format_version"]
    message, field = rng.choice(found)
    unsigned = field.type == FieldDescriptor.TYPE_UINT32
    value: Any = getattr(message, field.name)
    made = rng.choice(NUMBERS + (((1 << 32) - 1,) if unsigned else WIDE))
    if hasattr(value, "append"):
        value[:] = [*value, made] if rng.random() < 0.5 or not value else [made, *value[1:]]
        return
    near = value + rng.choice((-1, 1))
    setattr(message, field.name, near if rng.random() < 0.4 and 0 <= near < 1 << 31 else made)


def replan(rng: random.Random, program: pb.ProgramDesc) -> None:
    """A plan that is impossible, wastes, or is of another block."""
    plans = [b.plan for e in program.entries for b in e.bindings if b.HasField("plan")]
    if not plans:
        return
    plan = rng.choice(plans)
    match rng.randrange(4):
        case 0:
            plan.arena_bytes = rng.choice((0, 64, plan.arena_bytes - 64, plan.arena_bytes + 64, 1 << 40, -1))
        case 1:
            plan.lower_bound = rng.choice((0, 1, plan.arena_bytes + 1, -64, 1 << 62))
        case 2:
            plan.file_bytes = rng.choice((0, 4096, 1 << 40))
        case _:
            plan.CopyFrom(copied(rng.choice(plans)))


CHANGES: tuple[Callable[[random.Random, pb.ProgramDesc], None], ...] = (
    change,
    say_something_hostile,
    refer_elsewhere,
    exchange,
    graft,
    take_out,
    number,
    replan,
)
WEIGHTS = (6, 3, 3, 2, 3, 3, 4, 1)
