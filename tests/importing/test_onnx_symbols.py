"""ONNX files with a symbol along every axis that may have one, beside ONNX's own evaluator."""

# pyright: basic
# onnx is imported by name and has no types here.

from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from compiler import CompileError
from prograd import DataError, Run, from_onnx

node = helper.make_node
DRAWN = np.random.default_rng(0)
X = DRAWN.standard_normal((32, 6)).astype(np.float32)
IMAGES = DRAWN.standard_normal((32, 2, 5, 5)).astype(np.float32)
FILTERS = DRAWN.standard_normal((3, 2, 3, 3)).astype(np.float32)
TABLE = DRAWN.standard_normal((12, 6)).astype(np.float32)
ONE, ZERO = np.array([1]), np.array([0])
SIZES = {"n": 32, "t": 8}


def model(nodes: list[Any], inputs: dict[str, list[Any]], feeds: dict[str, Any], stored: dict[str, Any]) -> Any:
    """Return a file whose results are y, and those of the last node."""
    numbers = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in feeds.items()}
    results = list(dict.fromkeys(["y", *nodes[-1].output]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, numbers[name], shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, 7 if name == "i" else 1, None) for name in results],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    imports = [helper.make_opsetid("", 19), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def length(name: str) -> list[Any]:
    """Return nodes that make t1, the extent of axis 1 of an input, as a vector."""
    return [node("Shape", [name], ["s"], start=1, end=2), node("Identity", ["s"], ["t1"])]


def at(*rows: Any) -> Any:
    return np.array(rows)


N6: list[Any] = ["n", 6]
PICTURE: list[Any] = ["n", 2, 5, 5]
CASES: dict[str, tuple[list[Any], dict[str, list[Any]], dict[str, Any], dict[str, Any]]] = {
    "elements from the end": (
        [node("GatherElements", ["x", "j"], ["y"], axis=0)],
        {"x": N6, "j": N6},
        {"x": X, "j": np.arange(-32, 160).reshape(32, 6) % 64 - 32},
        {},
    ),
    "rows of indices from the end": (
        [node("GatherND", ["x", "j"], ["y"])], {"x": N6, "j": [2, 2]}, {"x": X, "j": at([-1, -2], [0, 1])}, {}
    ),
    "scattered rows from the end": (
        [node("ScatterND", ["x", "j", "u"], ["y"])],
        {"x": N6, "j": [2, 1], "u": [2, 6]},
        {"x": X, "j": at([-1], [0]), "u": X[:2]},
        {},
    ),
    "the last row": ([node("Gather", ["x", "j"], ["y"], axis=0)], {"x": N6}, {"x": X}, {"j": np.array(-1)}),
    "the last rows": ([node("Gather", ["x", "j"], ["y"], axis=0)], {"x": N6}, {"x": X}, {"j": at(-1, 0, -32)}),
    "rows by data from the end": (
        [node("Gather", ["x", "j"], ["y"], axis=0)], {"x": N6, "j": [3]}, {"x": X, "j": at(-1, 0, -4)}, {}
    ),
    "a slice of the first row": (
        [node("Slice", ["x", "zero", "one", "zero"], ["y"])], {"x": N6}, {"x": X}, {"zero": ZERO, "one": ONE}
    ),
    "a slice of the last row": (
        [node("Slice", ["x", "last", "end", "zero"], ["y"])],
        {"x": N6}, {"x": X}, {"zero": ZERO, "last": at(-1), "end": at(2**62)},
    ),
    "a slice of the row before the last": (
        [node("Slice", ["x", "first", "last", "zero"], ["y"])],
        {"x": N6}, {"x": X}, {"zero": ZERO, "first": at(-2), "last": at(-1)},
    ),
    "the row by a size": (
        [node("Shape", ["x"], ["s"], end=1), node("Sub", ["s", "one"], ["k"]), node("Gather", ["x", "k"], ["y"])],
        {"x": N6}, {"x": X}, {"one": ONE},
    ),
    "split in equal parts": (
        [node("Split", ["x"], ["y", "b"], axis=1, num_outputs=2)], {"x": N6}, {"x": X}, {}
    ),
    "convolution of the same size": (
        [node("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER", strides=[2, 2])],
        {"x": PICTURE}, {"x": IMAGES}, {"w": FILTERS},
    ),
    "pool with positions": (
        [node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2], strides=[2, 2])], {"x": PICTURE}, {"x": IMAGES}, {}
    ),
    "dilated means": (
        [node("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], dilations=[2, 2])], {"x": PICTURE}, {"x": IMAGES}, {}
    ),
    "elements scattered along another axis": (
        [node("ScatterElements", ["x", "j", "u"], ["y"], axis=1)],
        {"x": N6}, {"x": X}, {"j": at([0, -2]), "u": np.ones((1, 2), np.float32)},
    ),
    "elements scattered along the symbol": (
        [node("ScatterElements", ["x", "j", "u"], ["y"], axis=0)],
        {"x": N6, "j": ["n", 3], "u": ["n", 3]},
        {"x": X, "j": np.stack([np.arange(-32, 0)] * 3, 1), "u": X[:, :3].copy()},
        {},
    ),
    "a part of a sequence": (
        [node("SplitToSequence", ["x", "k"], ["q"], axis=1), node("SequenceAt", ["q", "one"], ["y"])],
        {"x": N6}, {"x": X}, {"k": np.array(3), "one": np.array(1)},
    ),
    "features by data": (
        [node("ArrayFeatureExtractor", ["x", "j"], ["y"], domain="ai.onnx.ml")],
        {"x": N6, "j": ["n"]}, {"x": X, "j": np.arange(32) % 6}, {},
    ),
    "the last of equal maxima": (
        [node("ArgMax", ["x"], ["i"], axis=0, select_last_index=1), node("Cast", ["i"], ["y"], to=1)],
        {"x": N6}, {"x": np.sign(X)}, {},
    ),
    "rows reversed": (
        [node("ReverseSequence", ["x", "j"], ["y"], batch_axis=0, time_axis=1)],
        {"x": ["n", "t"], "j": ["n"]}, {"x": np.resize(X, (32, 8)), "j": np.arange(32) % 8 + 1}, {},
    ),
    "windows back to images": (
        [node("Col2Im", ["x", "size", "block"], ["y"])],
        {"x": ["n", 4, 9]}, {"x": np.resize(X, (32, 4, 9))}, {"size": at(4, 4), "block": at(2, 2)},
    ),
    "a table cut to the length": (
        [*length("x"), node("Slice", ["table", "zero", "t1", "zero"], ["p"]), node("Add", ["x", "p"], ["y"])],
        {"x": ["n", "t", 6]}, {"x": np.resize(X, (32, 8, 6))}, {"table": TABLE, "zero": ZERO},
    ),
    "positions of a table shorter than any trial": (
        [*length("x"), node("Slice", ["all", "zero", "t1", "zero"], ["p"]), node("Gather", ["table", "p"], ["e"]),
         node("Add", ["x", "e"], ["y"])],
        {"x": ["n", "t", 6]}, {"x": np.resize(X, (32, 8, 6))},
        {"table": TABLE, "zero": ZERO, "all": np.arange(12)},
    ),
    "a triangle of two sizes": (
        [*length("x"), node("Concat", ["t1", "t1"], ["tt"], axis=0), node("ConstantOfShape", ["tt"], ["o"]),
         node("Add", ["o", "w"], ["ones"]), node("Trilu", ["ones"], ["p"], upper=0), node("MatMul", ["p", "x"], ["y"])],
        {"x": ["n", "t", 6]}, {"x": np.resize(X, (32, 8, 6))}, {"w": np.array(1, np.float32)},
    ),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("case", CASES)
def test_operators_need_no_size_but_their_own(case: str, engine: Any):
    nodes, inputs, feeds, stored = CASES[case]
    file = model(nodes, inputs, feeds, stored)
    wanted: Any = ReferenceEvaluator(file).run(None, feeds)
    symbols = {each for shape in inputs.values() for each in shape if isinstance(each, str)}
    sizes: dict[str, Any] = {name: SIZES[name] for name in symbols}
    program = from_onnx(file).compile(**sizes)
    found = Run(program, engine=engine).step(feeds, entry="predict")
    for result, expected in zip(file.graph.output, wanted, strict=True):
        np.testing.assert_allclose(found[result.name], expected, rtol=1e-5, atol=1e-5)


def test_sizes_of_two_inputs_that_must_be_equal_are_one_symbol():
    file = model([node("Add", ["x", "z"], ["y"])], {"x": N6, "z": ["m", 6]}, {"x": X, "z": X}, {})
    program = from_onnx(file)
    assert program.notes_of_import == [
        "inputs have sizes of several names that nodes need to be equal: 'm' is 'n'; feeds of unequal sizes are refused"
    ]
    run = Run(program.compile(n=32))
    np.testing.assert_array_equal(run.step({"x": X, "z": X}, entry="predict")["y"], X + X)
    with pytest.raises(DataError):
        run.step({"x": X, "z": X[:1]}, entry="predict")


def test_symbols_that_no_node_needs_to_be_equal_stay_two():
    nodes = [node("ReduceSum", ["z"], ["s"], keepdims=0), node("Add", ["x", "s"], ["y"])]
    program = from_onnx(model(nodes, {"x": N6, "z": ["m", 6]}, {"x": X, "z": X}, {}))
    assert program.notes_of_import == []
    found = Run(program.compile(n=32, m=4)).step({"x": X, "z": X[:4]}, entry="predict")["y"]
    np.testing.assert_allclose(found, X + X[:4].sum(), rtol=1e-5)


def test_an_image_of_a_number_is_not_resized_to_a_symbol():
    nodes = [*length("z"), node("Concat", ["head", "t1"], ["size"], axis=0),
             node("Resize", ["x", "", "", "size"], ["y"], mode="linear")]  # fmt: skip
    file = model(nodes, {"x": [1, 1, 6], "z": ["n", "t"]}, {"x": X, "z": X}, {"head": at(1, 1)})
    with pytest.raises(CompileError, match="an axis with t elements must have a number here"):
        from_onnx(file)


def test_nodes_are_computed_behind_those_that_they_need():
    nodes = [
        node("Add", ["b", "x"], ["y"]),
        node("If", ["flag"], ["b"], then_branch=branch("Neg"), else_branch=branch("Abs")),
        node("Mul", ["x", "x"], ["a"]),
        node("Identity", ["y"], ["i"]),
    ]
    file = model(nodes, {"x": N6}, {"x": X}, {"flag": np.array(True)})
    del file.graph.output[1]
    found = Run(from_onnx(file).compile(n=32)).step({"x": X}, entry="predict")["y"]
    np.testing.assert_allclose(found, X - X * X, rtol=1e-5, atol=1e-6)


def branch(operator: str) -> Any:
    """Return a branch that reads `a` of the graph around it."""
    return helper.make_graph(
        [node(operator, ["a"], ["r"])], "branch", [], [helper.make_tensor_value_info("r", 1, None)]
    )


COARSE = {
    "rounded up": (
        [node("Add", ["s", "w"], ["a"]), node("Div", ["a", "w"], ["b"]), node("Mul", ["b", "w"], ["p"])], 128
    ),
    "scaled": ([node("Cast", ["s"], ["a"], to=1), node("Sqrt", ["a"], ["b"]), node("Reciprocal", ["b"], ["p"])], 1),
    "at most": ([node("Min", ["s", "w"], ["p"])], 512),
    "below": ([node("Less", ["s", "w"], ["p"])], 11),
    "beyond": ([node("Greater", ["s", "w"], ["p"])], 512),
    "far beyond": ([node("Greater", ["s", "w"], ["p"])], 5000),
    "more than one": ([node("Greater", ["s", "w"], ["p"])], 1),
    "equal": ([node("Equal", ["s", "w"], ["p"])], 64),
    "at least": ([node("Max", ["s", "w"], ["p"])], 2),
    "a remainder": (
        [node("Mod", ["s", "w"], ["a"]), node("Cast", ["a"], ["b"], to=9), node("Not", ["b"], ["p"])], 4
    ),
    "within": (
        [node("Less", ["s", "w"], ["a"]), node("Add", ["w", "w"], ["w2"]), node("Add", ["s", "w"], ["s2"]),
         node("Greater", ["s2", "w2"], ["b"]), node("Or", ["a", "b"], ["c"]), node("Not", ["c"], ["p"])], 64,
    ),
    "halved": (
        [node("Add", ["w", "w"], ["w2"]), node("Div", ["s", "w2"], ["a"]), node("Mul", ["a", "w2"], ["b"]),
         node("Sub", ["s", "b"], ["p"])], 1,
    ),
}  # fmt: skip


def of_size(nodes: list[Any], inputs: dict[str, Any], stored: dict[str, Any], last: str) -> Any:
    """Return a file that adds what it computes of the number of rows, p, to each element."""
    more = [node("Cast", ["p"], ["f"], to=1), node(last, ["x", "f"], ["y"])]
    return model([node("Shape", ["x"], ["s"], end=1), *nodes, *more], inputs, {"x": X}, stored)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("case", COARSE)
def test_a_function_of_a_size_that_is_no_factor_follows_it(case: str, engine: Any):
    nodes, step = COARSE[case]
    file = of_size(nodes, {"x": N6}, {"w": at(step)}, "Add")
    program = from_onnx(file)
    for rows in (1, 5, 64, 600, 5200):
        x = np.resize(X, (rows, 6))
        wanted: Any = ReferenceEvaluator(file).run(None, {"x": x})
        found = Run(program.compile(n=rows), engine=engine).step({"x": x}, entry="predict")["y"]
        np.testing.assert_allclose(found, wanted[0], rtol=1e-6)


def test_two_symbols_are_compared_for_the_sizes_of_the_run():
    nodes = [
        node("Shape", ["z"], ["t"], end=1), node("Add", ["t", "w"], ["a"]), node("Less", ["s", "a"], ["p"]),
    ]  # fmt: skip
    more = [
        node("Shape", ["x"], ["s"], end=1),
        *nodes,
        node("Cast", ["p"], ["f"], to=1),
        node("Add", ["x", "f"], ["y"]),
    ]
    file = model(more, {"x": N6, "z": ["t", 6]}, {"x": X, "z": X}, {"w": at(20)})
    program = from_onnx(file)
    for n, t in ((32, 5), (32, 64), (25, 5)):
        feeds = {"x": np.resize(X, (n, 6)), "z": np.resize(X, (t, 6))}
        wanted: Any = ReferenceEvaluator(file).run(None, feeds)
        found = Run(program.compile(n=n, t=t)).step({"x": feeds["x"]}, entry="predict")["y"]
        np.testing.assert_array_equal(found, wanted[0])


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_rows_of_merged_symbols_are_gathered_where_they_lie(engine: Any):
    """PyTorch indexes a mask [n, t] so: it is flattened, and read at the row times t plus the position."""
    nodes = [
        node("Reshape", ["z", "flat"], ["f"]), node("Neg", ["i"], ["j"]), node("Concat", ["i", "j"], ["k"], axis=1),
        node("Gather", ["f", "k"], ["y"], axis=0),
    ]  # fmt: skip
    file = model(nodes, {"z": ["n", "t", 6], "i": ["n", 3]}, {"z": X, "i": at(1)}, {"flat": np.array([-1, 6])})
    program, rng = from_onnx(file), np.random.default_rng(0)
    for n, t in ((32, 5), (1, 64)):
        feeds = {"z": rng.standard_normal((n, t, 6)).astype(np.float32), "i": rng.integers(0, n * t, (n, 3))}
        wanted: Any = ReferenceEvaluator(file).run(None, feeds)
        found = Run(program.compile(n=n, t=t), engine=engine).step(feeds, entry="predict")["y"]
        np.testing.assert_array_equal(found, wanted[0])


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_elements_are_gathered_along_axes_beside_merged_ones(engine: Any):
    """Relative positions of DeBERTa are read so, with batch and heads in one axis."""
    nodes = [
        node("Reshape", ["z", "flat"], ["f"]), node("Reshape", ["i", "three"], ["j"]),
        node("GatherElements", ["f", "j"], ["g"], axis=2), node("Shape", ["z"], ["s"]),
        node("Slice", ["s", "0", "1"], ["n"]), node("Concat", ["n", "rest"], ["t"], axis=0),
        node("Reshape", ["g", "t"], ["y"]),
    ]  # fmt: skip
    stored = {"flat": np.array([-1, 5, 6]), "three": np.array([-1, 5, 3]), "rest": np.array([4, 5, 3])}
    file = model(
        nodes, {"z": ["n", 4, 5, 6], "i": ["n", 4, 5, 3]}, {"z": X, "i": at(1)}, stored | {"0": at(0), "1": at(1)}
    )
    program, rng = from_onnx(file), np.random.default_rng(0)
    for n in (1, 32):
        feeds = {"z": rng.standard_normal((n, 4, 5, 6)).astype(np.float32), "i": rng.integers(-6, 6, (n, 4, 5, 3))}
        wanted: Any = ReferenceEvaluator(file).run(None, feeds)
        found = Run(program.compile(n=n), engine=engine).step(feeds, entry="predict")["y"]
        np.testing.assert_array_equal(found, wanted[0])


def test_products_of_sizes_in_narrow_integers_stay_extents():
    nodes = [
        node("Shape", ["x"], ["s"]), node("Cast", ["s"], ["a"], to=6), node("ReduceProd", ["a"], ["b"], keepdims=1),
        node("Reshape", ["x", "b"], ["f"]), node("Neg", ["f"], ["g"]), node("Reshape", ["g", "s"], ["h"]),
        node("Less", ["b", "w"], ["p"]), node("Where", ["p", "h", "x"], ["y"]),
    ]  # fmt: skip
    program = from_onnx(model(nodes, {"x": ["n", "t"]}, {"x": X}, {"w": np.array([5000], np.int32)}))
    for n, t, sign in ((32, 64, -1), (100, 90, 1)):
        x = np.ones((n, t), np.float32)
        found = Run(program.compile(n=n, t=t)).step({"x": x}, entry="predict")["y"]
        np.testing.assert_array_equal(found, sign * x)


def test_an_exporters_expansion_of_a_shape_stays_known():
    """PyTorch writes expand so: the elements of the shape that are -1 become 1."""
    nodes = [
        node("Shape", ["x"], ["s"]), node("Shape", ["s"], ["r"]),
        node("ConstantOfShape", ["r"], ["ones"], value=helper.make_tensor("v", 7, [1], [1])),
        node("Mul", ["ones", "minus"], ["m"]), node("Equal", ["s", "m"], ["e"]),
        node("Where", ["e", "ones", "s"], ["t"]), node("Expand", ["row", "t"], ["y0"]), node("Add", ["x", "y0"], ["y"]),
    ]  # fmt: skip
    file = model(nodes, {"x": N6}, {"x": X}, {"minus": at(-1), "row": X[:1]})
    program = from_onnx(file)
    assert program["y"].shape == ("n", 6)
    assert [op.type for op in program.block.desc.ops] == ["add", "identity"]


SQUEEZED = [
    node("Shape", ["x"], ["s"], end=1), node("Equal", ["s", "one"], ["c"]), node("Squeeze", ["c"], ["d"]),
]  # fmt: skip


@pytest.mark.parametrize("then", ["Neg", "Squeeze"])
def test_a_branch_for_a_size_of_1_runs_or_is_left_out_in_words(then: str):
    more = helper.make_node("If", ["d"], ["y"], then_branch=named("then", then), else_branch=named("else", "Exp"))
    program = from_onnx(model([*SQUEEZED, more], {"x": N6}, {"x": X}, {"zero": at(0), "one": at(1)}))
    left = [note for note in program.notes_of_import if "is left out" in note]
    wanted = (
        "the branch of the If 'y' for a size of 1 is left out, as its results have another shape; "
        "bind n by dims= or --dim where such a size is 1"
    )
    assert left == ([] if then == "Neg" else [wanted])
    np.testing.assert_allclose(Run(program.compile(n=32)).step({"x": X}, entry="predict")["y"], np.exp(X), rtol=1e-6)
    if then == "Neg":
        found = Run(program.compile(n=1)).step({"x": X[:1]}, entry="predict")["y"]
        np.testing.assert_array_equal(found, -X[:1])


def named(name: str, operator: str) -> Any:
    """Return a branch that reads x."""
    reads = ["x", "zero"] if operator == "Squeeze" else ["x"]
    result = helper.make_tensor_value_info(name, 1, None)
    return helper.make_graph([node(operator, reads, [name])], name, [], [result])


def test_a_squeeze_of_all_axes_says_which_it_keeps():
    program = from_onnx(model([node("Squeeze", ["x"], ["y"])], {"x": ["n", 1, 6]}, {"x": X}, {}))
    assert program["y"].shape == ("n", 6)
    assert program.notes_of_import == [
        "the Squeeze 'y' keeps the axes with n elements; bind these by dims= or --dim where they are 1"
    ]


def test_branches_of_other_shapes_that_a_size_chooses_are_refused():
    nodes = [node("Shape", ["x"], ["s"], end=1), node("Less", ["s", "w"], ["c"]), node("Squeeze", ["c"], ["d"])]
    more = helper.make_node("If", ["d"], ["y"], then_branch=named("then", "Size"), else_branch=named("else", "Exp"))
    with pytest.raises(CompileError, match="its condition depends on the symbols n, so bind them to numbers"):
        from_onnx(model([*nodes, more], {"x": N6}, {"x": X}, {"w": at(50)}))


def test_a_shape_that_is_level_for_small_sizes_is_refused():
    nodes, step = COARSE["rounded up"]
    tail = [*nodes, node("Concat", ["p", "six"], ["q"], axis=0), node("ConstantOfShape", ["q"], ["o"])]
    file = model(
        [node("Shape", ["x"], ["s"], end=1), *tail, node("Concat", ["x", "o"], ["y"], axis=0)],
        {"x": N6}, {"x": X}, {"w": at(step), "six": at(6)},
    )  # fmt: skip
    with pytest.raises(CompileError, match="a size is no product of a number and the symbols n; bind them to numbers"):
        from_onnx(file)
    assert from_onnx(file, {"x": (200, 6)})["y"].shape == (456, 6)


def test_a_range_that_begins_at_a_size_is_refused():
    nodes = [
        node("Squeeze", ["s"], ["n0"]), node("Add", ["n0", "n0"], ["n2"]), node("Range", ["n0", "n2", "one"], ["r"]),
        node("Unsqueeze", ["r", "one"], ["p"]),
    ]  # fmt: skip
    file = of_size(nodes, {"x": N6}, {"one": np.array(1)}, "Add")
    with pytest.raises(CompileError, match="a number depends on the symbols n; bind them to numbers"):
        from_onnx(file)


def test_a_symbol_of_an_input_that_nothing_reads_may_be_bound():
    nodes = [node("Shape", ["x"], ["s"], start=0, end=1), node("Cast", ["s"], ["y"], to=1)]
    program = from_onnx(model(nodes, {"x": ["n", "t"]}, {"x": X}, {}))
    assert program.symbols == ["n", "t"]
    assert Run(program.compile(n=32, t=6)).step({}, entry="predict")["y"] == 32
