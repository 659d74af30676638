"""Times greedy decoding of 256 codes by a transformer of 4 layers of 256, beside PyTorch and JAX.

    python benchmarks/peers/decoding.py [SECONDS [THREADS]]      10 seconds and two threads unless others are given

Needs PyTorch and JAX. All three have the same weights and a cache of keys and values, and must write the same codes.
prograd runs an entry that loops; PyTorch computes eagerly, with views of what its cache holds so far; JAX runs a
`lax.while_loop` that is compiled as a whole. Each subject has a process of its own, and they run in turns; a number is
the median over runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
from turns import in_turns, print_turns

from prograd import Program, Value, layers, normal, ops
from runtime import Run

if TYPE_CHECKING:
    import jax

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
THREADS = int(sys.argv[2]) if len(sys.argv) > 2 else 2

LAYERS, SIZE, HEADS, CODES, WRITTEN = 4, 256, 8, 256, 256
EPSILON = 1e-5
START: Final = 7

Weights = dict[str, np.ndarray]
Decode = Callable[[int], np.ndarray]
"""A function from the first code to the 256 after it."""


def main(seconds: float, threads: int) -> None:
    makers = {"prograd": in_prograd, "PyTorch, eager": in_torch, "JAX, lax.while_loop": in_jax}
    turns = in_turns({name: partial(_maker, make, threads) for name, make in makers.items()}, seconds)
    wanted = turns["prograd"].results[0]
    for name, ([codes], _) in turns.items():
        same = int(np.argmin(np.append(codes == wanted, False)))
        print(f"{name}: {same} of {WRITTEN} codes as prograd, {len(set(codes.tolist()))} different ones")
    print_turns(turns, WRITTEN, "a code")


def _maker(make: Callable[[int], Decode], threads: int) -> Callable[[], np.ndarray]:
    return partial(make(threads), START)


def _weights() -> Weights:
    run = Run(program().compile(batch=1), threads=1)
    return {name: np.array(run.state[name]) for name in run.state}


def in_prograd(threads: int) -> Decode:
    """Return the decoder as an entry of a program."""
    run = Run(program().compile(batch=1), threads=threads)
    return lambda start: run.predict({"start": np.array([start])}, entry="write")["codes"][0]


def program() -> Program:
    """Return a program whose entry `write` decodes."""
    program = Program("decoding", seed=1)
    start = program.input("start", "int64", ("batch",))
    positions = program.parameter("positions", (WRITTEN, SIZE), normal(0.0, 1.0))
    table = program.parameter("table", (CODES, SIZE), normal(0.0, 1.0))
    like = ops.gather(table, start)

    def step(carry: tuple[Value, tuple[tuple[Value, Value], ...]], row: tuple[Value, Value]) -> tuple[object, Value]:
        (code, caches), (position, place) = carry, row
        x = ops.unsqueeze(ops.gather(table, code) + place, axis=1)
        after: list[tuple[Value, Value]] = []
        for i, cache in enumerate(caches):
            x, cache = layers.cached_transformer_block(x, f"block{i}", HEADS, cache, position, activation=ops.relu)
            after.append(cache)
        logits = layers.dense(layers.layer_norm(x[:, 0], "norm"), "output", CODES)
        code = ops.argmax(logits, axis=-1)
        return (code, tuple(after)), code

    caches = tuple(layers.attention_cache(like, HEADS, WRITTEN) for _ in range(LAYERS))
    _, codes = ops.scan(step, (start, caches), (ops.range.on(program)(stop=WRITTEN), positions))
    program.freeze("*")
    program.entry("write", codes=ops.transpose(codes, axis=(1, 0)))
    return program


def in_torch(threads: int) -> Decode:
    """Return the decoder in PyTorch, with one product for queries, keys and values."""
    import torch
    import torch.nn.functional as F  # noqa: N812 - PyTorch's own custom

    torch.set_num_threads(threads)
    weights = _weights()
    w = {name: torch.from_numpy(array) for name, array in weights.items() if array.dtype == np.float32}
    parts = "qkv"
    blocks = [
        {
            "qkv": torch.cat([w[f"block{i}.attention.{part}.w"] for part in parts], 1).T.contiguous(),
            "qkv_bias": torch.cat([w[f"block{i}.attention.{part}.b"] for part in parts]),
        }
        | {name: w[f"block{i}.{name}.w"].T.contiguous() for name in ("attention.out", "forward1", "forward2")}
        for i in range(LAYERS)
    ]
    output = w["output.w"].T.contiguous()

    @torch.inference_mode()
    def decode(start: int) -> np.ndarray:
        caches = torch.zeros(LAYERS, 2, 1, HEADS, WRITTEN, SIZE // HEADS)
        code, found = torch.tensor([start]), torch.zeros(WRITTEN, dtype=torch.int64)
        for position in range(WRITTEN):
            x = w["table"][code] + w["positions"][position]
            for i, block in enumerate(blocks):
                y = F.layer_norm(x, (SIZE,), w[f"block{i}.norm1.scale"], w[f"block{i}.norm1.bias"], EPSILON)
                q, k, v = F.linear(y, block["qkv"], block["qkv_bias"]).view(1, 3, HEADS, 1, SIZE // HEADS).unbind(1)
                caches[i, 0, :, :, position : position + 1] = k
                caches[i, 1, :, :, position : position + 1] = v
                keys, values = caches[i, :, :, :, : position + 1]
                y = F.scaled_dot_product_attention(q, keys, values).reshape(1, SIZE)
                x = x + F.linear(y, block["attention.out"], w[f"block{i}.attention.out.b"])
                y = F.layer_norm(x, (SIZE,), w[f"block{i}.norm2.scale"], w[f"block{i}.norm2.bias"], EPSILON)
                y = torch.relu_(F.linear(y, block["forward1"], w[f"block{i}.forward1.b"]))
                x = x + F.linear(y, block["forward2"], w[f"block{i}.forward2.b"])
            x = F.layer_norm(x, (SIZE,), w["norm.scale"], w["norm.bias"], EPSILON)
            code = F.linear(x, output, w["output.b"]).argmax(-1)
            found[position] = code[0]
        return found.numpy()

    return decode


def in_jax(threads: int) -> Decode:
    """Return the decoder in JAX: one compiled function of the weights and the first code."""
    os.environ.setdefault("XLA_FLAGS", f"--xla_cpu_multi_thread_eigen={str(threads > 1).lower()}")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax
    import jax.numpy as jnp

    weights = _weights()
    w = {name: jnp.asarray(array) for name, array in weights.items() if array.dtype == np.float32}
    for i in range(LAYERS):
        for kind in "wb":
            parts = [w.pop(f"block{i}.attention.{part}.{kind}") for part in "qkv"]
            w[f"block{i}.qkv.{kind}"] = jnp.concatenate(parts, -1)

    def norm(w: dict[str, jax.Array], x: jax.Array, name: str) -> jax.Array:
        mean = x.mean(-1, keepdims=True)
        variance = jnp.square(x - mean).mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + EPSILON) * w[f"{name}.scale"] + w[f"{name}.bias"]

    def dense(w: dict[str, jax.Array], x: jax.Array, name: str) -> jax.Array:
        return x @ w[f"{name}.w"] + w[f"{name}.b"]

    @jax.jit
    def decode(w: dict[str, jax.Array], start: jax.Array) -> jax.Array:
        def step(carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            position, code, found, caches = carry
            x = w["table"][code][None] + w["positions"][position]
            known = jnp.arange(WRITTEN) <= position
            for i in range(LAYERS):
                qkv = dense(w, norm(w, x, f"block{i}.norm1"), f"block{i}.qkv").reshape(3, HEADS, SIZE // HEADS)
                caches = jax.lax.dynamic_update_slice(caches, qkv[None, 1:, :, None], (i, 0, 0, position, 0))
                keys, values = caches[i]
                scores = jnp.einsum("hd,hsd->hs", qkv[0], keys) / (SIZE // HEADS) ** 0.5
                share = jax.nn.softmax(jnp.where(known, scores, -jnp.inf), -1)
                x = x + dense(w, jnp.einsum("hs,hsd->hd", share, values).reshape(1, SIZE), f"block{i}.attention.out")
                y = jax.nn.relu(dense(w, norm(w, x, f"block{i}.norm2"), f"block{i}.forward1"))
                x = x + dense(w, y, f"block{i}.forward2")
            code = dense(w, norm(w, x, "norm"), "output")[0].argmax()
            return position + 1, code, found.at[position].set(code), caches

        caches = jnp.zeros((LAYERS, 2, HEADS, WRITTEN, SIZE // HEADS))
        first = jnp.int32(0), start, jnp.zeros(WRITTEN, jnp.int32), caches
        return jax.lax.while_loop(lambda carry: carry[0] < WRITTEN, step, first)[2]

    return lambda start: np.asarray(decode(w, jnp.int32(start)))


if __name__ == "__main__":
    main(SECONDS, THREADS)
