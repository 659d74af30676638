"""Products of a scan that no carry waits for are made for all iterations at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from control.test_hoist import blocks, compiled, results, trained_states

from compiler import Program, Value, constant, gradients, ops, sgd
from compiler.passes import batch_products as subject
from compiler.passes.pipeline import PASSES
from compiler.passes.run_passes import run_passes
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks.walk import inside

XS = np.random.default_rng(3).normal(size=(4, 2, 3)).astype(np.float32)
Build = Callable[[Value], Value | tuple[Value, ...]]


def close(build: Build) -> list[list[str]]:
    """Compare results with and without the pass; return the op types of all blocks."""
    desc = compiled(build)
    one, other = results(desc, XS), results(compiled(build, "batch_products"), XS)
    for name, value in one.items():
        np.testing.assert_allclose(value, other[name], rtol=1e-5, atol=1e-6)
    return blocks(desc)


def trained(cell: Callable[..., Value], reverse: bool, save: str, *without: str) -> tuple[pb.ProgramDesc, np.ndarray]:
    program = Program(seed=3)
    x = program.input("x", "float32", (4, 2, 3))
    w, b = program.parameter("w", (3, 3), constant(0.3)), program.parameter("b", (3,), constant(0.1))
    u = program.parameter("u", (3, 3), constant(0.2))

    def step(c: Value, row: Value) -> tuple[Value, Value]:
        c = cell(row, c, w, u, b)
        return c, c @ w

    last, rows = ops.scan(step, x[0] * 0.0, x, reverse=reverse, save=save)
    program.minimize(ops.sum(last * last) + ops.sum(ops.sin(rows)), sgd(0.1))
    desc = program.compile(PASSES.without(*without)).desc
    states = trained_states(desc)
    return desc, np.concatenate([states[name].reshape(-1) for name in "wbu"])


def plain(row: Value, c: Value, w: Value, u: Value, b: Value) -> Value:
    return ops.tanh(row @ w + b + c @ u)


def gated(row: Value, c: Value, w: Value, u: Value, b: Value) -> Value:
    keep = ops.sigmoid((row * 0.5) @ w + c @ u)
    return keep * c + (1.0 - keep) * ops.tanh(row @ u + (keep * c) @ w + b)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("cell", [plain, gated])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("save", ["all", "carries"])
def test_a_recurrent_cell_trains_alike_and_its_loops_keep_only_products_of_the_carry(
    cell: Callable[..., Value], reverse: bool, save: str
):
    desc, found = trained(cell, reverse, save)
    np.testing.assert_allclose(found, trained(cell, reverse, save, "batch_products")[1], rtol=1e-5)
    train = next(entry for entry in desc.entries if entry.name == "train")
    outer, *inner = ([op.type for op in desc.blocks[n].ops] for n in inside(desc, [train.bindings[0].block]))
    assert outer.count("scan") == 2
    assert all("outer_sum" not in types for types in inner)
    if cell is plain and save == "all":
        assert sorted(types.count("matmul") for types in inner) == [1, 1]
        assert outer.count("outer_sum") == 3  # of row @ w, c @ u and c @ w


def test_a_map_that_is_a_product_alone_becomes_the_product():
    found = close(lambda x: ops.map(lambda row: ops.tanh(row * 2.0 + 1.0) @ ops.transpose(x[0]) + x[1, 0, 0], x))
    assert len(found) == 1
    assert "scan" not in found[0]
    assert found[0].count("matmul") == 1


def test_pointwise_ops_without_a_product_stay():
    outer, body = close(lambda x: ops.scan(lambda c, row: (c + ops.tanh(row), None), x[0], x)[0])
    assert "tanh" in body
    assert "tanh" not in outer


def test_a_product_of_the_carry_or_with_a_matrix_of_the_row_stays():
    def build(x: Value) -> Value:
        square = ops.matmul(x[0], x[1], transpose_a=True)

        def step(c: Value, row: Any) -> tuple[Value, None]:
            return (c @ square) * 0.1 + c @ ops.matmul(row, row, transpose_a=True), None

        return ops.scan(step, x[0], x)[0]

    _, body = close(build)
    assert body.count("matmul") == 3


def test_rows_of_lower_rank_are_broadcast_along_their_own_axes():
    def build(x: Value) -> Value:
        w = ops.matmul(x[0], x[1], transpose_a=True)

        def step(c: Value, rows: Any) -> tuple[Value, None]:
            return c + (rows[0] * rows[1]) @ w, None

        return ops.scan(step, x[0], (x, x[:, 0, :]))[0]

    outer, body = close(build)
    assert body == ["add"]
    assert "matmul" in outer


def test_the_gradient_of_a_loop_with_a_bound_adds_up_after_the_loop():
    def build(x: Value) -> Value:
        w = ops.matmul(x[0], x[1], transpose_a=True) * 0.1
        last, _ = ops.while_loop(lambda c: ops.sum(c * c) < 50.0, lambda c: ops.sin(c @ w) + c, x[2], max_trips=6)
        [dw] = gradients(ops.sum(last * last), [w])
        assert dw is not None
        return dw

    found = close(build)
    assert "outer_sum" in found[0]
    assert all("outer_sum" not in body for body in found[1:])


def test_a_stack_above_the_bound_is_not_made(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(subject, "MAX_STACK_BYTES", 50)
    desc, _ = trained(plain, False, "all")
    outer, *inner = ([op.type for op in desc.blocks[n].ops] for n in inside(desc, [desc.entries[0].bindings[0].block]))
    assert sum(types.count("outer_sum") for types in inner) == 3
    assert "outer_sum" not in outer


def test_batching_twice_changes_nothing():
    desc, _ = trained(plain, False, "all")
    before = [block.SerializeToString() for block in desc.blocks]
    run_passes(desc, PASSES.only("batch_products"))
    assert [block.SerializeToString() for block in desc.blocks] == before
