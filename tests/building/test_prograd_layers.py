"""Layers against NumPy: what they compute, the states that they declare, and what they refuse."""

import re
import subprocess
import sys
from collections.abc import Callable
from math import erf
from pathlib import Path

import numpy as np
import pytest
from subjects.commands import told

from prograd import OpError, Program, Run, Value, adam, constant, layers, normal, ops
from registry import Block

Array = np.ndarray


def computed(build: Callable[[Program, Value], Value], x: Array, **more: Array) -> tuple[Array, dict[str, Array]]:
    """Return a layer's result for x outside training, and its states, drawn so that each one matters."""
    program = Program(seed=3)
    given = program.input("x", str(x.dtype), ("batch", *x.shape[1:]))
    for name, array in more.items():
        program.input(name, str(array.dtype), ("batch", *array.shape[1:]))
    program.outputs(y=build(program, given))
    if any(state.trainable for state in program.states.values()):
        program.freeze("*")  # there is no loss
    run = Run(program.compile(batch=len(x)).desc)
    random = np.random.default_rng(0)
    names = [name for name in program.states if name not in ("seed", "step", "total_steps")]
    for name in names:
        run.state[name] = random.uniform(0.5, 1.5, run.state[name].shape).astype(run.state[name].dtype)
    return run.predict({"x": x, **more})["y"], {name: run.state[name] for name in names}


def drawn(*shape: int) -> Array:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def shapes(states: dict[str, Array]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in states.items()}


def near(y: Array, expected: Array):
    np.testing.assert_allclose(y, expected, rtol=2e-4, atol=2e-5)


def normalised(x: Array, axes: tuple[int, ...]) -> Array:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def test_dense_is_a_product_and_a_bias():
    x = drawn(3, 5, 4)
    y, s = computed(lambda p, x: layers.dense(x, "d", 6), x)
    assert shapes(s) == {"d.w": (4, 6), "d.b": (6,)}
    near(y, x @ s["d.w"] + s["d.b"])
    y, s = computed(lambda p, x: layers.dense(x, "d", 6, bias=False), x.astype(np.float64))
    assert shapes(s) == {"d.w": (4, 6)}
    assert s["d.w"].dtype == np.float64
    near(y, x @ s["d.w"])


def test_conv_slides_filters_over_signals_images_and_volumes():
    for axes in (1, 2, 3):
        x = drawn(2, *(7,) * axes, 4)
        y, s = computed(lambda p, x: layers.conv(x, "c", 6, stride=2, groups=2, dilation=2), x)
        assert shapes(s) == {"c.w": (*(3,) * axes, 2, 6), "c.b": (6,)}
        near(y, convolved(x, s["c.w"], stride=2, groups=2, dilation=2, padding=2) + s["c.b"])


def test_conv_without_padding_and_with_a_window_of_an_even_extent():
    x = drawn(2, 6, 6, 3)
    y, s = computed(lambda p, x: layers.conv(x, "c", 5, window=2, padding="none", bias=False), x)
    assert shapes(s) == {"c.w": (2, 2, 3, 5)}
    near(y, convolved(x, s["c.w"]))
    y, s = computed(lambda p, x: layers.conv(x, "c", 5, window=4, bias=False), x)
    near(y, convolved(np.pad(x, ((0, 0), (1, 2), (1, 2), (0, 0))), s["c.w"]))


