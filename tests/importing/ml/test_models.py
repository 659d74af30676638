"""Models and transformations of ai.onnx.ml beside ONNX's own evaluator, strings as codes, and parts of the results."""

# pyright: basic
# onnx is imported by name and has no types here.

from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from subjects.commands import told

from compiler import CompileError
from prograd import Program, Run, from_onnx

DRAWN = np.random.default_rng(0)
ROWS = 32
X = DRAWN.standard_normal((ROWS, 5)).astype(np.float32)
WORDS = ["ape", "bee", "cat"]


def file(nodes: list[Any], feeds: dict[str, Any], results: dict[str, int], stored: dict[str, Any] | None = None) -> Any:
    """Return a file with a symbol for the rows of all inputs."""
    inputs = [
        helper.make_tensor_value_info(
            name, 8 if array.dtype == object else helper.np_dtype_to_tensor_dtype(array.dtype), ["n", *array.shape[1:]]
        )
        for name, array in feeds.items()
    ]
    outputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in results.items()]
    tensors = [numpy_helper.from_array(array, name) for name, array in (stored or {}).items()]
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 5)]
    return helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, tensors), opset_imports=imports)


def node(operator: str, reads: list[str], makes: list[str], **attributes: Any) -> Any:
    return helper.make_node(operator, reads, makes, domain="ai.onnx.ml", **attributes)


def coded(program: Program, array: Any) -> Any:
    """Return strings as the codes of a program."""
    codes = {text: code for code, text in enumerate(program.strings_of_model)}
    known = [codes.get(text, -1) for text in array.reshape(-1)]
    return np.array(known, np.int64).reshape(array.shape) if array.dtype == object else array


def require_equal(source: Any, feeds: dict[str, Any], engine: Any, wanted: list[Any] | None = None) -> None:
    """Compare a file on an engine with ONNX's evaluator, or with these results."""
    expected: Any = ReferenceEvaluator(source).run(None, feeds) if wanted is None else wanted
    program = from_onnx(source)
    run = Run(program.compile(n=ROWS), engine=engine)
    found = run.step({name: coded(program, array) for name, array in feeds.items()}, entry="predict")
    for name, each in zip(program.outputs_of_module, expected, strict=True):
        each = np.asarray(each, object) if np.asarray(each).dtype.kind in "US" else np.asarray(each)
        assert found[name].shape == each.shape
        np.testing.assert_allclose(found[name], coded(program, each), rtol=1e-4, atol=1e-5)


