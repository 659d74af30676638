"""Lists and arrays as constants of a program, and as weights of classes."""

from __future__ import annotations

import numpy as np
import pytest

import prograd
from prograd import OpError, Program, ops

LOGITS = np.random.default_rng(0).standard_normal((32, 3)).astype("float32")
LABELS = np.arange(32) % 3
TARGETS = np.eye(3, dtype="float32")[LABELS]
WEIGHTS = [1.0, 2.0, 0.5]


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("values", [[1.0, 2.0, 0.5], np.array([1, 2, 0.5]), (1, 2, 0.5), [[1, 2, 0.5]] * 4, []])
def test_a_constant_has_the_elements_of_a_list_or_an_array(values, engine):
    program = Program("p")
    constant = program.constant(values)
    assert constant.type.dtype == "float32"
    assert constant.shape == np.shape(values)
    program.entry("show", y=constant + 0.0)
    run = prograd.Run(program.compile(), engine=engine)
    np.testing.assert_array_equal(run.step({}, entry="show")["y"], np.array(values, "float32"))


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int32", "int64", "uint8", "bool"])
def test_a_constant_may_be_of_another_dtype(dtype):
    constant = Program("p").constant(np.array([[1, 0], [0, 1]]), dtype=dtype)
    assert (constant.dtype, constant.shape) == (dtype, (2, 2))


@pytest.mark.parametrize(
    ("values", "dtype", "told"),
    [
        ([1.5, 2.0], "int64", "1.5 is not a whole number, as int64 needs"),
        ([[1.0, 2.0], [3.0]], "float32", "the rows of the list differ in length, so it is no array"),
        (["a"], "float32", "'a' is no number, and an array of numbers becomes a constant"),
        ([300], "uint8", "a number of the constant does not fit uint8"),
        ([1e300], "float32", "a number of the constant does not fit float32"),
        (
            np.zeros(16385),
            "float32",
            "float32[16385] takes 65540 bytes, a constant has at most 65536; feed it, or read a state from a file by "
            "from_file",
        ),
    ],
)
def test_an_array_that_is_no_constant_is_one_sentence(values, dtype, told):
    with pytest.raises(OpError) as caught:
        Program("p").constant(values, dtype=dtype)
    assert str(caught.value).partition(": ")[2] == told


LOSSES = {
    "labels": lambda x, y, t, w: ops.cross_entropy(x, y, w),
    "by name": lambda x, y, t, w: ops.cross_entropy(x, y, weights=w),
    "smoothed": lambda x, y, t, w: ops.cross_entropy(x, y, w, smoothing=0.1),
    "distributions": lambda x, y, t, w: ops.cross_entropy(x, t, w),
    "nll": lambda x, y, t, w: ops.nll(ops.log_softmax(x), y, w),
    "binary": lambda x, y, t, w: ops.binary_cross_entropy(ops.sigmoid(x), t, w),
    "binary logits": lambda x, y, t, w: ops.binary_cross_entropy_with_logits(x, t, w, w),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_of_classes_are_lists_or_arrays(loss):
    found = []
    for kind in ("tensor", "list", "array", "float64"):
        program = Program("p")
        x, y = program.input("x", "float32", ("n", 3)), program.input("y", "int64", ("n",))
        t = program.input("t", "float32", ("n", 3))
        weights = WEIGHTS if kind == "list" else np.array(WEIGHTS, "float64" if kind == "float64" else "float32")
        if kind == "tensor":
            weights = program.input("w", "float32", (3,))
        program.entry("show", loss=LOSSES[loss](x, y, t, weights))
        feeds = {"x": LOGITS, "y": LABELS, "t": TARGETS} | (
            {"w": np.array(WEIGHTS, "float32")} if kind == "tensor" else {}
        )
        run = prograd.Run(program.compile(n=32))
        wanted = run.entries["show"].feeds
        found.append(run.step({name: feeds[name] for name in wanted}, entry="show")["loss"])
    assert len({array.tobytes() for array in found}) == 1


def test_weights_that_are_no_numbers_are_one_sentence():
    program = Program("p")
    x, y = program.input("x", "float32", ("n", 3)), program.input("y", "int64", ("n",))
    with pytest.raises(OpError, match="cross_entropy: weights='balanced' is not a tensor of a program"):
        ops.cross_entropy(x, y, "balanced")
    with pytest.raises(
        OpError, match=r"cross_entropy\(logits: float32\[n, 3\], target: int64\[n\]\): 'a' is no number"
    ):
        ops.cross_entropy(x, y, ["a", "b", "c"])
