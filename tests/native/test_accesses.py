"""Tensors that are part of another one's memory, read there by others, against the reference engine."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subjects.steps import bound_block

import runtime
from compiler import Program, ops, sgd
from runtime.codegen.kernels.moves import Layout, row_major
from runtime.codegen.lowering.passes.order_additions import with_additions
from runtime.codegen.lowering.passes.read import read_nodes
from runtime.codegen.lowering.passes.resolve_views import with_views


def left(program: Program, entry: str = "predict") -> tuple[list[str], list[str]]:
    """The ops that are left to compute, and the accesses as they are printed."""
    block = with_views(with_additions(read_nodes(bound_block(program.compile(batch=3).desc, entry))))
    return [node.op.type for node in block.nodes], [f"{name} = {access}" for name, access in block.views.items()]


def compared(program: Program, feeds: dict[str, np.ndarray], entry: str = "predict", steps: int = 1) -> None:
    found = []
    for engine in ("native", "reference"):
        run = runtime.Run(program.compile(batch=3).desc, engine=engine)
        results = [run.step(feeds, entry=entry) for _ in range(steps)]
        found.append([*results, {name: array.copy() for name, array in run.states.arrays.items()}])
    for native, reference in zip(*found, strict=True):
        for name, expected in reference.items():
            np.testing.assert_allclose(native[name], expected, rtol=1e-10, atol=1e-10, err_msg=name)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape)


def test_heads_are_read_where_they_are():
    program = Program("heads")
    x = program.input("x", "float64", ("batch", 5, 2 * 32))
    heads = ops.transpose(ops.reshape(x, shape=("batch", 5, 2, 32)), axis=(0, 2, 1, 3))
    first, second = ops.split(heads, sizes=(1, 1), axis=1)
    program.outputs(scores=ops.matmul(heads, heads, transpose_b=True), square=heads * heads, sum=first + second)
    assert left(program) == (
        ["matmul", "mul", "add"],
        [
            "transpose_2 = x from 0 by (320, 32, 64, 1)",
            "split_3.0 = x from 0 by (320, 0, 64, 1)",
            "split_3.1 = x from 32 by (320, 0, 64, 1)",
        ],
    )
    compared(program, {"x": numbers(3, 5, 64)})


def test_what_would_be_gathered_is_copied():
    program = Program("gathered")
    x = program.input("x", "float64", ("batch", 40))
    program.outputs(turned=-ops.transpose(x), even=-x[:, ::2], few=-x[:, 3:4])
    assert left(program) == (["transpose", "neg", "slice", "neg", "slice", "neg"], [])
    compared(program, {"x": numbers(3, 40)})


def test_an_update_does_not_write_over_what_it_reads_elsewhere():
    program = Program("symmetric")
    w = program.parameter("w", (4, 4, 32), dtype="float64")
    scale = program.input("scale", "float64", ("batch",))
    program.minimize(ops.sum(w * ops.transpose(w, axis=(1, 0, 2))) * ops.mean(scale), sgd(0.1))
    assert "transpose" not in left(program, "train")[0]
    compared(program, {"scale": numbers(3)}, "train", steps=3)


def test_what_the_end_of_a_step_reads_is_copied():
    program = Program("fetched")
    x = program.input("x", "float64", ("batch", 4, 32))
    turned = ops.transpose(x, axis=(1, 0, 2))
    program.outputs(turned=turned, negative=-turned)
    assert left(program)[0] == ["transpose", "neg"]
    compared(program, {"x": numbers(3, 4, 32)})


EXTENTS = st.sampled_from([1, 2, 3, 8, 16, 32])


@st.composite
def chains(draw: st.DrawFn) -> tuple[Program, tuple[int, ...]]:
    """Ops that pick elements, one after the other, and what reads them."""
    program = Program("chain")
    shape = tuple(draw(st.lists(EXTENTS, min_size=1, max_size=3)))
    x = program.input("x", "float64", ("batch", *shape))
    y = x * 2.0 if draw(st.booleans()) else x
    picked = []
    for _ in range(draw(st.integers(1, 4))):
        match draw(st.sampled_from(["transpose", "slice", "reshape", "broadcast_to"])):
            case "transpose":
                y = ops.transpose(y, axis=tuple(draw(st.permutations(range(y.rank)))))
            case "slice":
                axis = draw(st.integers(0, y.rank - 1))
                extent = y.shape[axis]
                if isinstance(extent, int) and extent > 1:
                    start = draw(st.integers(0, extent - 1))
                    y = y[(*[slice(None)] * axis, slice(start, draw(st.integers(start + 1, extent))))]
            case "reshape":
                axis = draw(st.integers(0, y.rank))
                y = ops.reshape(y, shape=(*y.shape[:axis], 1, *y.shape[axis:]))
                pairs = [i for i in range(y.rank - 1) if all(isinstance(e, int) for e in y.shape[i : i + 2])]
                if pairs:
                    i = draw(st.sampled_from(pairs))
                    y = ops.reshape(y, shape=(*y.shape[:i], y.shape[i] * y.shape[i + 1], *y.shape[i + 2 :]))
            case _:
                y = ops.broadcast_to(y, shape=(2, *y.shape))
        picked.append(y)
    read = draw(st.sampled_from(picked))
    results = {"negative": -read, "sum": ops.sum(read, axis=(draw(st.integers(0, read.rank - 1)),))}
    if y.rank >= 2:
        results["product"] = ops.matmul(y, y, transpose_b=True)
        results["joined"] = ops.concat(y, -y, axis=-1) if isinstance(y.shape[-1], int) else y + y
    program.outputs(**results)
    program.minimize(ops.sum(ops.square(y)) * program.parameter("w", (), dtype="float64"), sgd(0.1))
    return program, shape


@pytest.mark.thorough
@settings(max_examples=10, deadline=None)
@given(chain=chains())
def test_chains_of_picking(chain: tuple[Program, tuple[int, ...]]):
    program, shape = chain
    compared(program, {"x": numbers(3, *shape)})
    compared(program, {"x": numbers(3, *shape)}, "train", steps=2)


@pytest.mark.thorough
@settings(max_examples=200)
@given(shape=st.lists(EXTENTS, min_size=1, max_size=4), data=st.data())
def test_a_shape_is_given_only_where_nothing_has_to_move(shape: list[int], data):
    order = data.draw(st.permutations(range(len(shape))))
    plain = row_major(shape)
    turned = Layout(tuple(shape[axis] for axis in order), tuple(plain[axis] for axis in order))
    elements = np.arange(np.prod(shape)).reshape(shape).transpose(order)
    to = tuple(data.draw(st.permutations(elements.shape)))
    found, copied = turned.reshaped(to), elements.reshape(to)
    if found is None:
        assert not np.shares_memory(copied, elements)
    else:
        assert copied.tolist() == picked(elements.size, to, found.strides)


def picked(size: int, shape: tuple[int, ...], steps: tuple[int, ...]) -> list:
    """The numbers from 0 to the size that an access names, one by one."""
    places = [sum(i * step for i, step in zip(at, steps, strict=True)) for at in np.ndindex(*shape)]
    return np.arange(size)[places].reshape(shape).tolist()
