"""Ops and sizes as text for views."""

from __future__ import annotations

from prograd_proto import program_pb2 as pb
from prograd_proto.text.words import STAGES, name, place


def op_in_words(op: pb.OpDesc) -> str:
    """Return an op as text, `op 7 conv2d`."""
    return f"op {op.id} {name(op.type)}"


def stage_in_words(op: pb.OpDesc) -> str:
    """Return the stage of an op, such as `forward`; an op without a stage is of the forward pass."""
    return STAGES.get(op.stage, "forward")


def line_of(program: pb.ProgramDesc, op: pb.OpDesc) -> str:
    """Return the user's line, `train.py:31`; "" if it is unknown."""
    return place(program.locations[op.location - 1]) if 0 < op.location <= len(program.locations) else ""


def size_in_words(nbytes: int) -> str:
    """Return a size with three digits, `1.81 MiB`."""
    size, unit = float(nbytes), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1000:
            break
        size, unit = size / 1024, larger
    return f"{nbytes} bytes" if unit == "bytes" else f"{size:#.3g} {unit}".replace(". ", " ")
