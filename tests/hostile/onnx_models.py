"""Hostile ONNX files: small good models, changed at random, and models that are small and ask for much."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from mutations import NUMBERS, WIDE, changed_bytes, copied, messages
from onnx import TensorProto, helper, numpy_helper

from hostile.messages import STRINGS

FLOAT: Final = TensorProto.FLOAT
AXES: Final = (33, 64, 100, 333, 1000)
"""Numbers of axes that no tensor may have."""


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any], **arrays: Any) -> Any:
    """Return a model of nodes, with arrays as initial values."""
    weights = [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def value(name: str, *shape: Any, type: int = FLOAT) -> Any:
    """Return the description of a tensor."""
    return helper.make_tensor_value_info(name, type, shape)


node = helper.make_node


@cache
def good_models() -> tuple[bytes, ...]:
    """Return small models of many kinds, as files."""
    weights = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    kernel = np.ones((3, 2, 3, 3), np.float32)
    dense = model(
        [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "b"], ["a"]), node("Relu", ["a"], ["y"])],
        [value("x", "batch", 8)], [value("y", "batch", 4)], w=weights, b=weights[0],
    )  # fmt: skip
    pictures = model(
        [
            node("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1], strides=[1, 1]),
            node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
            node("Pad", ["p", "pads"], ["q"]),
            node("Resize", ["q", "", "", "sizes"], ["r"], mode="nearest"),
            node("Flatten", ["r"], ["y"]),
        ],
        [value("x", 1, 2, 8, 8)], [value("y", 1, 300)], k=kernel, pads=np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        sizes=np.array([1, 3, 10, 10]),
    )  # fmt: skip
    shapes = model(
        [
            node("Shape", ["x"], ["s"]),
            node("Gather", ["s", "i"], ["n"]),
            node("Concat", ["n", "n"], ["t"], axis=0),
            node("Expand", ["one", "t"], ["e"]),
            node("Tile", ["e", "two"], ["f"]),
            node("ReduceSum", ["f"], ["y"], keepdims=0),
        ],
        [value("x", 4, 8)], [value("y")], i=np.array([0]), one=np.ones((1, 1), np.float32), two=np.array([2, 2]),
    )  # fmt: skip
    recurrent = model(
        [node("LSTM", ["x", "w", "r"], ["y"], hidden_size=4)],
        [value("x", 5, 1, 3)], [value("y", 5, 1, 1, 4)], w=np.ones((1, 16, 3), np.float32),
        r=np.ones((1, 16, 4), np.float32),
    )  # fmt: skip
    return tuple(made.SerializeToString() for made in (dense, pictures, shapes, recurrent, looped(3), branched()))


def looped(trips: int, inner: int | None = None) -> Any:
    """Return a model with a loop of a number of trips, and another loop inside if `inner` has a number."""
    body_nodes = [node("Identity", ["c"], ["d"])]
    arrays: dict[str, Any] = {"n": np.array(trips), "yes": np.array(True)}
    if inner is None:
        body_nodes.append(node("Tanh", ["h"], ["k"]))
    else:
        arrays["m"] = np.array(inner)
        deep = helper.make_graph(
            [node("Identity", ["cc"], ["dd"]), node("Tanh", ["hh"], ["kk"])], "deep",
            [value("ii", type=TensorProto.INT64), value("cc", type=TensorProto.BOOL), value("hh", 4)],
            [value("dd", type=TensorProto.BOOL), value("kk", 4)],
        )  # fmt: skip
        body_nodes.append(node("Loop", ["m", "yes", "h"], ["k"], body=deep))
    body = helper.make_graph(
        body_nodes, "body", [value("i", type=TensorProto.INT64), value("c", type=TensorProto.BOOL), value("h", 4)],
        [value("d", type=TensorProto.BOOL), value("k", 4)],
    )  # fmt: skip
    return model([node("Loop", ["n", "yes", "x"], ["y"], body=body)], [value("x", 4)], [value("y", 4)], **arrays)


def branched() -> Any:
    """Return a model with two branches."""
    then = helper.make_graph([node("Exp", ["x"], ["a"])], "then", [], [value("a", 4)])
    other = helper.make_graph([node("Neg", ["x"], ["b"])], "other", [], [value("b", 4)])
    nodes = [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Greater", ["s", "zero"], ["p"]),
        node("If", ["p"], ["y"], then_branch=then, else_branch=other),
    ]
    return model(nodes, [value("x", 4)], [value("y", 4)], zero=np.float32(0))


def doubled(rng: random.Random) -> Any:
    """Return a constant that is joined with itself again and again."""
    count = rng.choice((10, 20, 30, 40, 60))
    nodes = [node("Concat", [f"c{i}", f"c{i}"], [f"c{i + 1}"], axis=0) for i in range(count)]
    nodes.append(node("ReduceSum", [f"c{count}"], ["s"], keepdims=0))
    return model([*nodes, node("Add", ["x", "s"], ["y"])], [value("x", 1)], [value("y", 1)], c0=np.ones(4, np.float32))


def expanded(rng: random.Random) -> Any:
    """Return a constant of an enormous shape, made by one of several operators."""
    shape = np.array(rng.choice(((1 << 31, 4), (1 << 20, 1 << 20), (1 << 62,), (1 << 16, 1 << 12), (-1, 5))))
    made = {
        "Expand": node("Expand", ["one", "shape"], ["e"]),
        "ConstantOfShape": node("ConstantOfShape", ["shape"], ["e"]),
        "Tile": node("Tile", ["one", "shape"], ["e"]),
        "Range": node("Range", ["zero", "far", "one"], ["e"]),
        "Reshape": node("Reshape", ["one", "shape"], ["e"]),
        "Pad": node("Pad", ["one", "shape"], ["e"]),
        "OneHot": node("OneHot", ["i", "far", "two"], ["e"]),
    }
    nodes = [made[rng.choice(sorted(made))], node("ReduceMax", ["e"], ["s"], keepdims=0)]
    return model(
        [*nodes, node("Add", ["x", "s"], ["y"])], [value("x", 1)], [value("y", 1)], shape=shape,
        one=np.ones(1, np.float32), zero=np.float32(0), far=np.float32(1e9), i=np.array([1]),
        two=np.ones(2, np.float32),
    )  # fmt: skip


def with_many_axes(rng: random.Random) -> Any:
    """Return a model with tensors of more axes than any tensor may have."""
    axes = rng.choice(AXES)
    shape, order = [1] * axes, list(range(axes))[::-1]
    nodes = {
        "Reshape": [node("Reshape", ["x", "shape"], ["y"])],
        "Unsqueeze": [node("Unsqueeze", ["x", "axes"], ["y"])],
        "Transpose": [node("Reshape", ["x", "shape"], ["r"]), node("Transpose", ["r"], ["y"], perm=order)],
        "Expand": [node("Expand", ["x", "shape"], ["y"])],
        "input": [node("Tanh", ["wide"], ["y"])],
        "weight": [node("Mul", ["x", "w"], ["y"])],
        "ReduceSum": [node("ReduceSum", ["wide", "axes"], ["y"])],
    }
    name = rng.choice(sorted(nodes))
    inputs = [value("wide", *shape)] if name in ("input", "ReduceSum") else [value("x", 1)]
    arrays: dict[str, Any] = {"shape": np.array(shape), "axes": np.arange(axes - 1)}
    made = model(nodes[name], inputs, [value("y", *(shape if rng.random() < 0.5 else []))], **arrays)
    if name == "weight":
        made.graph.initializer.append(TensorProto(name="w", data_type=FLOAT, dims=shape, float_data=[1.0]))
    return made


def long(rng: random.Random) -> Any:
    """Return a chain of many nodes, or one node with many inputs or outputs."""
    count = rng.choice((1000, 10_000))
    kind = rng.randrange(3)
    if kind == 0:
        nodes = [node("Tanh", [f"t{i}" if i else "x"], [f"t{i + 1}"]) for i in range(count)]
        return model([*nodes, node("Neg", [f"t{count}"], ["y"])], [value("x", 4)], [value("y", 4)])
    if kind == 1:
        return model([node("Concat", ["x"] * count, ["y"], axis=0)], [value("x", 4)], [value("y", 4 * count)])
    outputs = [f"o{i}" for i in range(count)]
    return model([node("Split", ["x"], outputs, axis=0)], [value("x", count)], [value(o, 1) for o in outputs])


def nested(rng: random.Random) -> Any:
    """Return loops, of many trips or one in another."""
    return looped(rng.choice((1, 64, 1 << 40, -1)), rng.choice((None, 64, 1 << 20)))


BOMBS: Final[tuple[Callable[[random.Random], Any], ...]] = (doubled, expanded, with_many_axes, long, nested)


def hostile_model(rng: random.Random) -> bytes:
    """Return a file of ONNX that asks for much, or that is a good one changed by a few changes."""
    kind = rng.random()
    raw = rng.choice(BOMBS)(rng).SerializeToString() if kind < 0.35 else rng.choice(good_models())
    if kind < 0.2:
        return raw
    if kind > 0.9:
        return changed_bytes(rng, raw)
    made = onnx.ModelProto.FromString(raw)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        change(rng, made)
    return made.SerializeToString()


def change(rng: random.Random, whole: Any) -> None:
    """Change one field of one message anywhere in a model."""
    all_messages = list(messages(whole))
    message = rng.choice(all_messages)
    field = rng.choice(message.DESCRIPTOR.fields)
    if hasattr(getattr(message, field.name), "append"):
        _change_list(rng, all_messages, message, field)
    elif field.message_type is not None:
        twins = [m for m in all_messages if m.DESCRIPTOR is field.message_type]
        if twins and rng.random() < 0.7:
            getattr(message, field.name).CopyFrom(copied(rng.choice(twins)))
        else:
            message.ClearField(field.name)
    else:
        setattr(message, field.name, _scalar(rng, all_messages, field))


def _change_list(rng: random.Random, others: list[Message], message: Message, field: FieldDescriptor) -> None:
    values = getattr(message, field.name)
    match rng.randrange(4):
        case 0 if len(values):
            del values[rng.randrange(len(values))]
        case 1 if len(values):
            values.extend([copied(rng.choice(list(values)))] * rng.choice((1, 2, 1000)))
        case _ if field.message_type is None:
            values.extend([_scalar(rng, others, field)] * rng.choice((1, 1, 40)))
        case _:
            twins = [m for m in others if m.DESCRIPTOR is field.message_type]
            values.append(copied(rng.choice(twins)) if twins else values.add())


def _scalar(rng: random.Random, others: list[Message], field: FieldDescriptor) -> Any:
    match field.type:
        case FieldDescriptor.TYPE_STRING:
            found = [getattr(m, "name", "") for m in others]
            return rng.choice(found) if rng.random() < 0.6 else rng.choice(STRINGS)
        case FieldDescriptor.TYPE_BYTES:
            return rng.choice((b"", b"\x00" * 7, b"\xff" * 64, rng.choice(STRINGS).encode()))
        case FieldDescriptor.TYPE_FLOAT | FieldDescriptor.TYPE_DOUBLE:
            return rng.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
        case FieldDescriptor.TYPE_ENUM:
            return rng.choice(field.enum_type.values).number
        case FieldDescriptor.TYPE_UINT64 | FieldDescriptor.TYPE_UINT32:
            return rng.choice(NUMBERS)
        case FieldDescriptor.TYPE_INT32:
            return rng.choice((*NUMBERS, -1))
        case _:
            return rng.choice((*NUMBERS, *WIDE))