PER_CLASS = [6, 5, 4]
VECTORS = DRAWN.standard_normal((15, 5)).astype(np.float32)
SVM: dict[str, Any] = {
    "coefficients": DRAWN.standard_normal(30).astype(np.float32).tolist(),
    "support_vectors": VECTORS.reshape(-1).tolist(),
    "vectors_per_class": PER_CLASS,
    "rho": [0.1, -0.2, 0.3],
    "kernel_params": [0.2, 0.5, 2.0],
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_a_vector_machine_votes_for_classes_by_pairs(kernel: str, engine: Any):
    made = node("SVMClassifier", ["x"], ["y", "p"], kernel_type=kernel, classlabels_ints=[3, 5, 8], **SVM)
    require_equal(file([made], {"x": X}, {"y": 7, "p": 1}), {"x": X}, engine)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_vector_machine_couples_probabilities_of_pairs(engine: Any):
    pairs = node("SVMClassifier", ["x"], ["y", "p"], kernel_type="RBF", classlabels_strings=WORDS, **SVM)
    _, scores = ReferenceEvaluator(file([pairs], {"x": X}, {"y": 8, "p": 1})).run(None, {"x": X})  # type: ignore[misc]
    a, b = [-1.0, -2.0, -1.5], [0.1, 0.2, -0.3]
    made = node(
        "SVMClassifier", ["x"], ["y", "p"], kernel_type="RBF", classlabels_strings=WORDS, prob_a=a, prob_b=b, **SVM
    )
    program = from_onnx(file([made], {"x": X}, {"y": 8, "p": 1}))
    found = Run(program.compile(n=ROWS), engine=engine).step({"x": X}, entry="predict")["p"]
    wanted = [coupled(1 / (1 + np.exp(row * a + b))) for row in np.asarray(scores, np.float64)]
    np.testing.assert_allclose(found, wanted, atol=2e-3)


def coupled(pairs: Any) -> Any:
    """Return the probabilities p of classes that minimise the sum of (r_ji p_i - r_ij p_j) ** 2 and sum to 1."""
    r = np.zeros((3, 3))
    r[np.triu_indices(3, 1)] = pairs
    r += np.tril(1 - r.T, -1)
    q = np.diag((r**2).sum(0)) - r * r.T
    system = np.block([[q, np.ones((3, 1))], [np.ones((1, 3)), np.zeros((1, 1))]])
    return np.linalg.solve(system, [0, 0, 0, 1])[:3]


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_vector_machine_without_vectors_is_linear(engine: Any):
    weights = DRAWN.standard_normal(15).astype(np.float32).tolist()
    made = node("SVMClassifier", ["x"], ["y", "p"], coefficients=weights, rho=[0.1], classlabels_ints=[0, 1, 2],
                post_transform="SOFTMAX")  # fmt: skip
    require_equal(file([made], {"x": X}, {"y": 7, "p": 1}), {"x": X}, engine, [
        (X @ np.reshape(weights, (3, 5)).T.astype("f")).argmax(1), softmax(X @ np.reshape(weights, (3, 5)).T + 0.1)
    ])  # fmt: skip


def softmax(x: Any) -> Any:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize("one_class", [0, 1])
def test_a_vector_machine_sums_kernels(one_class: int):
    made = node("SVMRegressor", ["x"], ["y"], kernel_type="RBF", n_supports=15, one_class=one_class,
                rho=[0.1], kernel_params=[0.2, 0.0, 0.0], support_vectors=SVM["support_vectors"],
                coefficients=SVM["coefficients"][:15])  # fmt: skip
    require_equal(file([made], {"x": X}, {"y": 1}), {"x": X}, "reference")


TREES: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1],
    "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
    "nodes_featureids": [0, 0, 2, 0, 0, 4, 0, 0],
    "nodes_values": [0.1, 0.0, -0.3, 0.0, 0.0, 0.2, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 3, 0, 0, 1, 0, 0],
    "nodes_falsenodeids": [2, 0, 4, 0, 0, 2, 0, 0],
}
LEAVES = ([0, 0, 0, 1, 1], [1, 3, 4, 1, 2], [0.5, -0.25, 1.0, 0.75, -2.0])


