"""Random programs with much to simplify: neutral operands, ops done twice, copies, constants, odd elements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from compiler import Program, Value, ops
from prograd_proto import program_pb2 as pb

ODD = (0.0, -0.0, -0.0, 1.0, -1.0, np.nan, -np.nan, np.inf, -np.inf, 1e-42, 3e38, 0.1, -2.5)
DTYPES = ("float32", "float64", "int32", "int64", "uint8", "bool")
FLOATS = ("float32", "float64")
SHAPES = ((), (3,), (1, 3), (2, 3), (3, 2), (1, 2, 3), (2, 1))


def odd_network(seed: int, count: int = 40) -> Program:
    """`count` random ops on inputs and constants; every result that no other op reads is an output, and some others."""
    rng = np.random.default_rng(seed)
    program = Program("odd")
    values: list[Value] = []
    for dtype in DTYPES:
        for shape in ((2, 3), (1, 3)):
            values.append(program.input(f"{dtype}{len(shape)}{shape[0]}", dtype, shape))
    start = len(values)
    while len(values) < start + count:
        made = None
        while made is None:
            made = MAKERS[rng.integers(len(MAKERS))](program, rng, values)
        values.append(made)
    read = {name for op in program.block.desc.ops for name in op.inputs}
    kept = [v for v in values[start:] if v.name not in read or rng.random() < 0.2]
    program.outputs(**{f"y{i}": value for i, value in enumerate(kept)})
    return program


def odd_feeds(block: pb.BlockDesc, seed: int) -> dict[str, np.ndarray]:
    """Elements for every fed tensor of a bound block, odd ones among them."""
    rng = np.random.default_rng(seed)
    shapes = {tensor.name: tuple(dim.size for dim in tensor.shape.dims) for tensor in block.tensors}
    return {
        p.tensor: odd_array(rng, next(d for d in DTYPES if p.feed.startswith(d)), shapes[p.tensor])
        for p in block.parameters
    }


def odd_array(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype == "uint8":
        return rng.integers(0, 256, shape, dtype)
    if dtype in FLOATS:
        return np.where(rng.random(shape) < 0.8, rng.choice(ODD, shape), rng.normal(size=shape)).astype(dtype)
    return rng.integers(-5, 6, shape, dtype)


Maker = Callable[[Program, np.random.Generator, list[Value]], Value | None]


def some(rng: np.random.Generator, values: list[Value], *dtypes: str) -> Value:
    among = [value for value in values if not dtypes or value.dtype in dtypes]
    return among[rng.integers(len(among))]


def beside(rng: np.random.Generator, values: list[Value], x: Value) -> Value:
    """A value of the same dtype that broadcasts with x to small shapes."""
    among = [v for v in values if v.dtype == x.dtype and (v is x or fits(v.shape, x.shape))]
    return among[rng.integers(len(among))]


def fits(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        return int(np.prod(np.broadcast_shapes(a, b))) <= 36
    except ValueError:
        return False


def neutral(program: Program, rng: np.random.Generator, values: list[Value]) -> Value:
    x = some(rng, values, "float32", "float64", "int32", "int64", "uint8")
    number = rng.choice([0.0, -0.0, 1.0]) if x.dtype in FLOATS else float(rng.integers(0, 2))
    shape = x.shape if rng.random() < 0.3 else ()
    other = ops.full.on(program.block)(shape=shape, value=number, dtype=x.dtype) if rng.random() < 0.5 else number
    function = [ops.add, ops.sub, ops.mul, ops.div if x.dtype in FLOATS else ops.floor_div][rng.integers(4)]
    return function(x, other) if rng.random() < 0.6 else function(other, x)


def arithmetic(program: Program, rng: np.random.Generator, values: list[Value]) -> Value:
    x = some(rng, values, "float32", "float64", "int32", "int64", "uint8")
    function = [ops.add, ops.sub, ops.mul, ops.maximum, ops.minimum][rng.integers(5)]
    return function(x, beside(rng, values, x))


def compared(program: Program, rng: np.random.Generator, values: list[Value]) -> Value:
    x = some(rng, values)
    return [ops.equal, ops.less, ops.greater_equal][rng.integers(3)](x, beside(rng, values, x))


def of_truth(program: Program, rng: np.random.Generator, values: list[Value]) -> Value:
    x = some(rng, values, "bool")
    other = beside(rng, values, x) if rng.random() < 0.5 else float(rng.integers(0, 2))
    return [ops.logical_and, ops.logical_or, ops.logical_xor][rng.integers(3)](x, other)


def of_bits(program: Program, rng: np.random.Generator, values: list[Value]) -> Value:
    x = some(rng, values, "int32", "int64", "uint8")
    other = beside(rng, values, x) if rng.random() < 0.5 else float(rng.integers(0, 2))
    return [ops.bitwise_and, ops.bitwise_or, ops.bitwise_xor, ops.left_shift, ops.right_shift][rng.integers(5)](
        x, other
    )


def chosen(program: Program, rng: np.random.Generator, values: list[Value]) -> Value | None:
    x = some(rng, values)
    y, condition = beside(rng, values, x), some(rng, values, "bool")
    if rng.random() < 0.5:
        condition = ops.full.on(program.block)(shape=(), value=float(rng.integers(0, 2)), dtype="bool")
    wide = np.broadcast_shapes(x.shape, y.shape)
    return ops.where(condition, x, y) if fits(condition.shape, wide) else None


def of_one(program: Program, rng: np.random.Generator, values: list[Value]) -> Value:
    if rng.random() < 0.3:
        return ops.logical_not(some(rng, values, "bool"))
    x = some(rng, values, *FLOATS, "int32", "int64")
    more = [ops.floor, ops.ceil, ops.round, ops.trunc, ops.sqrt, ops.exp] if x.dtype in FLOATS else [ops.bitwise_not]
    functions = [ops.neg, ops.neg, ops.abs, ops.square, ops.identity, ops.stop_gradient, ops.clip, *more]
    return functions[rng.integers(len(functions))](x)


def cast(program: Program, rng: np.random.Generator, values: list[Value]) -> Value:
    x = some(rng, values)
    among = [d for d in DTYPES if x.dtype not in FLOATS or d in (*FLOATS, "bool")]  # floats may not fit integers
    return ops.cast(x, dtype=among[rng.integers(len(among))])  # type: ignore[arg-type]


def arranged(program: Program, rng: np.random.Generator, values: list[Value]) -> Value | None:
    x = some(rng, values)
    shape = SHAPES[rng.integers(len(SHAPES))]
    match rng.integers(6):
        case 0:
            return ops.reshape(x, shape=shape) if np.prod(shape) == np.prod(x.shape) else None
        case 1:
            return ops.transpose(x, axis=tuple(int(axis) for axis in rng.permutation(x.rank)))
        case 2:
            return ops.flip(x)
        case 3 if x.rank and 0 not in x.shape:
            axis = int(rng.integers(x.rank))
            places = slice(int(rng.integers(-3, 1)), None, int(rng.choice([-2, -1, 1, 2])))
            return x[(*(slice(None),) * axis, places)]
        case 4:
            fits_in = fits(x.shape, shape) and np.broadcast_shapes(x.shape, shape) == shape
            return ops.broadcast_to(x, shape=shape) if fits_in else None
        case 5 if x.rank and np.prod(x.shape) < 20:
            widths = rng.integers(0, 2, (2, x.rank))
            before, after = (tuple(map(int, side)) for side in widths * (rng.random() < 0.5))
            return ops.pad(x, before=before, after=after, value=float(rng.integers(0, 2)))
    return None


def joined(program: Program, rng: np.random.Generator, values: list[Value]) -> Value | None:
    x = some(rng, values)
    if not x.rank or np.prod(x.shape) > 20:
        return None
    if x.shape[0] == 0 or rng.random() < 0.3:
        return ops.concat(*[x] * int(rng.integers(1, 3)))
    pieces = ops.split(x, sizes=(1, int(x.shape[0]) - 1))
    return (
        ops.concat(*pieces) if rng.random() < 0.5 else ops.split(ops.concat(*pieces), sizes=(1, int(x.shape[0]) - 1))[1]
    )


def reduced(program: Program, rng: np.random.Generator, values: list[Value]) -> Value | None:
    x = some(rng, values)
    axes = tuple(axis for axis in range(x.rank) if x.shape[axis] == 1 or rng.random() < 0.2)
    if 0 in x.shape:
        return None
    functions = [ops.any, ops.all] if x.dtype == "bool" else [ops.sum, ops.max, ops.min, ops.prod]
    return functions[rng.integers(len(functions))](x, axis=axes, keepdims=bool(rng.random() < 0.5))


def again(program: Program, rng: np.random.Generator, values: list[Value]) -> Value | None:
    """An op that is there already, appended once more."""
    made = [op for op in program.block.desc.ops if op.type != "constant" and len(op.outputs) == 1]
    if not made:
        return None
    op = made[rng.integers(len(made))]
    [output] = op.outputs
    type = program.block.types[output]
    return program.block.append(op.type, op.inputs, [("", type)], op.attributes)[0]


def constants(program: Program, rng: np.random.Generator, values: list[Value]) -> Value:
    dtype = DTYPES[rng.integers(len(DTYPES))]
    if rng.random() < 0.3 and dtype != "bool":
        return ops.range.on(program.block)(stop=3.0, dtype=dtype)
    if rng.random() < 0.3:
        return ops.size.on(program.block)(shape=SHAPES[rng.integers(len(SHAPES))], dtype=dtype)
    number = float(rng.choice(ODD)) if dtype in FLOATS else float(rng.integers(0, 2))
    if abs(number) > 1e38:
        number = np.inf
    return program.constant(number, dtype=dtype)  # type: ignore[arg-type]


MAKERS: tuple[Maker, ...] = (
    neutral,
    neutral,
    neutral,
    arithmetic,
    compared,
    of_truth,
    of_bits,
    chosen,
    of_one,
    of_one,
    cast,
    arranged,
    arranged,
    joined,
    reduced,
    reduced,
    again,
    constants,
)
