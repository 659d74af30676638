"""tests/golden/v1.pb: a file of format version 1 that every later prograd reads to the same text."""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from prograd_proto import attributes, files
from prograd_proto import program_pb2 as pb
from prograd_proto.tensor_types import TensorType, shape_message, tensor_desc
from prograd_proto.text import from_text, to_text

V1 = Path(__file__).parents[1] / "golden" / "v1.pb"

Golden = Callable[[str, str | bytes], None]


def test_the_golden_program_is_still_written_as_the_golden_file(golden: Golden, tmp_path: Path):
    files.save(golden_program(), tmp_path / "v1.pb")
    golden("v1.pb", (tmp_path / "v1.pb").read_bytes())


def test_the_golden_file_loads_to_its_text(golden: Golden):
    golden("v1.txt", to_text(files.load(V1)))


def test_the_golden_text_parses_to_the_golden_file():
    text = V1.with_suffix(".txt").read_text(encoding="utf-8")
    assert files.canonical_bytes(from_text(text)) + files.END == V1.read_bytes()


def test_golden_files_have_every_field_of_the_schema():
    used: set[tuple[str, str]] = set()
    for path in (V1, *(V1.parent / "compiled").glob("*.pb")):  # a field that was added later has a file of its own
        used |= set(fields_used(pb.ProgramDesc.FromString(path.read_bytes())))
    assert used == {(m.name, f.name) for m in pb.DESCRIPTOR.message_types_by_name.values() for f in m.fields}


def test_the_golden_file_has_every_enumerator_of_the_schema():
    used = set(enumerators_used(pb.ProgramDesc.FromString(V1.read_bytes())))
    chosen_once = ("Bfloat16Order", "DataFormat", "Direction", "Remainder")  # one value in a whole program
    enums = [e for name, e in pb.DESCRIPTOR.enum_types_by_name.items() if name not in chosen_once]
    assert used >= {(e.name, v.number) for e in enums for v in e.values if v.number}


def fields_used(message: Message) -> Iterator[tuple[str, str]]:
    for field, value in message.ListFields():
        yield message.DESCRIPTOR.name, field.name
        for part in parts(value):
            yield from fields_used(part)


def enumerators_used(message: Message) -> Iterator[tuple[str, int]]:
    for field, value in message.ListFields():
        if field.enum_type is not None:
            yield field.enum_type.name, value
        for part in parts(value):
            yield from enumerators_used(part)


def parts(value: Any) -> list[Message]:
    if isinstance(value, Message):
        return [value]
    return [part for part in value if isinstance(part, Message)] if hasattr(value, "append") else []


def test_the_schema_has_no_map_fields():
    def nested(message: Descriptor) -> list[str]:
        return [inner.full_name for inner in message.nested_types]

    assert [name for m in pb.DESCRIPTOR.message_types_by_name.values() for name in nested(m)] == []


def golden_program() -> pb.ProgramDesc:
    """One of everything; it need not make sense as a training."""
    program = pb.ProgramDesc(format_version=1, producer="prograd 0.1.0", name="golden", seed=42)
    for type in ("add", "conditional", "dropout", "everything", "glorot", "matmul", "matmul_gradient", "sgd"):
        program.operators.add(type=type, version=1)
    program.files.add(path="digits.safetensors", bytes=115200, sha256=bytes(range(32)))
    program.files.add(path='odd "name"\n.npz', bytes=0)
    add_data_and_run(program)
    add_states(program)
    program.blocks.extend([train_block("batch"), train_block(32), branch_block()])
    entry = program.entries.add(name="train", source_block=0)
    entry.bindings.add(block=1, dims=[pb.SymbolSize(symbol="batch", size=32)], plan=plan())
    program.entries.add(name="predict", source_block=2).bindings.add(block=2)
    program.locations.extend(["train.py:12", "train.py:31", "train.py:32", "models/my net.py:7", "train.py:31"])
    return program


def add_data_and_run(program: pb.ProgramDesc) -> None:
    data = program.data
    data.file, data.shuffle = "digits.safetensors", True
    data.format, data.remainder = pb.DATA_FORMAT_SAFETENSORS, pb.REMAINDER_DROP
    data.columns.add(feed="x", key="images")
    data.columns.add(feed="label", key="labels")
    data.splits.add(name="train", key="train_rows")
    data.splits.add(name="test", rows=pb.RowRange(start=2, stop=1797, stride=3))
    run = program.run
    run.entry, run.epochs, run.split, run.stop_after = "train", 20, "train", 5
    run.evaluate.entry, run.evaluate.split, run.evaluate.every = "evaluate", "test", 1
    run.keep_best.metric, run.keep_best.direction = "accuracy", pb.DIRECTION_MAX


def add_states(program: pb.ProgramDesc) -> None:
    always = pb.LIFESPAN_ALWAYS
    w = state("w", "float32", (784, 10), pb.STATE_KIND_PARAMETER, always)
    w.trainable, w.rate_scale, w.decay_scale = True, 1.0, 0.5
    w.op.CopyFrom(pb.OpDesc(id=1, type="glorot", outputs=["w"], random_stream=1, location=1))
    w.op.attributes.append(attributes.attribute_message("shape", "shape", (784, 10)))
    velocity = state("w/velocity", "float32", (784, 10), pb.STATE_KIND_SLOT, always)
    velocity.slot_of, velocity.slot = "w", "velocity"
    velocity.external.path, velocity.external.key = "digits.safetensors", "velocity"
    step = state("step", "int64", (), pb.STATE_KIND_COUNTER, always)
    correct = state("correct rows", "float64", (1,), pb.STATE_KIND_BUFFER, pb.LIFESPAN_EPOCH)
    program.states.extend([w, velocity, step, correct])


