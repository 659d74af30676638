"""Random ONNX graphs with symbols beside ONNX Runtime: PYTHONPATH=tests python -m fuzz.onnx_graphs --count 3000.

Each seed draws a graph of a few nodes over inputs [n, t, 6] whose extents n and t are symbols: arithmetic, reductions,
products, gathers, and shapes that the graph computes of its sizes, also by quotients, minima and comparisons. ONNX
Runtime runs it for several sizes. The import may refuse it in a sentence; what it imports has to agree on both engines.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

import prograd
from compiler import CompileError
from fuzz import campaign
from fuzz.campaign import Trial
from fuzz.judging import raised
from fuzz.verdict import Verdict

SIZES = ((5, 7), (40, 3), (1, 12), (150, 2))
"""Sizes of n and t."""

WIDTH = 6
"""The extent that is a number."""


class Graph:
    """A graph under construction: its nodes, its stored tensors, and the names of its values.

    Attributes:
        data: names of float tensors [n, t, 6].
        whole: names of int64 vectors with one element that depend on sizes.
    """

    def __init__(self, seed: int) -> None:
        self.helper: Any = import_module("onnx.helper")
        self.rng = np.random.default_rng((seed, 40))
        self.nodes: list[Any] = []
        self.stored: dict[str, Any] = {}
        self.data = ["x", "z"]
        self.whole = [self.size("x", 0), self.size("x", 1)]

    def add(self, operator: str, *reads: str, **attributes: Any) -> str:
        """Append a node; return the name of its first result."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(operator, list(reads), [name], **attributes))
        return name

    def keep(self, array: Any, dtype: Any = np.int64) -> str:
        """Store a tensor; return its name."""
        name = f"c{len(self.stored)}"
        self.stored[name] = np.asarray(array, dtype)
        return name

    def size(self, name: str, axis: int) -> str:
        return self.add("Shape", name, start=axis, end=axis + 1)

    def any(self, names: list[str]) -> str:
        return names[int(self.rng.integers(len(names)))]

    def int(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))


def pointwise(g: Graph) -> None:
    name = g.any(["Tanh", "Sigmoid", "Relu", "Neg", "Abs", "Softplus", "Exp"])
    x = g.any(g.data)
    g.data.append(g.add(name, g.add("Tanh", x) if name == "Exp" else x))


def arithmetic(g: Graph) -> None:
    other = g.any([g.any(g.data), g.keep(g.rng.standard_normal(WIDTH), np.float32)])
    g.data.append(g.add(g.any(["Add", "Sub", "Mul", "Max", "Min"]), g.any(g.data), other))


def reduction(g: Graph) -> None:
    axes = g.keep([g.int(-3, 3)])
    y = g.add(g.any(["ReduceMean", "ReduceMax", "ReduceSum", "ReduceL2"]), g.any(g.data), axes, keepdims=1)
    g.data.append(g.add("Sub", g.any(g.data), y))


def product(g: Graph) -> None:
    weight = g.keep(g.rng.standard_normal((WIDTH, WIDTH)) / 3, np.float32)
    g.data.append(g.add("MatMul", g.any(g.data), weight))


def attended(g: Graph) -> None:
    a, b = g.any(g.data), g.any(g.data)
    scores = g.add("MatMul", a, g.add("Transpose", b, perm=[0, 2, 1]))
    root = g.add("Sqrt", g.add("Cast", g.any(g.whole), to=1))
    g.data.append(g.add("MatMul", g.add("Softmax", g.add("Div", scores, root), axis=-1), b))


def whole(g: Graph) -> None:
    """Append a number that depends on sizes."""
    name = g.any(["Add", "Mul", "Div", "Max", "Min", "Mod", "Sub"])
    other = g.any([g.keep([g.int(1, 130)]), g.any(g.whole)])
    g.whole.append(g.add("Max", g.add(name, g.any(g.whole), other), g.keep([1])))


def scaled(g: Graph) -> None:
    """Append data that a number of sizes moves."""
    number = g.add("Cast", g.any(g.whole), to=1)
    y = g.add(g.any(["Add", "Div"]), g.any(g.data), number)
    g.data.append(g.add("Tanh", y))


def compared(g: Graph) -> None:
    """Append data that a comparison of sizes chooses."""
    condition = g.add(g.any(["Less", "Equal", "Greater"]), g.any(g.whole), g.keep([g.int(1, 60)]))
    g.data.append(g.add("Where", condition, g.any(g.data), g.any(g.data)))


def reshaped(g: Graph) -> None:
    """Append data in another shape and back, by extents that the graph computes."""
    x = g.any(g.data)
    n, t = g.size(x, 0), g.size(x, 1)
    w = g.keep([WIDTH])
    flat = g.any([g.add("Mul", n, t), g.keep([-1])])
    y = g.add("Reshape", x, g.add("Concat", flat, w, axis=0))
    y = g.add(g.any(["Softmax", "LogSoftmax"]), y, axis=g.int(-1, 2))
    g.data.append(g.add("Reshape", y, g.add("Concat", n, t, w, axis=0)))


