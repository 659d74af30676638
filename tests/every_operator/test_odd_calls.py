"""Calls with operands and attributes at random: an OpError refuses each, or ops are appended as kernels have them."""

import inspect
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from compiler import Program, Value, metrics
from prograd_proto import attributes_of, type_of
from prograd_proto import program_pb2 as pb
from registry import OPS, Op, OpError
from registry.table import SPELLED
from runtime.operators import CONTRACTS

CALLS = 100
"""Number of calls of each function; about one in ten of all calls is valid."""

SHAPES = [
    *((), (1,), (3,), (4,), (2, 3), (3, 3), (0, 3), (2, 4, 3), (2, 3, 8), (2, 2, 2, 2), (2, 4, 4, 3), (1, 1, 1, 1)),
    *((2, 4, 4, 4, 3), ("n", 3), ("n", 4, 4, 3)),
]
DTYPES = ["float32"] * 4 + ["int64", "int64", "bool", "float64", "uint8", "bfloat16"]
INTS = [(), (0,), (1,), (-1,), (5,), (3,), (0, 1), (0, 0), (2, 2), (-3, 1), (1, 1, 1), (2, 2, 2), (1, 2, 1, 2)]
WORDS = ["mean", "none", "sum", "set", "add", "NCHW", "NHWC", "linear", "cubic", "nearest", "ij,jk->ik", "ii", "?"]
ATTRIBUTES: dict[str, list[Any]] = {
    "bool": [False, True],
    "int": [0, 1, -1, 2, 3, -100, 10**6, 10**30],
    "float": [0.0, 1.0, -1.0, 0.5, 1e300, 10**30, 10**400, float("nan"), float("inf")],
    "str": WORDS,
    "DTypeName": ["float32", "float64", "int32", "int64", "bool", "uint8", "float16", "bfloat16"],
    "tuple[int, ...]": INTS,
    "Numbers": [*INTS, 0, 1, 2, -1],
    "Axis": [*INTS, 0, 1, 5, -1],
    "Ratio": [0.0, 0.5, 1.0, -1.0, float("nan")],
    "Shape": [*INTS, ("n", 3)],
    "tuple[int, int]": [(0, 1), (1, 1), (-1, 5), (-2, -1)],
    "int | None": [None, 0, 1, -1, 99],
    "tuple[float, ...]": [(), (1.0,), (float("nan"), 2.0)],
    "pb.SmallTensor": [pb.SmallTensor(), pb.SmallTensor(dtype=pb.D_TYPE_BOOL, data=b"\1")],
}

OF_METRICS = [metrics.accuracy, metrics.top_k_accuracy, metrics.confusion_matrix, metrics.f1, metrics.perplexity]
OF_METRICS += [metrics.auc, metrics.mean, metrics.root_mean_squared_error, metrics.r2]
EVERY = [*((name, op.declaration, op) for name, op in OPS.items()), *((name, f, f) for name, f in SPELLED.items())]
EVERY += [(f.__name__, f, f) for f in OF_METRICS]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("declared", "function"), [(d, f) for _, d, f in EVERY], ids=[name for name, _, _ in EVERY])
def test_a_call_is_appended_or_refused(declared: Callable[..., Any], function: Callable[..., Any]):
    rng = random.Random(declared.__name__)
    for _ in range(CALLS):
        program = Program()
        operands, attributes = arguments(inspect.signature(declared), program, rng)
        with suppress(OpError):
            call = function.on(program) if isinstance(function, Op) and not operands else function
            call(*operands, **attributes)
        require_files_keep_types(program.block.desc)


def require_files_keep_types(block: pb.BlockDesc):
    """The types of each op follow from what its file says, where all sizes are known."""
    types = {tensor.name: type_of(tensor) for tensor in block.tensors}
    for desc in block.ops:
        inputs = [types[name] if name else None for name in desc.inputs]
        outputs = [types[name] for name in desc.outputs]
        attributes = attributes_of(desc)
        shapes = [type.shape for type in (*inputs, *outputs) if type] + [attributes.get("shape", ())]
        if all(isinstance(extent, int) for shape in shapes for extent in shape):
            assert list(CONTRACTS[desc.type].rule.results(*inputs, **attributes)) == outputs


def arguments(signature: inspect.Signature, program: Program, rng: random.Random) -> tuple[list[Any], dict[str, Any]]:
    """Draw the arguments of a call: mostly default attributes, and sometimes an optional tensor."""
    operands: list[Any] = []
    given: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        kind = str(parameter.annotation)
        optional = parameter.default is not parameter.empty
        if parameter.kind is parameter.VAR_POSITIONAL:
            operands += [tensor(program, rng) for _ in range(rng.choice([0, 1, 2, 4, 4]))]
        elif optional and rng.random() < 0.6:
            continue
        elif "Value" in kind or "Operand" in kind:
            value = tensor(program, rng)
            if optional:
                given[name] = value
            else:
                operands.append(value)
        elif parameter.kind is parameter.KEYWORD_ONLY:
            given[name] = rng.choice(ATTRIBUTES.get(kind, WORDS))
        else:
            operands.append(rng.choice(WORDS))
    return operands, given


def tensor(program: Program, rng: random.Random) -> Value:
    name = f"x{len(program.block.desc.tensors)}"
    return program.input(name, rng.choice(DTYPES), rng.choice(SHAPES))
