"""Attention of one position to a cache that a loop carries, beside attention of all positions at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from fuzz.engines import stepped
from subjects.commands import told

from compiler import OpError, Program, ops, sgd
from prograd import layers
from registry import Value
from runtime.errors import OutOfRange

N, LENGTH, SIZE, HEADS = 3, 7, 8, 2
X = np.random.default_rng(4).normal(size=(N, LENGTH, SIZE)).astype(np.float32)

Block = Callable[[Program, Value], Value]


def at_once(program: Program, x: Value) -> Value:
    """A block of a transformer, of all positions."""
    return layers.transformer_block(x, "block", HEADS, causal=True, rotary=True)


def in_a_loop(program: Program, x: Value) -> Value:
    """The same block, one position after the other."""

    def step(cache: tuple[Value, Value], row: tuple[Value, Value]) -> tuple[tuple[Value, Value], Value]:
        position, x = row
        y, cache = layers.cached_transformer_block(
            ops.unsqueeze(x, axis=1), "block", HEADS, cache, position, rotary=True
        )
        return cache, y[:, 0]

    rows = ops.transpose(x, axis=(1, 0, 2))
    positions = ops.range.on(program)(stop=x.shape[1])
    _, ys = ops.scan(step, layers.attention_cache(x, HEADS, int(x.shape[1])), (positions, rows))
    return ops.transpose(ys, axis=(1, 0, 2))


def trained(block: Block, engine: str, x: np.ndarray = X) -> list[dict[str, np.ndarray]]:
    """Return the losses and results of three steps with a block."""
    program = Program("block", seed=2)
    given = program.input("x", "float32", ("batch", *x.shape[1:]))
    y = block(program, layers.dense(given, "before", x.shape[2]))
    program.minimize(ops.mean(ops.square(y - given)), sgd(0.2))
    program.fetch("y", y)
    return stepped(program.compile(batch=len(x)).desc, "train", {"x": x}, 3, engine)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_loop_over_positions_has_the_values_and_gradients_of_all_at_once(engine: str):
    for one, other in zip(trained(in_a_loop, engine), trained(at_once, engine), strict=True):
        for name in one:
            np.testing.assert_allclose(one[name], other[name], rtol=2e-5, atol=2e-6, err_msg=name)


@pytest.mark.thorough
def test_ordinary_sizes_too():
    x = np.random.default_rng(5).normal(size=(4, 24, 64)).astype(np.float32)
    for one, other in zip(trained(in_a_loop, "native", x), trained(at_once, "native", x), strict=True):
        for name in one:
            np.testing.assert_allclose(one[name], other[name], rtol=2e-4, atol=2e-5, err_msg=name)


def test_a_cache_without_room_for_all_positions_holds_the_last_ones():
    program = Program("window")
    x = program.input("x", "float32", ("batch", LENGTH, SIZE))
    far = np.arange(LENGTH)[:, None] - np.arange(LENGTH)
    mask = ops.less(program.input("far", "int64", (LENGTH, LENGTH)), 3)

    def step(cache: tuple[Value, Value], row: tuple[Value, Value]) -> tuple[tuple[Value, Value], Value]:
        y, cache = layers.cached_attention(ops.unsqueeze(row[1], axis=1), "a", HEADS, cache, row[0])
        return cache, y[:, 0]

    wanted = layers.attention(x, "a", HEADS, mask=mask, causal=True)
    with program.scope("", reuse=True):
        rows = ops.range.on(program)(stop=LENGTH), ops.transpose(x, axis=(1, 0, 2))
        _, found = ops.scan(step, layers.attention_cache(x, HEADS, 3), rows)
    program.freeze("*")
    program.outputs(wanted=wanted, found=ops.transpose(found, axis=(1, 0, 2)))
    for engine in ("reference", "native"):
        seen, *_ = stepped(program.compile(batch=N).desc, "predict", {"x": X, "far": far}, 1, engine)
        np.testing.assert_allclose(seen["found"], seen["wanted"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("position", [-1, -4])
def test_a_negative_position_stops_the_run(engine: str, position: int):
    program = Program("negative")
    x, at = program.input("x", "float32", (N, 1, SIZE)), program.input("at", "int64", ())
    y, _ = layers.cached_attention(x, "a", HEADS, layers.attention_cache(x, HEADS, 4), at)
    program.freeze("*")
    program.outputs(y=y)
    with pytest.raises(OutOfRange) as caught:
        stepped(program.compile().desc, "predict", {"x": X[:, :1], "at": np.int64(position)}, 1, engine)
    sentence = f": index {position} is out of range: there are 4 places, from 0"
    assert str(caught.value).endswith(sentence)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda x, at: layers.cached_attention(x, "a", 2, layers.attention_cache(x, 2, 4), at),
            "cached_attention 'a': x is float32[batch, 7, 8], and has one position, as in x[:, i : i + 1]",
        ),
        (
            lambda x, at: layers.cached_attention(
                x[:, :1], "a", 2, layers.attention_cache(x, 2, 4), ops.unsqueeze(at, axis=0)
            ),
            "cached_attention 'a': position is int64[1], and all rows are at one position, int64[]",
        ),
        (
            lambda x, at: layers.cached_attention(x[:, :1], "a", 2, layers.attention_cache(x, 4, 9), at),
            "cached_attention 'a': the cache is float32[batch, 4, 9, 2] and float32[batch, 4, 9, 2]; "
            "attention_cache(x, 2, length) makes one",
        ),
        (lambda x, at: layers.attention_cache(x, 3, 4), "attention_cache: heads=3 does not divide 8 channels"),
        (lambda x, at: layers.attention_cache(x, 2, 0), "attention_cache: length=0 is no room for a position"),
    ],
)
def test_what_is_no_cache_is_one_sentence(call: Callable[[Value, Value], object], sentence: str):
    program = Program()
    x, at = program.input("x", "float32", ("batch", LENGTH, SIZE)), program.input("at", "int64", ())
    assert told(OpError, lambda: call(x, at)).endswith(sentence)
