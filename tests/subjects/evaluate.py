"""A function of Values computed on arrays, and its gradient: short words for tests about single operators."""

from collections.abc import Callable
from typing import Any

import numpy as np
from oracles.interpret import interpret

import runtime.engines.reference.kernels  # noqa: F401 - fills KERNELS
from compiler.train.backward import gradients
from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS
from registry import Block, Value

Function = Callable[..., Any]


def evaluate(function: Function, *arrays: np.ndarray) -> Any:
    """Return the results of the function's ops: an array, or a list of arrays for several Values."""
    block, values = block_of(arrays)
    return computed(block, function(*values), arrays)


def gradient(function: Function, *arrays: np.ndarray) -> list[np.ndarray | None]:
    """The gradient of the sum of the function's result for each array; None where none flows."""
    block, values = block_of(arrays)
    floats = [value for value in values if value.dtype in FLOATS]
    grads = dict(zip(map(id, floats), gradients(function(*values), floats), strict=True))
    return computed(block, [grads.get(id(value)) for value in values], arrays)


def ops_of(function: Function, *arrays: np.ndarray, differentiate: bool = False) -> list[str]:
    """The types of the ops that the function appends, or of those that its gradient does."""
    block, values = block_of(arrays)
    result = function(*values)
    first = len(block.desc.ops) if differentiate else 0
    if differentiate:
        gradients(result, values)
    return [desc.type for desc in block.desc.ops[first:]]


def block_of(arrays: tuple[np.ndarray, ...]) -> tuple[Block, list[Value]]:
    """An empty block and tensors like the arrays."""
    block = Block()
    return block, [block.define(f"x{i}", TensorType(x.dtype.name, x.shape)) for i, x in enumerate(arrays)]


def computed(block: Block, result: Any, arrays: tuple[np.ndarray, ...]) -> Any:
    known = interpret(block.desc, {f"x{i}": array for i, array in enumerate(arrays)}, bodies=block.bodies)
    if isinstance(result, Value):
        return known[result.name]
    return [None if value is None else known[value.name] for value in result]