def convolved(x: Array, w: Array, *, stride: int = 1, groups: int = 1, dilation: int = 1, padding: int = 0) -> Array:
    """The sum of x under the window, place by place."""
    axes = x.ndim - 2
    x = np.pad(x, ((0, 0), *((padding, padding),) * axes, (0, 0)))
    spans = [dilation * (extent - 1) + 1 for extent in w.shape[:axes]]
    counts = [(x.shape[1 + i] - spans[i]) // stride + 1 for i in range(axes)]
    y = np.zeros((len(x), *counts, w.shape[-1]), x.dtype)
    size_in, size_out = w.shape[-2], w.shape[-1] // groups
    for place in np.ndindex(*counts):
        corner = tuple(slice(p * stride, p * stride + s, dilation) for p, s in zip(place, spans, strict=True))
        seen = x[:, *corner, :]
        for g in range(groups):
            part = seen[..., g * size_in : (g + 1) * size_in]
            filters = w[..., g * size_out : (g + 1) * size_out]
            y[:, *place, g * size_out : (g + 1) * size_out] = np.tensordot(part, filters, axes + 1)
    return y


def test_conv_norm_is_conv_and_batch_norm():
    x = drawn(2, 5, 5, 3)
    y, s = computed(lambda p, x: layers.conv_norm(x, "u", 4, stride=2), x)
    assert shapes(s) == {"u.w": (3, 3, 3, 4), **dict.fromkeys(("u.scale", "u.bias", "u.mean", "u.variance"), (4,))}
    z = convolved(x, s["u.w"], stride=2, padding=1)
    near(y, (z - s["u.mean"]) / np.sqrt(s["u.variance"] + 1e-5) * s["u.scale"] + s["u.bias"])


def test_batch_norm_trains_by_the_batch_and_runs_its_statistics_along():
    program = Program()
    x = drawn(8, 3)
    y = layers.batch_norm(program.input("x", "float32", ("batch", 3)), "n", momentum=0.75)
    program.fetch("y", y)
    program.minimize(ops.sum(y * y), adam(0.0))
    program.outputs(y=y)
    run = Run(program.compile(batch=8).desc)
    near(run.step({"x": x})["y"], normalised(x, (0,)))
    mean, variance = 0.25 * x.mean(0), 0.75 + 0.25 * x.var(0)
    near(run.state["n.mean"], mean)
    near(run.state["n.variance"], variance)
    near(run.predict(x)["y"], (x - mean) / np.sqrt(variance + 1e-5))


def test_layer_norm_and_group_norm():
    x = drawn(2, 5, 6)
    y, s = computed(lambda p, x: layers.layer_norm(x, "n"), x)
    assert shapes(s) == {"n.scale": (6,), "n.bias": (6,)}
    near(y, normalised(x, (2,)) * s["n.scale"] + s["n.bias"])
    y, s = computed(lambda p, x: layers.group_norm(x, "n", 3), x)
    assert shapes(s) == {"n.scale": (6,), "n.bias": (6,)}
    near(y, normalised(x.reshape(2, 5, 3, 2), (1, 3)).reshape(x.shape) * s["n.scale"] + s["n.bias"])


def test_embedding_and_positions():
    numbers = np.array([[1, 4, 0], [2, 2, 3]])
    y, s = computed(lambda p, n: layers.embedding(n, "e", 5, 4), numbers)
    assert shapes(s) == {"e.table": (5, 4)}
    near(y, s["e.table"][numbers])

    x = drawn(2, 3, 4)
    y, s = computed(lambda p, x: layers.positions(x, "p"), x)
    assert shapes(s) == {"p.table": (3, 4)}
    near(y, x + s["p.table"])
    y, s = computed(lambda p, x: layers.positions(x, "p", count=7), x)
    assert shapes(s) == {"p.table": (7, 4)}
    near(y, x + s["p.table"][:3])


def test_sinusoidal_positions_of_a_length_that_compiling_binds():
    x = drawn(2, 5, 4)
    angles = np.arange(5)[:, np.newaxis] / 100.0 ** (np.arange(0, 4, 2) / 4)
    expected = x + np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(5, 4)
    y, s = computed(lambda p, x: layers.sinusoidal_positions(x, base=100.0), x)
    assert s == {}
    near(y, expected)
    program = Program()
    given = program.input("x", "float32", ("batch", "length", 4))
    program.outputs(y=layers.sinusoidal_positions(given, base=100.0))
    near(Run(program.compile(batch=2, length=5).desc).predict(x)["y"], expected)


def attended(x: Array, seen: Array, s: dict[str, Array], name: str, heads: int, mask: Array) -> Array:
    """Attention, head by head and row by row."""
    q, k, v = (of @ s[f"{name}.{w}.w"] + s[f"{name}.{w}.b"] for of, w in ((x, "q"), (seen, "k"), (seen, "v")))
    y, d = np.zeros_like(x), x.shape[-1] // heads
    for n in range(len(x)):
        for h in range(heads):
            part = slice(h * d, (h + 1) * d)
            scores = np.where(mask[n], q[n, :, part] @ k[n, :, part].T / np.sqrt(d), -np.inf)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            y[n, :, part] = weights / weights.sum(-1, keepdims=True) @ v[n, :, part]
    return y @ s[f"{name}.out.w"] + s[f"{name}.out.b"]


def test_attention_of_a_sequence_to_itself_with_lengths_masks_and_order():
    x, n = 0.1 * drawn(2, 5, 6), np.array([5, 3])
    within = np.broadcast_to(np.arange(5) < n[:, np.newaxis, np.newaxis], (2, 5, 5))
    y, s = computed(lambda p, x: layers.attention(x, "a", 2, lengths=p["n"], causal=True), x, n=n)
    assert shapes(s) == {f"a.{w}": (6, 6) for w in ("q.w", "k.w", "v.w", "out.w")} | {
        f"a.{b}": (6,) for b in ("q.b", "k.b", "v.b", "out.b")
    }
    near(y, attended(x, x, s, "a", 2, within & np.tri(5, dtype=bool)))

    mask = np.random.default_rng(2).random((2, 1, 5, 5)) < 0.7
    mask |= np.eye(5, dtype=bool)
    y, s = computed(lambda p, x: layers.attention(x, "a", 3, mask=p["m"]), x, m=mask)
    near(y, attended(x, x, s, "a", 3, mask[:, 0]))
    mask[..., 0] = True  # so that each place sees one
    y, s = computed(lambda p, x: layers.attention(x, "a", 3, mask=p["m"], lengths=p["n"]), x, m=mask, n=n)
    near(y, attended(x, x, s, "a", 3, mask[:, 0] & within))


def test_attention_to_another_sequence_whose_lengths_compiling_binds():
    x, to, n = 0.1 * drawn(2, 4, 6), 0.1 * drawn(2, 7, 3), np.array([2, 7])
    program = Program()
    given = program.input("x", "float32", ("batch", "length", 6))
    seen = program.input("to", "float32", ("batch", "others", 3))
    lengths = program.input("n", "int64", ("batch",))
    program.outputs(y=layers.attention(given, "a", 2, to=seen, lengths=lengths))
    run = Run(program.compile(batch=2, length=4, others=7).desc)
    states = {name: run.state[name] for name in run.state if name.startswith("a.")}
    within = np.broadcast_to(np.arange(7) < n[:, np.newaxis, np.newaxis], (2, 4, 7))
    near(run.predict({"x": x, "to": to, "n": n})["y"], attended(x, to, states, "a", 2, within))


def test_rotary_attention_is_that_of_turned_queries_and_keys():
    x = 0.1 * drawn(2, 5, 4)

    def by_hand(program: Program, x: Value) -> Value:
        q, k, v = (ops.unsqueeze(layers.dense(x, f"a.{w}", 4), axis=(1,)) for w in "qkv")
        places = ops.range.on(program)(stop=5)
        q, k = ops.rotary_embedding(q, places), ops.rotary_embedding(k, places)
        return layers.dense(ops.squeeze(ops.scaled_dot_product_attention(q, k, v), axis=(1,)), "a.out", 4)

    y, s = computed(lambda p, x: layers.attention(x, "a", 1, rotary=True), x)
    expected, same = computed(by_hand, x)
    assert list(s) == list(same)
    np.testing.assert_array_equal(y, expected)


def test_lstm_is_its_formulas_step_by_step():
    x = drawn(2, 4, 3)
    y, s = computed(lambda p, x: layers.lstm(x, "r", 5)[0], x)
    assert shapes(s) == {"r.input": (3, 20), "r.state": (5, 20), "r.input_bias": (20,), "r.state_bias": (20,)}
    h = c = np.zeros((2, 5))
    for t in range(4):
        gates = x[:, t] @ s["r.input"] + s["r.input_bias"] + h @ s["r.state"] + s["r.state_bias"]
        i, f, g, o = np.split(gates, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        near(y[:, t], h)


def test_gru_is_its_formulas_step_by_step():
    x = drawn(2, 4, 3)
    y, s = computed(lambda p, x: layers.gru(x, "r", 5)[0], x)
    assert shapes(s) == {"r.input": (3, 15), "r.state": (5, 15), "r.input_bias": (15,), "r.state_bias": (15,)}
    h = np.zeros((2, 5))
    for t in range(4):
        inputs = np.split(x[:, t] @ s["r.input"] + s["r.input_bias"], 3, axis=1)
        states = np.split(h @ s["r.state"] + s["r.state_bias"], 3, axis=1)
        reset, update = (sigmoid(a + b) for a, b in zip(inputs[:2], states[:2], strict=True))
        h = (1 - update) * np.tanh(inputs[2] + reset * states[2]) + update * h
        near(y[:, t], h)


def test_recurrent_layers_lie_under_numbers_and_the_way_back_beside_them():
    x, n = drawn(2, 4, 3), np.array([4, 2])

    def build(program: Program, x: Value) -> Value:
        y, _, _ = layers.lstm(x, "r", 5, layers=2, bidirectional=True, lengths=program["n"], dropout=0.5)
        return y

    y, s = computed(build, x, n=n)
    assert y.shape == (2, 4, 10)
    assert not y[1, 2:].any()
    parts = ("r.layer0", "r.layer0.back", "r.layer1", "r.layer1.back")
    assert list(s) == [f"{p}.{w}" for p in parts for w in ("input", "state", "input_bias", "state_bias")]
    assert [s[f"{part}.input"].shape for part in parts] == [(3, 20), (3, 20), (10, 20), (10, 20)]


def test_a_residual_is_the_sum_and_dropout_leaves_x_outside_training():
    x = drawn(2, 4)
    y, s = computed(lambda p, x: layers.residual(x, lambda x: layers.dense(x, "d", 4), dropout=0.5), x)
    near(y, x + x @ s["d.w"] + s["d.b"])
    y, _ = computed(lambda p, x: layers.dropout(x, 0.5), x)
    np.testing.assert_array_equal(y, x)
    program = Program()
    given = program.input("x", "float32", ("batch", 4))
    assert layers.dropout(given, 0.0) is given


def test_a_transformer_block_is_attention_and_two_dense_layers_each_normalised_before():
    x, n = drawn(2, 5, 4), np.array([5, 2])
    y, s = computed(lambda p, x: layers.transformer_block(x, "b", 2, lengths=p["n"], dropout=0.1), x, n=n)
    assert {name: shape for name, shape in shapes(s).items() if "attention" not in name} == {
        **dict.fromkeys(("b.norm1.scale", "b.norm1.bias", "b.norm2.scale", "b.norm2.bias", "b.forward2.b"), (4,)),
        "b.forward1.w": (4, 16),
        "b.forward1.b": (16,),
        "b.forward2.w": (16, 4),
    }
    within = np.broadcast_to(np.arange(5) < n[:, np.newaxis, np.newaxis], (2, 5, 5))
    before = normalised(x, (2,)) * s["b.norm1.scale"] + s["b.norm1.bias"]
    z = x + attended(before, before, s, "b.attention", 2, within)
    hidden = (normalised(z, (2,)) * s["b.norm2.scale"] + s["b.norm2.bias"]) @ s["b.forward1.w"] + s["b.forward1.b"]
    gelu = hidden * (1 + np.vectorize(erf)(hidden / np.sqrt(2))) / 2
    near(y, z + gelu @ s["b.forward2.w"] + s["b.forward2.b"])


def test_every_state_of_a_layer_is_trained_and_decays_as_it_is_told():
    program = Program()
    x = program.input("x", "float32", ("batch", 6, 4))
    x = layers.positions(x, "p", initial=normal(0.0, 1.0))
    x = layers.transformer_block(x, "b", 2, causal=True)
    x = layers.group_norm(layers.conv(x, "c", 4, bias_decay_scale=0.0), "g", 2, decay_scale=0.5)
    x, _ = layers.gru(layers.batch_norm(x, "n"), "r", 3, initial=constant(0.1))
    y = layers.dense(x[:, -1], "d", 1)
    trained = {w.name for w, _ in program.minimize(ops.mean(ops.square(y)), adam())}
    assert trained == {name for name, state in program.states.items() if state.trainable}
    scales = {name: state.decay_scale for name, state in program.states.items() if state.trainable}
    assert {name for name, scale in scales.items() if scale != 1} == {"c.b", "g.scale", "g.bias"}
    run = Run(program.compile(batch=3).desc)
    assert np.isfinite(run.step({"x": drawn(3, 6, 4)})["loss"])


def test_scopes_stand_before_names_of_states_and_of_what_is_computed():
    program = Program()
    x = program.input("x", "float32", ("batch", 4))
    with program.scope("encoder"), program.scope("first"):
        y = layers.dense(x * 2.0, "dense", 4)
        program.buffer("seen", ())
    z = ops.relu(y)
    assert [name for name in program.states if "." in name] == [
        "encoder.first.dense.w",
        "encoder.first.dense.b",
        "encoder.first.seen",
    ]
    assert (y.name, z.name) == ("encoder.first.add_4", "relu_5")
    assert [name for name in program.tensors if name.startswith("constant")] == ["constant_1"]


def test_a_scope_that_uses_states_again_has_a_network_twice():
    program = Program()
    x, y = (program.input(name, "float32", ("batch", 4)) for name in "xy")
    for given in (x, y):
        with program.scope("twin", reuse=True):
            z = layers.batch_norm(layers.dense(given, "dense", 3), "norm")
            program.outputs(**{f"of_{given.name}": z})
    program.freeze("twin.*")  # there is no loss
    assert [name for name in program.states if name.startswith("twin")] == [
        f"twin.{name}" for name in ("dense.w", "dense.b", "norm.scale", "norm.bias", "norm.mean", "norm.variance")
    ]
    run = Run(program.compile(batch=2).desc)
    seen = run.predict({"x": drawn(2, 4), "y": drawn(2, 4)})
    np.testing.assert_array_equal(seen["of_x"], seen["of_y"])


def test_a_scope_without_a_name_uses_states_again_under_their_own_names():
    program = Program()
    x = program.input("x", "float32", ("batch", 4))
    y = layers.dense(x, "dense", 4)
    with program.scope("", reuse=True):
        program.outputs(y=y, again=layers.dense(y, "dense", 4))
    assert [name for name in program.states if name.startswith("dense")] == ["dense.w", "dense.b"]
    with pytest.raises(OpError) as caught:
        program.scope("")
    assert str(caught.value).endswith("scope '': a name is not empty, and all printable without a colon")


def refused(call: Callable[[Program], object]) -> str:
    program = Program()
    program.input("x", "float32", ("batch", 4, 6))
    program.input("n", "int64", ("batch",))
    program.input("t", "float32", ("batch", "length", 6))
    program.input("u", "float32", ("batch", "length"))
    with pytest.raises(OpError) as caught:
        call(program)
    line, _, sentence = str(caught.value).partition(": ")
    assert "test_prograd_layers.py:" in line
    return sentence


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda p: layers.dense(p["n"], "d", 3),
            "dense 'd': x is int64[batch], and a layer computes with floats; cast it first",
        ),
        (
            lambda p: layers.dense(p["u"], "d", 3),
            "dense 'd': x is float32[batch, length], whose last extent is the symbol 'length'; states have known sizes",
        ),
        (
            lambda p: layers.attention(p["x"], "a", 2, to=Program().input("x", "float32", (2, 3, 6))),
            "attention 'a', to: %x: float32[2, 3, 6] belongs to another program; build both in one",
        ),
        (
            lambda p: layers.conv(p["x"], "c", 3, window=(3, 3)),
            "conv 'c': window=(3, 3) has 2 numbers, and x has 1 such axes: float32[batch, 4, 6]",
        ),
        (
            lambda p: layers.dense(p["x"], "d", 2.5),
            "parameter 'd.w': the extent 2.5 is neither a size nor the name of a symbol",
        ),
        (
            lambda p: [layers.dense(p["x"], "d", 3) for _ in range(2)],
            "parameter 'd.w': the name is taken by another tensor of this program; choose another, or a scope",
        ),
        (
            lambda p: layers.conv(p["u"], "c", 3),
            "conv 'c': x is float32[batch, length] and has 2 axes, not 3 or more: rows first, channels last",
        ),
        (lambda p: layers.conv(p["x"], "c", 3, groups=4), "conv 'c': groups=4 does not divide 6 channels"),
        (
            lambda p: layers.conv(p["x"], "c", 3, padding="valid"),
            "conv 'c': padding='valid' is neither 'same' nor 'none'",
        ),
        (
            lambda p: layers.positions(p["t"], "p"),
            "positions 'p': x is float32[batch, length, 6], whose length is a symbol; "
            "give count, the longest length there is",
        ),
        (
            lambda p: layers.positions(p["x"], "p", count=3),
            "positions 'p': count=3 places are fewer than the 4 of x, which is float32[batch, 4, 6]",
        ),
        (lambda p: layers.attention(p["x"], "a", 4), "attention 'a': heads=4 does not divide 6 channels"),
        (
            lambda p: layers.attention(p["x"], "a", 2, lengths=p["n"], mask=p["x"]),
            "attention 'a': mask is float32[batch, 4, 6], and with lengths a mask is bool; "
            "make one mask of both, and give no lengths",
        ),
        (lambda p: p.scope("a:b"), "scope 'a:b': a name is not empty, and all printable without a colon"),
    ],
)
def test_what_a_layer_cannot_do_is_refused_with_the_line(call: Callable[[Program], object], sentence: str):
    assert refused(call) == sentence