def state(name: str, dtype: str, shape: tuple[int, ...], kind: Any, lifespan: Any) -> pb.StateDesc:
    desc = tensor_desc(name, TensorType(dtype, shape))
    return pb.StateDesc(name=name, dtype=desc.dtype, shape=desc.shape, kind=kind, lifespan=lifespan)


def train_block(batch: int | str) -> pb.BlockDesc:
    """x @ w, its gradient and an update."""
    block = pb.BlockDesc()
    block.parameters.add(tensor="x", feed="x")
    block.parameters.add(tensor="w", state="w")
    block.ops.extend([forward(), everything(), backward(), update()])
    block.updates.add(state="w", tensor="w_new")
    block.fetches.add(name="loss", tensor="y", over=pb.OVER_MEAN)
    block.fetches.add(name="last", tensor="y", over=pb.OVER_LAST)
    block.fetches.add(name="count", tensor="y", over=pb.OVER_SUM)
    types = {
        "x": TensorType("float32", (batch, 784)),
        "w": TensorType("float32", (784, 10)),
        "y": TensorType("float32", (batch, 10)),
        "mask": TensorType("bool", ()),
        "d_x": TensorType("float32", (batch, 784)),
        "d_w": TensorType("float32", (784, 10)),
        "w_new": TensorType("float32", (784, 10)),
        "unused": TensorType("int32", (batch, "width") if batch == "batch" else (batch, 0)),
    }
    block.tensors.extend(tensor_desc(name, type) for name, type in types.items())
    block.tensors[4].gradient_of = "x"
    block.tensors[5].gradient_of = "w"
    spans = (pb.LIFESPAN_ITERATION, pb.LIFESPAN_FORWARD, pb.LIFESPAN_BACKWARD)
    for tensor, lifespan in zip(block.tensors[2:5], spans, strict=True):
        tensor.lifespan = lifespan
    if batch == 32:  # another order than that of the definitions
        first = pb.TensorDesc.FromString(block.tensors[0].SerializeToString())
        del block.tensors[0]
        block.tensors.append(first)
    return block


def forward() -> pb.OpDesc:
    op = pb.OpDesc(id=1, type="matmul", inputs=["x", "w", ""], outputs=["y"], stage=pb.STAGE_FORWARD, location=2)
    op.attributes.append(attributes.attribute_message("transpose_a", "bool", False))
    op.attributes.append(attributes.attribute_message("transpose_b", "bool", True))
    return op


def everything() -> pb.OpDesc:
    """Every kind of attribute, and the values that are easily lost."""
    op = pb.OpDesc(id=2, type="everything", outputs=["mask"], stage=pb.STAGE_FORWARD, location=4, random_stream=7)
    values: dict[str, tuple[str, Any]] = {
        "int": ("int", -(2**63)),
        "float": ("float", 1e-5),
        "negative_zero": ("float", -0.0),
        "infinity": ("float", float("-inf")),
        "nan": ("float", float("nan")),
        "string": ("string", 'a "quote", a\nnewline, ünïcode'),
        "dtype": ("dtype", "float64"),
        "scalar": ("shape", ()),
        "shape": ("shape", ("batch", 8, 8, 1)),
        "ints": ("ints", (1, 2, 3)),
        "no_ints": ("ints", ()),
        "floats": ("floats", (0.1, 2.0)),
        "no_floats": ("floats", ()),
        "strings": ("strings", ("a", "")),
        "no_strings": ("strings", ()),
        "tensor": ("tensor", small("float32", (2, 2), "4f", 0.1, 1.0, -0.0, float("inf"))),
        "rank_0": ("tensor", small("bool", (), "?", True)),
        "codes": ("tensor", small("uint8", (2,), "2B", 0, 255)),
        "half": ("tensor", small("float16", (3,), "3e", 0.1, -0.0, 65504.0)),
        "brain": ("tensor", small("bfloat16", (2,), "2H", 0x3DCD, 0xFF80)),
        "large": ("tensor", small("int32", (20,), "20i", *range(20))),
    }
    op.attributes.extend(attributes.attribute_message(name, kind, value) for name, (kind, value) in values.items())
    op.attributes.add(name="none")
    return op


def small(dtype: str, shape: tuple[int, ...], code: str, *values: float) -> pb.SmallTensor:
    number = tensor_desc("", TensorType(dtype, ())).dtype
    return pb.SmallTensor(dtype=number, shape=shape, data=struct.pack("<" + code, *values))


def backward() -> pb.OpDesc:
    return pb.OpDesc(
        id=3,
        type="matmul_gradient",
        inputs=["x", "w", "y"],
        outputs=["d_x", "d_w"],
        stage=pb.STAGE_GRADIENT,
        gradient_of=1,
        recompute_of=1,
        location=2,
    )


def update() -> pb.OpDesc:
    return pb.OpDesc(id=4, type="sgd", inputs=["w", "d_w"], outputs=["w_new"], stage=pb.STAGE_UPDATE, location=5)


def branch_block() -> pb.BlockDesc:
    """A block with an argument and a result, which an op of its own runs in turn."""
    block = pb.BlockDesc(results=["z"], tensors=[pb.TensorDesc(name="a", dtype=pb.D_TYPE_FLOAT64)])
    block.parameters.add(tensor="a", argument=0)
    block.ops.add(id=1, type="conditional", outputs=["z"], blocks=[1, 2], stage=pb.STAGE_DERIVATIVE)
    block.tensors.add(name="z", dtype=pb.D_TYPE_INT64, shape=shape_message(("rows", 1)))
    return block


def plan() -> pb.MemoryPlan:
    return pb.MemoryPlan(arena_bytes=8192, lower_bound=8192, optimal=True, file_bytes=4096)
