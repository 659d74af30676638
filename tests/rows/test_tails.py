"""Rows that do not fill a step: they stand in one nevertheless where no row sees another one."""

from __future__ import annotations

import numpy as np
import pytest

import runtime
from compiler import Program, ops, sgd
from prograd import layers
from runtime.rows.row_wise import is_row_wise

BATCH = 8
RNG = np.random.default_rng(5)
X = RNG.normal(size=(BATCH, 4, 6)).astype(np.float32)


def weights(program, *shape):
    return program.parameter(f"w{len(program.states)}", shape)


APART = {
    "elementwise": lambda p, x: ops.tanh(x * 2.0 + weights(p, 6)) - ops.maximum(x, 0.5),
    "where": lambda p, x: ops.where(x > 0.0, x, ops.exp(x)),
    "dense": lambda p, x: ops.relu(layers.dense(ops.flatten(x), "d", 5)),
    "stacks": lambda p, x: ops.softmax(x @ weights(p, 6, 3), axis=-1),
    "in rows": lambda p, x: x @ ops.transpose(x, axis=(0, 2, 1)),
    "reductions": lambda p, x: ops.sum(x, axis=(1,)) / ops.max(x, axis=(-2,)) + ops.mean(x, axis=(1, 2))[:, None],
    "orders": lambda p, x: ops.sort(x, axis=1) + ops.cumsum(x, axis=-1),
    "choices": lambda p, x: ops.one_hot(ops.argmax(x, axis=-1), depth=6),
    "norms": lambda p, x: ops.rms_norm(ops.layer_norm(x, axis=-1)[0], axis=-1)[0],
    "places": lambda p, x: ops.concat(x[:, ::-1], ops.pad(x, before=(0, 1, 0), after=(0, 0, 2))[:, 1:, :6], axis=1),
    "splits": lambda p, x: ops.add(*ops.split(x, sizes=(3, 3), axis=2)),
    "images": lambda p, x: ops.max_pool2d(layers.conv(x[..., None], "c", 2), window=(2, 2), stride=(2, 2)),
    "groups": lambda p, x: layers.group_norm(x, "g", groups=2),
    "embedding": lambda p, x: layers.embedding(ops.argmax(x, axis=-1), "e", 6, 3),
    "attention": lambda p, x: layers.attention(x, "a", heads=2, causal=True),
    "recurrent": lambda p, x: ops.concat(layers.lstm(x, "l", 3)[0], layers.gru(x, "r", 2)[0], axis=-1),
    "losses": lambda p, x: ops.squared_error(x, x * 0.5, reduction="none"),
}  # fmt: skip
"""Operators whose results for one row do not depend on other rows."""

TOGETHER = {
    "a sum over rows": lambda p, x: x - ops.sum(x, axis=(0,), keepdims=True),
    "a sum of all": lambda p, x: x - ops.sum(x),
    "softmax over rows": lambda p, x: ops.softmax(x, axis=0),
    "running sums": lambda p, x: ops.cumsum(x, axis=0),
    "the mean taken away": lambda p, x: x - ops.mean(ops.flatten(x), axis=(0,))[:6],
    "rows by rows": lambda p, x: ops.flatten(x) @ ops.transpose(ops.flatten(x)),
    "another axis 0": lambda p, x: ops.transpose(ops.reshape(x, shape=(24, "n"))),
    "rows looked up": lambda p, x: ops.gather(x, ops.argmax(x[:, 0], axis=0), axis=0)[None, 0] + x,
    "the largest of all rows": lambda p, x: x * ops.max(x, axis=(0,)),
    "random numbers": lambda p, x: x + ops.uniform.on(p)(shape=("n", 4, 6)),
}
"""Operators whose results for one row depend on other rows, or may depend on them."""


def run_of(make, batch=BATCH):
    program = Program(seed=3)
    x = program.input("x", "float32", ("n", 4, 6))
    program.outputs(y=make(program, x))
    return runtime.Run(program.compile(n=batch))


@pytest.mark.parametrize("name", APART)
def test_rows_that_are_left_have_the_bits_that_they_have_in_a_full_step(name):
    run = run_of(APART[name])
    whole = run.predict(X)["y"]
    assert is_row_wise(run.session.bindings("predict")[0], ())
    steps = []
    run.session.stepper.step = lambda executor: (steps.append(1), executor.step())
    for count in (2, 5, 7):
        steps.clear()
        found = run.predict(X[:count])["y"]
        assert found.shape == (count, *whole.shape[1:])
        assert np.array_equal(found, whole[:count])
        assert len(steps) == 1
    other = X.copy()
    other[3] *= -1.5
    changed = run.predict(other)["y"]
    assert np.array_equal(np.delete(changed, 3, 0), np.delete(whole, 3, 0)), "no row sees another one"
    assert not np.array_equal(changed[3], whole[3])


@pytest.mark.parametrize("name", TOGETHER)
def test_what_does_not_keep_rows_apart_is_computed_from_the_rows_that_there_are(name):
    run = run_of(TOGETHER[name])
    assert not is_row_wise(run.session.bindings("predict")[0], ())
    if name != "random numbers":
        single = run_of(TOGETHER[name], 1)
        alone = np.concatenate([single.predict(row[None])["y"] for row in X[:3]])
        np.testing.assert_array_equal(run.predict(X[:3])["y"], alone)


def test_an_entry_is_not_row_wise_if_one_thing_that_it_gives_is_not():
    program = Program()
    x = program.input("x", "float32", ("n", 3))
    program.outputs(y=x * 2.0)
    program.entry("sums", y=x * 2.0, sum=ops.sum(x))
    run = runtime.Run(program.compile(n=4))
    assert is_row_wise(run.session.bindings("predict")[0], ())
    assert not is_row_wise(run.session.bindings("sums")[0], ())
    assert run.predict(np.ones((3, 3), np.float32), entry="sums")["y"].shape == (3, 3)


def test_a_tail_of_a_few_rows_is_computed_row_by_row():
    run = run_of(APART["dense"], 64)
    sizes = []
    step = run.session.stepper.step
    run.session.stepper.step = lambda executor: (sizes.append(len(executor.feeds["x"])), step(executor))
    run.predict(np.tile(X, (9, 1, 1))[:67])
    run.predict(np.tile(X, (9, 1, 1))[:70])
    assert sizes == [64, 1, 1, 1, 64, 64]


def test_smaller_steps_of_an_evaluation_are_made_where_they_were_compiled():
    program = Program()
    x, w = program.input("x", "float32", ("n", 3)), program.parameter("w", (3,))
    loss = ops.mean(ops.square(ops.sum(x * w, axis=(1,))))
    program.minimize(loss, sgd(0.1))
    compiled = program.compile(n=(16, 4))
    run = runtime.Run(compiled)
    assert [bound.rows for bound in run.session.bindings("evaluate")] == [16, 4, 1]
    sizes = []
    step = run.session.stepper.step
    run.session.stepper.step = lambda executor: (sizes.append(len(executor.feeds["x"])), step(executor))
    rows = RNG.normal(size=(31, 3)).astype(np.float32)
    found = run.evaluate({"x": rows})["loss"]
    assert sizes == [16, 4, 4, 4, 1, 1, 1]
    assert found == pytest.approx(np.mean(np.square(rows @ run.state["w"])), rel=1e-5)
