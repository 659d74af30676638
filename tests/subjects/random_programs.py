"""Hypothesis strategies for programs: any message the schema can represent, and such as compilers write."""

from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import strategies as st

from prograd_proto import program_pb2 as pb

POOL = ("x", "w", "y", "layer/0.w", "batch", "", "_", "nan", "true", "float32", "train.py:31", "ints")
NAMES = (
    st.sampled_from(POOL) | st.text(max_size=6) | st.sampled_from(['"', "\n", "\\n", "%x", "\u2028", "é", "😀", "\0"])
)
SMALL = st.integers(0, 4)


def numbers(bits: int, *, signed: bool) -> st.SearchStrategy[int]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return SMALL | st.sampled_from([low, high]) | st.integers(low, high)


VALUES: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=8),
    FieldDescriptor.TYPE_DOUBLE: st.sampled_from([0.0, -0.0, 1.0, 1e16, 5e-324]) | st.floats(),
    FieldDescriptor.TYPE_ENUM: SMALL | numbers(32, signed=True),
    FieldDescriptor.TYPE_INT64: numbers(64, signed=True),
    FieldDescriptor.TYPE_STRING: NAMES,
    FieldDescriptor.TYPE_UINT32: numbers(32, signed=False),
}


@st.composite
def messages(draw: st.DrawFn, descriptor: Descriptor) -> Any:
    """Any message of a type: each field present or not, lists of up to three, no regard to sense."""
    message = getattr(pb, descriptor.name)()
    mask = draw(st.integers(0, 2 ** len(descriptor.fields) - 1))
    for i, field in enumerate(descriptor.fields):
        if mask >> i & 1:
            put(draw, message, field)
    return message


def put(draw: st.DrawFn, message: Any, field: FieldDescriptor) -> None:
    if field.message_type is None:
        if is_list(message, field):
            getattr(message, field.name).extend(draw(st.lists(VALUES[field.type], max_size=3)))
        else:
            setattr(message, field.name, draw(VALUES[field.type]))
    elif is_list(message, field):
        for _ in range(draw(st.integers(0, 3))):
            getattr(message, field.name).add().CopyFrom(draw(messages(field.message_type)))
    else:
        getattr(message, field.name).CopyFrom(draw(messages(field.message_type)))


def is_list(message: Any, field: FieldDescriptor) -> bool:
    return hasattr(getattr(message, field.name), "append")


def odd_programs() -> st.SearchStrategy[pb.ProgramDesc]:
    """Whatever can be represented, the end mark included."""
    return messages(pb.ProgramDesc.DESCRIPTOR)


@st.composite
def programs(draw: st.DrawFn) -> pb.ProgramDesc:
    """A chain of ops whose tensors are defined once, as a compiler writes it, perhaps in another order."""
    program = pb.ProgramDesc(format_version=1, name=draw(NAMES), seed=draw(SMALL))
    block = program.blocks.add()
    known = [define(draw, block, "x")]
    block.parameters.add(tensor="x", feed="x")
    for id in range(1, draw(st.integers(1, 6)) + 1):
        op = block.ops.add(id=id, type=draw(st.sampled_from(("add", "relu"))), stage=draw(st.integers(1, 4)))
        op.inputs.extend(draw(st.lists(st.sampled_from([*known, ""]), max_size=3)))
        op.attributes.extend(draw(st.lists(messages(pb.AttrDesc.DESCRIPTOR), max_size=2)))
        op.outputs.append(define(draw, block, f"t{id}"))
        known.append(op.outputs[0])
        program.locations.append(f"train.py:{id}")
        op.location = id
    program.operators.extend(pb.OperatorVersion(type=t, version=1) for t in sorted({op.type for op in block.ops}))
    if draw(st.booleans()):
        reorder = draw(st.permutations(list(block.tensors)))
        block.tensors.sort(key=lambda desc: [d.name for d in reorder].index(desc.name))
    return program


def define(draw: st.DrawFn, block: pb.BlockDesc, name: str) -> str:
    desc = block.tensors.add(name=name, dtype=draw(st.integers(1, 6)))
    desc.shape.SetInParent()
    for extent in draw(st.lists(st.sampled_from([1, 3, "batch"]), max_size=3)):
        desc.shape.dims.add(**({"symbol": extent} if isinstance(extent, str) else {"size": extent}))
    return name