def test_a_state_that_is_used_again_has_the_type_that_it_had():
    def twice(program: Program) -> None:
        layers.dense(program["x"], "d", 3)
        with program.scope("d", reuse=True):
            program.buffer("w", (6, 4))

    assert refused(twice) == "buffer 'd.w': it is there as a parameter float32[6, 3], and used again as float32[6, 4]"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda p: layers.dense(np.zeros((2, 3)), "d", 3),
            "dense 'd': x is a ndarray and not a tensor of a program; feed it as an input",
        ),
        (
            lambda p: layers.embedding("text", "e", 3, 4),
            "embedding 'e': x is a str and not a tensor of a program; feed it as an input",
        ),
        (
            lambda p: layers.dense(Value(Block(), "x", p["x"].type), "d", 3),
            "dense 'd': %x: float32[batch, 4, 6] belongs to a block without a program, so there is no place for states",
        ),
    ],
)
def test_what_is_no_tensor_of_a_program_is_refused(call: Callable[[Program], object], sentence: str):
    program = Program()
    program.input("x", "float32", ("batch", 4, 6))
    assert told(OpError, lambda: call(program)) == sentence


def test_windows_strides_and_dilations_are_numbers_for_all_axes_or_for_each():
    def weights(window: int | tuple[int, ...], stride: int | tuple[int, ...], dilation: int | tuple[int, ...]):
        program = Program()
        x = program.input("x", "float32", ("batch", 9, 9, 2))
        y = layers.conv(x, "c", 3, window=window, stride=stride, dilation=dilation)
        return program.block.types["c.w"].shape, y.shape

    assert weights(3, 2, 1) == weights((3, 3), (2, 2), (1, 1)) == ((3, 3, 2, 3), ("batch", 5, 5, 3))
    assert weights((1, 5), (1, 3), (1, 2)) == ((1, 5, 2, 3), ("batch", 9, 3, 3))