def trees(operator: str, makes: list[str], targets: list[int], **attributes: Any) -> Any:
    word = "target" if operator.endswith("Regressor") else "class"
    names = (f"{word}_treeids", f"{word}_nodeids", f"{word}_weights", f"{word}_ids")
    leaves = dict(zip(names, (*LEAVES, targets), strict=True))
    return node(operator, ["x"], makes, **{**TREES, **leaves, **attributes})


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_trees_predict_by_their_leaves(aggregate: str, engine: Any):
    made = trees("TreeEnsembleRegressor", ["y"], [0, 0, 0, 0, 0], n_targets=1, aggregate_function=aggregate)
    first = np.where(X[:, 0] <= np.float32(0.1), 0.5, np.where(X[:, 2] <= np.float32(-0.3), -0.25, 1.0))
    second = np.where(X[:, 4] <= np.float32(0.2), 0.75, -2.0)
    both = np.stack([first, second], 1)
    function = {"SUM": np.sum, "AVERAGE": np.mean, "MIN": np.min, "MAX": np.max}[aggregate]
    require_equal(file([made], {"x": X}, {"y": 1}), {"x": X}, engine, [function(both, axis=1)[:, None]])


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("end", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
def test_trees_score_classes(end: str, engine: Any):
    made = trees("TreeEnsembleClassifier", ["y", "p"], [0, 1, 2, 1, 2], classlabels_strings=WORDS, post_transform=end,
                 base_values=[0.1, 0.2, 0.3])  # fmt: skip
    require_equal(file([made], {"x": X}, {"y": 8, "p": 1}), {"x": X}, engine)


@pytest.mark.parametrize("mode", ["BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"])
def test_tests_of_nodes_may_differ(mode: str):
    modes = [mode if i == 2 else word for i, word in enumerate(TREES["nodes_modes"])]
    made = trees("TreeEnsembleRegressor", ["y"], [0, 0, 0, 0, 0], n_targets=1, nodes_modes=modes)
    level = np.round(X * 10) / np.float32(10)
    level[:, 2] = np.where(np.arange(ROWS) % 2, np.float32(-0.3), level[:, 2])
    require_equal(file([made], {"x": level}, {"y": 1}), {"x": level}, "reference")


def test_a_missing_value_follows_the_node():
    holes = X.copy()
    holes[::3, 0] = np.nan
    tracks = [1, 0, 0, 0, 0, 0, 0, 0]
    made = trees("TreeEnsembleRegressor", ["y"], [0, 0, 0, 0, 0], n_targets=1, nodes_missing_value_tracks_true=tracks)
    first = np.where(
        (holes[:, 0] <= np.float32(0.1)) | np.isnan(holes[:, 0]), 0.5, np.where(X[:, 2] <= np.float32(-0.3), -0.25, 1.0)
    )
    wanted = first + np.where(X[:, 4] <= np.float32(0.2), 0.75, -2.0)
    require_equal(file([made], {"x": holes}, {"y": 1}), {"x": holes}, "reference", [wanted[:, None]])  # fmt: skip


def test_nodes_in_a_circle_are_refused():
    made = trees(
        "TreeEnsembleRegressor", ["y"], [0, 0, 0, 0, 0], n_targets=1, nodes_falsenodeids=[2, 0, 0, 0, 0, 2, 0, 0]
    )
    with pytest.raises(CompileError, match="has nodes that lead back to themselves"):
        from_onnx(file([made], {"x": X}, {"y": 1}))


ENCODED = {
    "strings to numbers": ({"keys_strings": WORDS, "values_int64s": [5, 7, 9], "default_int64": -3}, 7),
    "strings to strings": ({"keys_strings": WORDS, "values_strings": ["ant", "bat", "cow"]}, 8),
    "strings to floats": ({"keys_strings": WORDS, "values_floats": [0.5, 0.25, 2.0], "default_float": 4.0}, 1),
}
SPOKEN = np.array([[[*WORDS, "dog"][i % 4]] for i in range(ROWS)], object)


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("case", ENCODED)
def test_labels_are_encoded(case: str, engine: Any):
    attributes, kind = ENCODED[case]
    made = node("LabelEncoder", ["x"], ["y"], **attributes)
    require_equal(file([made], {"x": SPOKEN}, {"y": kind}), {"x": SPOKEN}, engine)


def test_numbers_are_encoded_as_strings_and_nan_finds_its_key():
    numbers = np.array([[1, 2, 5]] * ROWS, np.int64)
    made = node("LabelEncoder", ["x"], ["y"], keys_int64s=[1, 2], values_strings=["one", "two"], default_string="many")
    require_equal(file([made], {"x": numbers}, {"y": 8}), {"x": numbers}, "reference")
    floats = np.array([[1.0, np.nan, 5.0]] * ROWS, np.float32)
    made = node("LabelEncoder", ["x"], ["y"], keys_floats=[1.0, float("nan")], values_int64s=[4, 6])
    require_equal(file([made], {"x": floats}, {"y": 7}), {"x": floats}, "reference", [[[4, 6, -1]] * ROWS])


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_categories_are_ones_of_a_new_axis(engine: Any):
    made = node("OneHotEncoder", ["x"], ["y"], cats_strings=WORDS)
    require_equal(file([made], {"x": SPOKEN}, {"y": 1}), {"x": SPOKEN}, engine)
    numbers = np.arange(ROWS * 2).reshape(ROWS, 2) % 5
    made = node("OneHotEncoder", ["x"], ["y"], cats_int64s=[0, 2, 4])
    require_equal(file([made], {"x": numbers}, {"y": 1}), {"x": numbers}, engine)


def test_columns_are_joined_and_strings_compared():
    made = [node("FeatureVectorizer", ["x", "z"], ["y"], inputdimensions=[5, 5])]
    require_equal(file(made, {"x": X, "z": X}, {"y": 1}), {"x": X, "z": X}, "reference", [np.concatenate([X, X], 1)])
    equal = [helper.make_node("Equal", ["x", "w"], ["e"]), helper.make_node("Cast", ["e"], ["y"], to=1)]
    source = file(equal, {"x": SPOKEN}, {"y": 1}, {"w": np.array(["bee"], object)})
    require_equal(source, {"x": SPOKEN}, "reference", [SPOKEN == "bee"])


def classifier() -> Any:
    made = trees("TreeEnsembleClassifier", ["label", "scores"], [0, 1, 2, 1, 2], classlabels_strings=WORDS)
    zipped = node("ZipMap", ["scores"], ["probabilities"], classlabels_strings=WORDS)
    return file([made, zipped], {"x": X}, {"label": 8, "probabilities": 1})


def test_notes_name_the_strings_and_the_columns(tmp_path: Any):
    program = from_onnx(classifier())
    assert program.strings_of_model == ("ape", "bee", "cat")
    assert program.notes_of_import == [
        "the dictionaries of 'probabilities' are a tensor with the columns 'ape', 'bee', 'cat'",
        "strings are codes, which are positions in program.strings_of_model: 0 is 'ape', 1 is 'bee', 2 is 'cat'; -1 is "
        "any other string; 'label' has them",
    ]
    program.compile(n=ROWS).save(tmp_path / "trees.pb")
    assert Program.load(tmp_path / "trees.pb").strings_of_model == ("ape", "bee", "cat")


def test_some_of_the_results_are_imported():
    program = from_onnx(classifier(), outputs=["probabilities"])
    assert program.outputs_of_module == ["probabilities"]
    assert from_onnx(classifier(), outputs=["scores", "label"]).outputs_of_module == ["scores", "label"]
    two = file(
        [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("StringNormalizer", ["z"], ["w"])],
        {"x": X, "z": SPOKEN}, {"y": 1, "w": 8},
    )  # fmt: skip
    found = Run(from_onnx(two, outputs=["y"]).compile(n=ROWS)).step({"x": X}, entry="predict")["y"]
    np.testing.assert_array_equal(found, -X)


def test_an_operand_and_a_result_that_are_left_out_connect_no_nodes():
    nodes = [
        helper.make_node("Clip", ["x", "", "top"], ["y"]),
        helper.make_node("LSTM", ["s", "w", "r"], ["", "h"], hidden_size=2),
    ]
    ones = {"top": np.float32(1.0), "w": np.ones((1, 8, 3), np.float32), "r": np.ones((1, 8, 2), np.float32)}
    two = file(nodes, {"x": X, "s": np.ones((5, 1, 3), np.float32)}, {"y": 1, "h": 1}, ones)
    assert "inputs x; 0 states" in repr(from_onnx(two, outputs=["y"]))


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["odds"], "the model: outputs names 'odds', which no node makes; the results are ['label', 'probabilities']"),
        ([], "the model: outputs=[] names no result, or one twice; the results are ['label', 'probabilities']"),
    ],
)
def test_results_that_no_node_makes_are_refused(names: list[str], reason: str):
    assert told(CompileError, lambda: from_onnx(classifier(), outputs=names)) == reason


def test_nodes_that_compute_strings_are_refused():
    made = [helper.make_node("Cast", ["x"], ["y"], to=8)]
    with pytest.raises(CompileError, match="computes strings, and a program has their codes alone"):
        from_onnx(file(made, {"x": X}, {"y": 8}))
    made = [helper.make_node("Cast", ["x"], ["y"], to=1)]
    with pytest.raises(CompileError, match="computes strings, and a program has their codes alone"):
        from_onnx(file(made, {"x": SPOKEN}, {"y": 1}))


def test_a_constant_beyond_int64_is_refused():
    made = [helper.make_node("Add", ["x", "w"], ["y"])]
    source = file(made, {"x": np.ones((ROWS, 1), np.uint64)}, {"y": 13}, {"w": np.array([2**63 + 1], np.uint64)})
    with pytest.raises(CompileError, match="has the element 9223372036854775809, and int64, which carries them, ends"):
        from_onnx(source)
