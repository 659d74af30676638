"""Sums of products by letters, against NumPy's einsum and as the operators that they become."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subjects.commands import told
from subjects.evaluate import block_of, evaluate, gradient, ops_of
from subjects.values import check_orders, define

from prograd_proto import TensorType
from registry import Block, OpError, Value, ops

EQUATIONS: list[tuple[str, list[tuple[int, ...]], list[str] | None]] = [
    # the equation, the shapes, and the operators that it becomes where few will do
    ("ij->ij", [(2, 3)], []),
    ("ij->ji", [(2, 3)], ["transpose"]),
    ("ji", [(2, 3)], ["transpose"]),
    ("ij->", [(2, 3)], ["sum"]),
    ("ii", [(3, 3)], ["reshape", "slice", "sum"]),
    ("ii->i", [(3, 3)], ["reshape", "slice"]),
    ("ij,jk->ik", [(2, 3), (3, 4)], ["matmul"]),
    ("ij,jk", [(2, 3), (3, 4)], ["matmul"]),
    ("ij,jk->ki", [(2, 3), (3, 4)], ["matmul"]),
    ("ji,jk->ik", [(3, 2), (3, 4)], ["matmul"]),
    ("ij,kj->ik", [(2, 3), (4, 3)], ["matmul"]),
    ("bij,bjk->bik", [(5, 2, 3), (5, 3, 4)], ["matmul"]),
    ("bqd,bkd->bqk", [(5, 2, 3), (5, 4, 3)], ["matmul"]),
    ("bti,ij->btj", [(5, 2, 3), (3, 4)], ["matmul"]),
    ("...i,ij->...j", [(5, 2, 3), (3, 4)], ["matmul"]),
    ("i,j->ij", [(2,), (3,)], ["reshape", "reshape", "mul"]),
    ("i,i->", [(3,), (3,)], ["reshape", "reshape", "matmul", "reshape"]),
    ("bi,bi->bi", [(2, 3), (2, 3)], ["mul"]),
    ("bqhd,bkhd->bhqk", [(2, 3, 4, 5), (2, 6, 4, 5)], ["transpose", "transpose", "matmul"]),
    ("bhqk,bkhd->bqhd", [(2, 4, 3, 6), (2, 6, 4, 5)], ["transpose", "matmul", "transpose"]),
    ("ij,jk,kl->il", [(2, 9), (9, 3), (3, 8)], ["matmul", "matmul"]),
    ("...ij,...jk->...ik", [(7, 1, 2, 3), (5, 3, 4)], None),
    ("b...,b...->...", [(2, 3, 4), (2, 3, 4)], None),
    ("i...,...j->j...i", [(2, 3), (3, 4)], None),
    ("iij,jk,kkl,l->il", [(2, 2, 3), (3, 4), (4, 4, 2), (2,)], None),
    ("aB,Bc", [(2, 3), (3, 4)], None),
]

each_equation = pytest.mark.parametrize(
    ("equation", "shapes", "kinds"), EQUATIONS, ids=[equation for equation, *_ in EQUATIONS]
)


def tensors(shapes: list[tuple[int, ...]], dtype: str = "float64") -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [np.asarray(rng.normal(size=shape) * 3).astype(dtype) for shape in shapes]


@each_equation
@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_an_equation_means_what_it_means_to_numpy(
    equation: str, shapes: list[tuple[int, ...]], kinds: list[str] | None, dtype: str
):
    xs = tensors(shapes, dtype)
    y = evaluate(lambda *xs: ops.einsum(equation, *xs), *xs)
    np.testing.assert_allclose(y, np.einsum(equation, *xs), rtol=1e-12, atol=1e-12, strict=True)


@each_equation
def test_an_equation_becomes_few_operators(equation: str, shapes: list[tuple[int, ...]], kinds: list[str] | None):
    made = ops_of(lambda *xs: ops.einsum(equation, *xs), *tensors(shapes))
    if kinds is None:
        assert set(made) <= {"reshape", "transpose", "slice", "sum", "mul", "matmul"}
    else:
        assert made == kinds


@each_equation
def test_an_equation_has_second_gradients(equation: str, shapes: list[tuple[int, ...]], kinds: list[str] | None):
    block = Block()
    xs = [define(block, f"x{i}", shape) for i, shape in enumerate(shapes)]
    feeds = {f"x{i}": x for i, x in enumerate(tensors(shapes))}
    check_orders(ops.square(ops.einsum(equation, *xs)), xs, feeds, 2)


@st.composite
def equations(draw: Any) -> tuple[str, list[tuple[int, ...]]]:
    """An equation that NumPy takes, and shapes that fit it."""
    sizes = {letter: draw(st.integers(1, 3)) for letter in "abcdE"}
    dots = draw(st.lists(st.integers(1, 3), max_size=2))
    terms: list[str] = []
    shapes: list[tuple[int, ...]] = []
    for _ in range(draw(st.integers(1, 4))):
        term = "".join(draw(st.lists(st.sampled_from("abcdE"), max_size=3)))
        extents = [1 if term.count(x) == 1 and draw(st.integers(0, 5)) == 0 else sizes[x] for x in term]
        if draw(st.booleans()):
            at = draw(st.integers(0, len(term)))
            more = dots[len(dots) - draw(st.integers(0, len(dots))) :]
            term = f"{term[:at]}...{term[at:]}"
            extents[at:at] = [draw(st.sampled_from([1, extent])) for extent in more]
        terms.append(term)
        shapes.append(tuple(extents))
    equation = ",".join(terms)
    if draw(st.booleans()):
        letters = draw(st.permutations(sorted({*equation} - {*",."})))
        kept = "".join(letters[: draw(st.integers(0, len(letters)))])
        at = draw(st.integers(0, len(kept)))
        equation += f"->{kept[:at]}...{kept[at:]}" if "..." in equation else f"->{kept}"
    return equation, shapes


@pytest.mark.thorough
@settings(max_examples=300)
@given(equations(), st.sampled_from(["float64", "int64"]))
def test_any_equation_means_what_it_means_to_numpy(case: tuple[str, list[tuple[int, ...]]], dtype: str):
    equation, shapes = case
    xs = tensors(shapes, dtype)
    y = evaluate(lambda *xs: ops.identity(ops.einsum(equation, *xs)), *xs)
    np.testing.assert_allclose(y, np.einsum(equation, *xs), rtol=1e-10, atol=1e-10, strict=True)


@settings(max_examples=60)
@given(equations())
def test_any_equation_has_the_gradient_that_numpys_value_changes_by(case: tuple[str, list[tuple[int, ...]]]):
    """It is linear in each tensor: the derivative along a direction is its value there."""
    equation, shapes = case
    xs = tensors(shapes)
    along = [np.random.default_rng(i).normal(size=x.shape) for i, x in enumerate(xs)]
    grads = gradient(lambda *xs: ops.einsum(equation, *xs), *xs)
    for i, (dx, v) in enumerate(zip(grads, along, strict=True)):
        wanted = np.sum(np.einsum(equation, *xs[:i], v, *xs[i + 1 :]))
        assert dx is not None
        np.testing.assert_allclose(np.vdot(dx, v), wanted, rtol=1e-9, atol=1e-9)


def symbolic(*shapes: tuple[int | str, ...]) -> list[Value]:
    block = Block()
    return [block.define(f"x{i}", TensorType("float64", shape)) for i, shape in enumerate(shapes)]


SYMBOLS: list[tuple[str, list[tuple[int | str, ...]], tuple[int | str, ...], set[str]]] = [
    ("nti,ij->ntj", [("n", 5, 3), (3, 4)], ("n", 5, 4), {"matmul"}),
    ("ij,ntj->nti", [(4, 3), ("n", 5, 3)], ("n", 5, 4), {"matmul"}),
    ("nti,ntj->ij", [("n", 5, 3), ("n", 5, 4)], (3, 4), {"outer_sum"}),
    ("nqhd,nkhd->nhqk", [("n", 5, 2, 3), ("n", 6, 2, 3)], ("n", 2, 5, 6), {"transpose", "matmul"}),
    ("nt,ms->", [("n", 5), ("m", 6)], (), {"sum", "mul"}),
    ("nti,msi->ntms", [("n", 5, 3), ("m", 6, 3)], ("n", 5, "m", 6), {"reshape", "mul", "sum"}),
    ("nt,ntm->m", [("n", 5), ("n", 5, "m")], ("m",), {"reshape", "outer_sum"}),
    ("bnti,bntj->bij", [(2, "n", 5, 3), (2, "n", 5, 4)], (2, 3, 4), {"transpose", "reshape", "mul", "sum"}),
]


@pytest.mark.parametrize(("equation", "shapes", "made", "kinds"), SYMBOLS, ids=[case[0] for case in SYMBOLS])
def test_extents_without_sizes_stay_what_they_are(
    equation: str, shapes: list[tuple[int | str, ...]], made: tuple[int | str, ...], kinds: set[str]
):
    xs = symbolic(*shapes)
    assert ops.einsum(equation, *xs).shape == made
    assert {desc.type for desc in xs[0].block.desc.ops} == kinds
    sizes = {"n": 4, "m": 7}
    arrays = tensors([tuple(sizes.get(str(d), d) for d in shape) for shape in shapes])  # pyright: ignore[reportArgumentType]: all are numbers now
    y = evaluate(lambda *xs: ops.einsum(equation, *xs), *arrays)
    np.testing.assert_allclose(y, np.einsum(equation, *arrays), rtol=1e-12, atol=1e-12)


def test_the_cheapest_order_of_contractions_is_taken():
    wide, narrow = (50, 2), (2, 50)
    block, [a, b, c] = block_of(tuple(tensors([wide, narrow, wide])))
    ops.einsum("ij,jk,kl->il", a, b, c)
    assert [block.types[desc.outputs[0]].shape for desc in block.desc.ops] == [(2, 2), (50, 2)]
    block, xs = block_of(tuple(tensors([(9, 2), (2, 9)] * 4)))
    assert ops.einsum("ab,bc,cd,de,ef,fg,gh,hi->ai", *xs).shape == (9, 9)
    products = [block.types[desc.outputs[0]].shape for desc in block.desc.ops if desc.type == "matmul"]
    assert products.count((9, 9)) == 1, "the others are of 2 by 2 or 9 by 2"


def test_the_outer_product_is_numpys():
    a, b = tensors([(3,), (4,)])
    np.testing.assert_array_equal(evaluate(ops.outer, a, b), np.outer(a, b), strict=True)


MISTAKES = [
    ("ij,jk->ik", "'ij,jk->ik' has 2 terms for 1 tensors"),
    ("i->i", "the term 'i' has 1 letters, xs[0] has 2 axes"),
    ("ijk...->i", "the term 'ijk...' has 3 letters, xs[0] has 2 axes"),
    ("ij->iz", "the output of 'ij->iz' has the letter 'z', which no term has"),
    ("ij->ii", "the output of 'ij->ii' has the letter 'i' twice"),
    ("i...->i", "the terms of 'i...->i' have axes for ..., which its output lacks"),
    ("i1->i", "'1' in 'i1->i' is no letter, comma, ... or ->"),
    ("ij->i->j", "'-' in 'ij->i->j' is no letter, comma, ... or ->"),
    ("i..->i", "'.' in 'i..->i' is no letter, comma, ... or ->"),
    ("ii->i", "'i' is 2 and 3 in one term"),
]


@pytest.mark.parametrize(("equation", "sentence"), MISTAKES, ids=[equation for equation, _ in MISTAKES])
def test_an_equation_that_makes_no_sense_is_an_error(equation: str, sentence: str):
    _, [x] = block_of((np.zeros((2, 3)),))
    assert told(OpError, lambda: ops.einsum(equation, x)) == f"einsum(xs[0]: float64[2, 3]): {sentence}"


def test_tensors_that_do_not_fit_are_an_error():
    _, [a, b, c] = block_of((np.zeros((2, 3)), np.zeros((4, 2)), np.zeros((3, 2), "float32")))
    shown = "einsum(xs[0]: float64[2, 3], xs[1]: float64[4, 2]): "
    assert told(OpError, lambda: ops.einsum("ij,jk->ik", a, b)) == shown + "'j' is 4 in xs[1] and 3 before"
    assert told(OpError, lambda: ops.einsum("i...,...j->...ij", a, b)) == shown + "'...' is 4 in xs[1] and 3 before"
    with pytest.raises(OpError) as caught:
        ops.einsum("ij,jk->ik", a, c)
    assert str(caught.value).endswith(": dtypes differ: float64 and float32; cast one of them")
    with pytest.raises(OpError) as caught:
        ops.einsum("ij", ops.cast(a, dtype="bool"))
    assert str(caught.value).endswith("needs float32 or float64 or int32 or int64 or uint8, not bool; cast it first")
    assert told(OpError, lambda: ops.einsum("ij")) == "einsum: 'ij' has 1 terms for 0 tensors"
    assert told(OpError, lambda: ops.outer(a, b)).endswith(": a has 2 axes, not 1; use einsum for more")
