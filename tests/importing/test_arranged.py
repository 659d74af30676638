"""Arranged tensors: permutations, views and broadcasts of a model, and the ops that they come to."""

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from subjects.evaluate import evaluate, ops_of

from compiler import Program, ops
from compiler.frontends.arranged import (
    Arranged,
    aligned,
    arranged,
    expanded,
    permuted,
    plain,
    pointwise,
    trailing,
    unsqueezed,
    viewed,
)
from compiler.frontends.extents import Extent, refined

Moves = list[tuple[str, object]]


def extents(shape: tuple[int, ...]) -> tuple[Extent, ...]:
    return tuple(map(Extent, shape))


@st.composite
def moves(draw: st.DrawFn) -> Moves:
    """Permutations, views and expansions of an array [2, 3, 4], as NumPy calls with their arguments."""
    shape: tuple[int, ...] = (2, 3, 4)
    made: Moves = []
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["permute", "view", "unsqueeze", "expand"]))
        if kind == "permute":
            order = draw(st.permutations(range(len(shape))))
            made.append((kind, tuple(order)))
            shape = tuple(shape[i] for i in order)
        elif kind == "view":
            shape = draw(st.sampled_from([s for s in views(prod(shape)) if len(s) <= 5]))
            made.append((kind, shape))
        elif kind == "unsqueeze" and len(shape) < 5:
            at = draw(st.integers(0, len(shape)))
            made.append((kind, at))
            shape = (*shape[:at], 1, *shape[at:])
        elif kind == "expand" and 1 in shape and prod(shape) < 100:
            shape = tuple(2 if extent == 1 else extent for extent in shape)
            made.append((kind, shape))
    return made


def views(count: int) -> list[tuple[int, ...]]:
    """Factorisations of a number into two or three factors, and itself."""
    divisors = [n for n in range(1, count + 1) if count % n == 0]
    pairs = [(n, count // n) for n in divisors]
    return [(count,), *pairs, *((a, n, b // n) for a, b in pairs for n in divisors if b % n == 0)]


def moved_array(x: np.ndarray, steps: Moves) -> np.ndarray:
    for kind, how in steps:
        match kind:
            case "permute":
                x = np.transpose(x, how)  # type: ignore[arg-type]
            case "view":
                x = np.reshape(x, how)  # type: ignore[arg-type]
            case "unsqueeze":
                x = np.expand_dims(x, how)  # type: ignore[arg-type]
            case _:
                x = np.broadcast_to(x, how)  # type: ignore[arg-type]
    return x


def moved(x: Arranged, steps: Moves) -> Arranged:
    for kind, how in steps:
        match kind:
            case "permute":
                x = permuted(x, how)  # type: ignore[arg-type]
            case "view":
                x = viewed(x, extents(how))  # type: ignore[arg-type]
            case "unsqueeze":
                x = unsqueezed(x, how)  # type: ignore[arg-type]
            case _:
                x = expanded(x, extents(how))  # type: ignore[arg-type]
    return x


X = np.arange(24, dtype=np.float64).reshape(2, 3, 4)


@given(moves())
def test_moves_are_those_of_numpy(steps: Moves):
    found = evaluate(lambda x: plain(moved(arranged(x), steps)), X)
    np.testing.assert_array_equal(found, moved_array(X, steps))


@given(moves(), moves(), st.booleans())
def test_a_pointwise_op_aligns_its_operands(first: Moves, second: Moves, scaled: bool):
    a, b = moved_array(X, first), moved_array(X + 50, second)
    try:
        wanted = a - (b * 2 if scaled else b)
    except ValueError:
        return

    def function(x, y):
        left, right = moved(arranged(x), first), moved(arranged(y), second)
        right = pointwise(lambda v: v * 2, right) if scaled else right
        return plain(pointwise(ops.sub, left, right))

    np.testing.assert_array_equal(evaluate(function, X, X + 50), wanted)


@given(moves(), moves())
def test_products_align_the_axes_before_the_last_two(first: Moves, second: Moves):
    a, b = moved_array(X, first), moved_array(X + 50, second)
    if a.ndim < 2 or b.ndim < 2:
        return
    try:
        wanted = a @ np.swapaxes(b, -1, -2)
    except ValueError:
        return

    def function(x, y):
        left, right = moved(arranged(x), first), moved(arranged(y), second)
        right = permuted(right, (*range(right.rank - 2), right.rank - 1, right.rank - 2))
        (p, q), rebuilt = aligned([left, right], last=2)
        return plain(rebuilt(ops.matmul(p, q)))

    np.testing.assert_array_equal(evaluate(function, X, X + 50), wanted)


@given(moves(), st.integers(1, 2))
def test_the_last_axes_come_last_and_the_others_stay(steps: Moves, count: int):
    wanted = moved_array(X, steps)
    if wanted.ndim < count:
        return

    def function(x):
        value, rebuilt = trailing(moved(arranged(x), steps), count)
        return plain(rebuilt(value * 2))

    np.testing.assert_array_equal(evaluate(function, X), wanted * 2)


def test_permutations_views_and_pointwise_ops_append_no_transpose():
    def function(x):
        images = permuted(arranged(x), (0, 2, 1))  # [2, 4, 3]
        flat = viewed(pointwise(ops.exp, images), extents((2, 2, 2, 3)))
        back = viewed(permuted(flat, (0, 3, 1, 2)), extents((2, 3, 4)))
        return plain(pointwise(ops.add, back, arranged(x)))

    assert set(ops_of(function, X)) == {"exp", "reshape", "add"}


def test_an_axis_of_a_symbol_and_a_number_stays_split():
    program = Program()
    x = arranged(program.input("x", "float32", ("batch", 4, 5)))
    merged = viewed(x, (Extent(4, ("batch",)), Extent(5)))
    back = viewed(pointwise(ops.exp, merged), (Extent.of("batch"), Extent(2), Extent(10)))
    assert plain(back).shape == ("batch", 2, 10)


def test_factors_are_refined_in_row_major_order():
    batch = Extent.of("batch")
    assert refined([batch, Extent(4)], [batch, Extent(2), Extent(2)]) == [batch, Extent(2), Extent(2)]
    assert refined([Extent(4), Extent(6)], [Extent(2), Extent(12)]) == [Extent(2), Extent(2), Extent(6)]
    assert refined([Extent(4), Extent(6)], [Extent(6), Extent(4)]) is None
