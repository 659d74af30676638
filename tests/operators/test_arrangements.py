"""Other arrangements of the elements, against NumPy's own functions; and the sentences of calls that make no sense."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from subjects.commands import told
from subjects.evaluate import block_of, evaluate, gradient, ops_of
from subjects.values import check_orders, define

from compiler.reference import reference
from prograd_proto import TensorType
from registry import Block, OpError, Value, ops
from registry.table import SPELLED

X = np.arange(24, dtype="float64").reshape(2, 3, 4)
ONES = np.arange(6, dtype="float32").reshape(1, 2, 1, 3)
IMAGES = np.arange(2 * 4 * 6 * 2, dtype="float64").reshape(2, 4, 6, 2)

EQUALS: list[tuple[str, np.ndarray, Callable[[Value], Value], Callable[[np.ndarray], np.ndarray]]] = [
    ("squeeze", ONES, ops.squeeze, np.squeeze),
    ("squeeze", ONES, lambda x: ops.squeeze(x, axis=(-2,)), lambda x: np.squeeze(x, 2)),
    ("unsqueeze", X, lambda x: ops.unsqueeze(x, axis=(0, -1)), lambda x: np.expand_dims(x, (0, -1))),
    ("unsqueeze", X, lambda x: ops.unsqueeze(x, axis=(3, 1)), lambda x: np.expand_dims(x, (1, 3))),
    ("flatten", X, ops.flatten, lambda x: x.reshape(2, 12)),
    ("flatten", X, lambda x: ops.flatten(x, first=0, last=1), lambda x: x.reshape(6, 4)),
    ("flatten", X[:0], ops.flatten, lambda x: x.reshape(0, 12)),
    ("stack", X, lambda x: ops.stack(x, -x, x), lambda x: np.stack([x, -x, x])),
    ("stack", X, lambda x: ops.stack(x, -x, axis=-1), lambda x: np.stack([x, -x], -1)),
    ("flip", X, ops.flip, np.flip),
    ("flip", X, lambda x: ops.flip(x, axis=(-1, 0)), lambda x: np.flip(x, (0, 2))),
    ("roll", X, lambda x: ops.roll(x, shifts=(1,), axis=(2,)), lambda x: np.roll(x, 1, 2)),
    ("roll", X, lambda x: ops.roll(x, shifts=(-5, 7), axis=(1, 0)), lambda x: np.roll(x, (-5, 7), (1, 0))),
    ("roll", X, lambda x: ops.roll(x, shifts=(3,), axis=(1,)), lambda x: x),
    ("roll", X[:0], lambda x: ops.roll(x, shifts=(3,), axis=(0,)), lambda x: x),
    ("tile", X, lambda x: ops.tile(x, counts=(2, 1, 3)), lambda x: np.tile(x, (2, 1, 3))),
    ("tile", X, lambda x: ops.tile(x, counts=(2,)), lambda x: np.tile(x, 2)),
    ("tile", X, lambda x: ops.tile(x, counts=(2, 1, 1, 0)), lambda x: np.tile(x, (2, 1, 1, 0))),
    ("repeat", X, lambda x: ops.repeat(x, count=3, axis=-2), lambda x: np.repeat(x, 3, -2)),
    ("repeat", X, lambda x: ops.repeat(x, count=0, axis=0), lambda x: np.repeat(x, 0, 0)),
    *(
        (
            f"pad_{mode}",
            X,
            lambda x, mode=mode, before=before, after=after: getattr(ops, f"pad_{mode}")(x, before=before, after=after),
            lambda x, mode=mode, before=before, after=after: np.pad(x, [*zip(before, after, strict=True)], mode),
        )
        for mode in ("reflect", "edge", "wrap")
        for before, after in (((1, 2, 0), (0, 1, 3)), ((0, 0, 3), (0, 0, 2)), ((0, 0, 0), (0, 2, 0)))
    ),
    (
        "space_to_depth",
        IMAGES,
        lambda x: ops.space_to_depth(x, block=2),
        lambda x: np.block([[[x[:, i::2, j::2] for i in (0, 1) for j in (0, 1)]]]),
    ),
    ("depth_to_space", IMAGES, lambda x: ops.depth_to_space(ops.space_to_depth(x, block=2), block=2), lambda x: x),
]


@pytest.mark.parametrize(("name", "x", "made", "wanted"), EQUALS, ids=[f"{i}-{e[0]}" for i, e in enumerate(EQUALS)])
def test_an_arrangement_is_numpys_with_its_gradient(
    name: str, x: np.ndarray, made: Callable[[Value], Value], wanted: Callable[[np.ndarray], np.ndarray]
):
    np.testing.assert_array_equal(evaluate(made, x), wanted(x), strict=True)
    weights = np.arange(1.0, wanted(x).size + 1).reshape(wanted(x).shape).astype(x.dtype)
    dx, _ = gradient(lambda x, w: made(x) * w, x, weights)
    places = np.round(wanted(np.arange(1.0, x.size + 1).reshape(x.shape))).astype(int).reshape(-1)
    expected = np.zeros(x.size + 1)
    np.add.at(expected, abs(places), np.sign(places) * weights.reshape(-1))
    np.testing.assert_array_equal(dx, expected[1:].reshape(x.shape))


def test_unstack_gives_the_slices():
    for axis in (0, 1, -1):
        pieces = evaluate(lambda x, axis=axis: ops.unstack(x, axis=axis), X)
        wanted = np.moveaxis(X, axis, 0)
        assert len(pieces) == len(wanted)
        for piece, slice_ in zip(pieces, wanted, strict=True):
            np.testing.assert_array_equal(piece, slice_, strict=True)


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_meshgrid_is_numpys(indexing: Any, count: int):
    vectors = [np.arange(2.0), np.arange(3.0) + 10, np.arange(4.0) + 20][:count]
    made = evaluate(lambda *xs: ops.meshgrid(*xs, indexing=indexing), *vectors)
    for one, other in zip(made, np.meshgrid(*vectors, indexing=indexing), strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


def test_arrangements_have_second_gradients():
    block = Block()
    x = define(block, "x", (4, 4))
    y = ops.pad_reflect(ops.roll(x, shifts=(1,), axis=(0,)), before=(2, 1), after=(1, 0))
    y = ops.stack(*ops.unstack(ops.tile(ops.flip(y), counts=(1, 2))), axis=1)
    check_orders(ops.square(y) * y, [x], {"x": np.random.default_rng(1).normal(size=(4, 4))}, 2)


def test_arrangements_leave_a_batch_without_size_alone():
    block = Block()
    x = block.define("x", TensorType("float64", ("n", 4, 6, 1)))
    assert ops.squeeze(x).shape == ("n", 4, 6)
    assert ops.unsqueeze(x, axis=(0,)).shape == (1, "n", 4, 6, 1)
    assert ops.flatten(x).shape == ("n", 24)
    assert ops.flatten(ops.flatten(x[:, :1, :1]), first=0).shape == ("n",)
    assert ops.stack(x, x, axis=1).shape == ("n", 2, 4, 6, 1)
    assert [piece.shape for piece in ops.unstack(x, axis=1)] == [("n", 6, 1)] * 4
    assert ops.flip(x, axis=(1,)).shape == x.shape
    assert ops.roll(x, shifts=(1,), axis=(1,)).shape == x.shape
    assert ops.tile(x, counts=(2, 1)).shape == ("n", 4, 12, 1)
    assert ops.repeat(x, count=2, axis=1).shape == ("n", 8, 6, 1)
    assert ops.pad_edge(x, before=(0, 1, 1, 0), after=(0, 0, 0, 0)).shape == ("n", 5, 7, 1)
    assert ops.space_to_depth(x, block=2).shape == ("n", 2, 3, 4)
    assert ops.depth_to_space(ops.space_to_depth(x, block=2), block=2).shape == x.shape


def test_arrangements_are_spelled_with_operators():
    assert ops_of(ops.squeeze, ONES) == ["reshape"]
    assert ops_of(ops.flip, X) == ["slice"]
    assert ops_of(lambda x: ops.tile(x, counts=(1, 1, 1)), X) == ["reshape"]
    assert ops_of(lambda x: ops.pad_wrap(x, before=(0, 0, 1), after=(0, 0, 0)), X) == ["slice", "concat"]


def test_a_misspelled_arrangement_is_named():
    with pytest.raises(AttributeError) as caught:
        _ = ops.unsqueze  # pyright: ignore[reportAttributeAccessIssue]: the mistake
    assert str(caught.value) == "there is no operator 'unsqueze'; did you mean 'unsqueeze'?"


def test_the_reference_shows_what_is_spelled_with_other_operators():
    page = reference()
    assert "### `stack`\n\n    stack(*xs: Value, axis: int = 0) -> Value\n" in page
    assert "    einsum(equation: str, *xs: Value) -> Value\n" in page
    assert "    squeeze(x: Value, *, axis: Axis = ()) -> Value\n" in page
    assert page.count("*Spelled with other operators.*") == len(SPELLED)


CALLS: list[tuple[Callable[[Value], object], str]] = [
    (lambda x: ops.squeeze(x, axis=(0,)), "squeeze(x: float64[2, 3]): axis 0 has 2 elements, not 1"),
    (lambda x: ops.squeeze(x, axis=(2,)), "squeeze(x: float64[2, 3]): axis 2 is out of range for rank 2"),
    (lambda x: ops.unsqueeze(x, axis=()), "unsqueeze(x: float64[2, 3]): axis is empty"),
    (lambda x: ops.flatten(x, first=1, last=0), "flatten(x: float64[2, 3]): axis 1 comes after axis 0"),
    (lambda x: ops.stack(), "stack: there is nothing to stack"),
    (
        lambda x: ops.stack(x, x[0]),
        "stack(xs[0]: float64[2, 3], xs[1]: float64[3]): float64[3] and float64[2, 3] differ",
    ),
    (lambda x: ops.unstack(x[:0]), "unstack(x: float64[0, 3]): axis 0 has no elements"),
    (lambda x: ops.roll(x, shifts=(1,), axis=()), "roll(x: float64[2, 3]): there are 1 shifts for 0 axes"),
    (lambda x: ops.tile(x, counts=(-1,)), "tile(x: float64[2, 3]): the count -1 is negative"),
    (
        lambda x: ops.pad_reflect(x, before=(0, 3), after=(0, 0)),
        "pad_reflect(x: float64[2, 3]): axis 1 has 3 elements and can be mirrored by 2 at most",
    ),
    (
        lambda x: ops.pad_wrap(x, before=(3, 0), after=(0, 0)),
        "pad_wrap(x: float64[2, 3]): axis 0 has 2 elements and can be wrapped by 2 at most",
    ),
    (
        lambda x: ops.pad_edge(x[:0], before=(3, 0), after=(0, 0)),
        "pad_edge(x: float64[0, 3]): axis 0 has no elements to copy",
    ),
    (
        lambda x: ops.pad_edge(x, before=(3,), after=(0, 0)),
        "pad_edge(x: float64[2, 3]): before and after need 2 widths each, one per axis",
    ),
    (lambda x: ops.meshgrid(x), "meshgrid(xs[0]: float64[2, 3]): float64[2, 3] is not a vector"),
    (
        lambda x: ops.space_to_depth(x, block=2),
        "space_to_depth(x: float64[2, 3]): an image has the axes [n, h, w, c], not 2 of them",
    ),
    (
        lambda x: ops.space_to_depth(x[None, ..., None], block=2),
        "space_to_depth(x: float64[1, 2, 3, 1]): blocks of 2 do not fill 2 x 3 pixels",
    ),
    (
        lambda x: ops.depth_to_space(x[None, None], block=2),
        "depth_to_space(x: float64[1, 1, 2, 3]): blocks of 2 x 2 pixels do not divide 3 channels",
    ),
    (lambda x: ops.flip([x]), "flip: x=[%x0: float64[2, 3]] is not a tensor of a program"),  # pyright: ignore[reportArgumentType]: the mistake
]


@pytest.mark.parametrize(("call", "sentence"), CALLS, ids=[sentence.split(":")[0] for _, sentence in CALLS])
def test_a_call_that_makes_no_sense_is_an_error(call: Callable[[Value], object], sentence: str):
    _, [x] = block_of((np.zeros((2, 3)),))
    assert told(OpError, lambda: call(x)) == sentence