def test_windows_of_operators_are_one_number_or_a_tuple():
    def calls(window: int | tuple[int, ...], edge: int | tuple[int, ...]) -> list[object]:
        program = Program()
        x = program.input("x", "float32", ("batch", 9, 9, 2))
        w = program.parameter("w", (3, 3, 2, 4))
        program.outputs(
            most=ops.max_pool2d(x, window=window, stride=window, padding=edge),
            mean=ops.avg_pool2d(x, window=window, stride=window, padding=edge),
            rows=ops.unfold(x, window=window, stride=window, dilation=window, padding=edge),
            image=ops.conv2d(x, w, stride=window, dilation=window, padding=edge),
        )
        return [(op.type, list(op.attributes)) for op in program.compile(batch=2).desc.blocks[-1].ops]

    assert calls(2, 1) == calls((2, 2), (1, 1, 1, 1)) == calls((2, 2), (1, 1))


def test_the_page_about_layers_runs_and_names_them_all():
    page = (Path(__file__).parents[2] / "docs" / "layers.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 2
    for block in blocks:
        subprocess.run([sys.executable, "-W", "error", "-c", block], check=True)
    named = re.findall(r"^\| `(\w+)\(", page, re.MULTILINE)
    assert named
    assert set(named) == set(dir(layers))