def expanded(g: Graph) -> None:
    x = g.any(g.data)
    first = g.add("Slice", x, g.keep([0]), g.keep([1]), g.keep([g.int(0, 3)]))
    y = g.add("Expand", first, g.add("Shape", x))
    g.data.append(g.add("Add", x, y))


def positions(g: Graph) -> None:
    """Append data with a range over an axis added."""
    axis = g.int(0, 2)
    x, zero = g.any(g.data), g.keep(0)
    steps = g.add("Range", zero, g.add("Squeeze", g.size(x, axis)), g.keep(1))
    column = g.add("Unsqueeze", g.add("Cast", steps, to=1), g.keep([1, 2] if axis == 0 else [0, 2]))
    g.data.append(g.add("Add", x, g.add("Sin", column)))


def gathered(g: Graph) -> None:
    """Append data with a row counted from the front or from the end."""
    axis = g.int(0, 3)
    row = g.add("Gather", g.any(g.data), g.keep([g.int(-1, 1)]), axis=axis)
    g.data.append(g.add("Mul", g.any(g.data), row))


def cut(g: Graph) -> None:
    """Append data whose last column is in front, with a last row added."""
    x = g.any(g.data)
    last = g.add("Slice", x, g.keep([-1]), g.keep([2**62]), g.keep([2]))
    rest = g.add("Slice", x, g.keep([0]), g.keep([-1]), g.keep([2]))
    row = g.add("Slice", x, g.keep([-1]), g.keep([2**62]), g.keep([g.int(0, 2)]))
    g.data.append(g.add("Add", row, g.add("Concat", last, rest, axis=2)))


def filled(g: Graph) -> None:
    x = g.any(g.data)
    ones = g.add("ConstantOfShape", g.add("Shape", x))
    g.data.append(g.add("Add", x, g.add("CumSum", g.add("Add", ones, g.keep(0.5, np.float32)), g.keep(g.int(-3, 3)))))


def swapped(g: Graph) -> None:
    x = g.add("Transpose", g.any(g.data), perm=[1, 0, 2])
    y = g.add("LayerNormalization", x, g.keep(g.rng.standard_normal(WIDTH), np.float32), axis=-1)
    g.data.append(g.add("Transpose", y, perm=[1, 0, 2]))


STEPS: list[Callable[[Graph], None]] = [
    pointwise, arithmetic, reduction, product, attended, whole, whole, scaled, compared, reshaped, expanded, positions,
    gathered, cut, filled, swapped,
]  # fmt: skip


def drawn(seed: int) -> Any:
    """Return the model of a seed."""
    g = Graph(seed)
    for _ in range(g.int(3, 10)):
        STEPS[g.int(0, len(STEPS))](g)
    g.nodes.append(g.helper.make_node("Add", [g.data[-1], g.add("Mul", "x", "z")], ["y"]))
    numpy_helper: Any = import_module("onnx.numpy_helper")
    inputs = [g.helper.make_tensor_value_info(name, 1, ["n", "t", WIDTH]) for name in ("x", "z")]
    output = g.helper.make_tensor_value_info("y", 1, None)
    stored = [numpy_helper.from_array(array, name) for name, array in g.stored.items()]
    graph = g.helper.make_graph(g.nodes, "drawn", inputs, [output], stored)
    return g.helper.make_model(graph, opset_imports=[g.helper.make_opsetid("", 18)], ir_version=9)


def judged(seed: int, engines: tuple[str, ...] = ("reference", "native")) -> str:
    """Return `agrees`, why the graph is refused or left out, or how it differs."""
    model = drawn(seed)
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    try:
        program = prograd.from_onnx(model)
    except CompileError as error:
        return f"refused: {str(error).split(': ')[-1][:90]}"
    agreed = 0
    for n, t in SIZES:
        rng = np.random.default_rng((seed, n))
        feeds = {name: rng.standard_normal((n, t, WIDTH)).astype(np.float32) for name in ("x", "z")}
        try:
            wanted = session.run(None, feeds)[0]
        except Exception:  # a shape that does not fit these sizes
            continue
        compiled = program.compile(n=n, t=t)
        for engine in engines:
            found = prograd.Run(compiled, engine=engine).step(feeds, entry="predict")["y"]  # type: ignore[arg-type]
            if found.shape != wanted.shape or not np.allclose(found, wanted, rtol=1e-3, atol=1e-3, equal_nan=True):
                return f"DIFFERS for n={n}, t={t} on {engine}"
        agreed += 1
    return "agrees" if agreed else "left out"


def tried(seed: int) -> Trial:
    """Judge one graph; a crash is a fault of its own."""
    trial = Trial(seed)
    warnings.simplefilter("ignore")
    try:
        end = judged(seed)
    except Exception as error:
        trial.note([raised("import", error)])
        return trial
    if end.startswith("DIFFERS"):
        trial.note([Verdict("differs", "ONNX Runtime", "y", end)])
    else:
        trial.counts[end] += 1
    return trial


if __name__ == "__main__":
    campaign.run_uncached(tried, __doc__ or "")
