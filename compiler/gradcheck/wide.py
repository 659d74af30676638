"""A program whose step gives losses and gradients, in its own dtypes or in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attribute_message
from prograd_proto.dtypes import NAMES, NUMBERS
from prograd_proto.files import copy_of
from prograd_proto.tensor_types import shape_of
from registry import OPS

ENTRY: Final = "gradients"
KEPT: Final = "gradcheck.loss"
"""A state that the entry updates, so that it keeps its training form."""

NARROW: Final = tuple(NUMBERS[name] for name in ("float32", "float16", "bfloat16"))


def with_fetches(program: pb.ProgramDesc, entry: str, fetched: Sequence[str], loss: str) -> pb.ProgramDesc:
    """Return a program of one entry, which gives tensors of another program's entry and updates no parameter."""
    made = copy_of(program)
    [own] = [each for each in made.entries if each.name == entry]
    block = made.blocks[own.source_block]
    del block.updates[:], block.fetches[:]
    for i, name in enumerate(fetched):
        block.fetches.add(name=f"t{i}", tensor=name, over=pb.OVER_LAST)
    dtype = next(tensor.dtype for tensor in block.tensors if tensor.name == loss)
    for state in made.states:
        state.trainable = False  # of a block that updates none
        if state.WhichOneof("initial") == "external":
            _zeros(state)  # its value comes from the run
    kept = made.states.add(name=KEPT, dtype=dtype, kind=pb.STATE_KIND_BUFFER, rate_scale=1, decay_scale=1,
                           lifespan=pb.LIFESPAN_ALWAYS)  # fmt: skip
    kept.shape.SetInParent()
    _zeros(kept)
    block.updates.add(state=KEPT, tensor=loss)
    own.name = ENTRY
    del own.bindings[:]
    others = [each for each in made.entries if each.name != ENTRY]
    for each in others:
        made.entries.remove(each)
    made.ClearField("data")
    made.ClearField("run")
    del made.files[:]
    return made


def in_float64(program: pb.ProgramDesc) -> pb.ProgramDesc:
    """Return a program whose floats are all float64; its states begin with zeros, and get their values from a run."""
    wide = NUMBERS["float64"]
    made = copy_of(program)
    for block in made.blocks:
        for tensor in block.tensors:
            tensor.dtype = wide if tensor.dtype in NARROW else tensor.dtype
        _keep_random_numbers(block)
        for op in block.ops:
            if not _draws_floats(op):
                _widen(op)
    for state in made.states:
        if state.dtype in NARROW or state.WhichOneof("initial") == "external":
            state.dtype = wide if state.dtype in NARROW else state.dtype
            _zeros(state)
    return made


def _draws_floats(op: pb.OpDesc) -> bool:
    """Return True for an op whose random numbers depend on its dtype."""
    declared = OPS.get(op.type)
    return declared is not None and declared.random and any(a.dtype_value in NARROW for a in op.attributes)


def _keep_random_numbers(block: pb.BlockDesc) -> None:
    """Let ops draw in their own dtype, and cast what they draw."""
    ops, number = list(block.ops), max((op.id for op in block.ops), default=0)
    del block.ops[:]
    for op in ops:
        block.ops.append(op)
        if not _draws_floats(op):
            continue
        [name] = op.outputs
        narrow = block.tensors.add()
        narrow.CopyFrom(next(tensor for tensor in block.tensors if tensor.name == name))
        narrow.name = block.ops[-1].outputs[0] = f"{name} as drawn"
        narrow.dtype = next(a.dtype_value for a in op.attributes if a.dtype_value)
        number += 1
        cast = block.ops.add(id=number, type="cast", inputs=[narrow.name], outputs=[name], stage=op.stage)
        cast.attributes.append(attribute_message("dtype", "dtype", "float64"))


def _widen(op: pb.OpDesc) -> None:
    import numpy as np

    for attribute in op.attributes:
        if attribute.dtype_value in NARROW:
            attribute.dtype_value = NUMBERS["float64"]
        if attribute.HasField("tensor_value") and NAMES[attribute.tensor_value.dtype] == "float32":
            small = attribute.tensor_value
            array = np.frombuffer(small.data, "<f4").astype("<f8")
            small.dtype, small.data = NUMBERS["float64"], array.tobytes()


def _zeros(state: pb.StateDesc) -> None:
    """Let a state begin with zeros."""
    state.ClearField("op")
    state.ClearField("external")
    op = state.op
    op.id, op.type, op.stage = 1, "full", pb.STAGE_FORWARD
    op.outputs.append(state.name)
    given = (("shape", "shape", shape_of(state.shape)), ("value", "float", 0.0), ("dtype", "dtype", NAMES[state.dtype]))
    op.attributes.extend(attribute_message(*each) for each in given)
