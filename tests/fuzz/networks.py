"""Random networks of layers, as lines of builder code: images, series and rows; trained with any optimizer.

What layers are fused with is what stands around them, so a network is a random stack: residuals, several reads of one
tensor, activations, norms, pooling, dropout, recurrent layers, attention, joined branches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

import prograd
from compiler import CompileError, OpError
from compiler.build.compiled import Compiled
from compiler.build.mixed import Mixed
from compiler.errors import LimitError
from fuzz import engines
from fuzz.building import WORDS
from fuzz.training import OPTIMIZERS
from fuzz.verdict import Verdict

ACTIVATIONS = ("relu", "tanh", "sigmoid", "gelu", "silu", "softplus", "elu", "leaky_relu", "hard_swish", "relu")
SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 32, 33)
JUDGE = f"{engines.SAID} network"


@dataclass(frozen=True)
class Network:
    """Lines of code that make a program, each of which may be left out; the last ones are always there."""

    seed: int
    start: tuple[str, ...]
    body: tuple[str, ...]
    end: tuple[str, ...]
    budget: float = 1.0
    spill: bool = False

    def __str__(self) -> str:
        more = f"# budget {self.budget}{', spill' if self.spill else ''}" if self.budget < 1 else ""
        return "\n".join([*self.start, *self.body, *self.end, more])


def drawn(seed: int) -> Network:
    """The network of that seed."""
    rng = np.random.default_rng((seed, 7))
    pick: Callable[..., object] = lambda *things: things[int(rng.integers(len(things)))]  # noqa: E731 - a word for it
    rank = int(rng.choice([2, 2, 1, 0]))
    dtype, batch = pick("float32", "float32", "float64"), pick(1, 2, 3, 5, 8, 16, 32, 40)
    extents = {0: (), 1: (pick(1, 2, 5, 8, 12, 17),), 2: (pick(4, 6, 8, 9, 14), pick(4, 6, 8, 11))}[rank]
    shape = (batch, *extents, pick(*SIZES[:9]))
    start = [
        f"program = Program('network', seed={int(rng.integers(100))})",
        f"x = program.input('x', {dtype!r}, {shape})",
        f"label = program.input('label', 'int64', ({batch},))",
    ]
    parts = {0: rows, 1: series, 2: images}[rank]
    body = [line for number in range(int(rng.integers(1, 7))) for line in parts(rng, number)]
    axes = tuple(range(1, rank + 1))
    classes = int(rng.integers(2, 12))
    end = [f"x = ops.{pick('mean', 'mean', 'sum', 'max')}(x, axis={axes})"] if axes else []
    end.append(f"scores = layers.dense(x, 'out', {classes})")
    loss = pick(
        "ops.softmax_cross_entropy(scores, label)",
        "ops.squared_error(scores, ops.tanh(scores * 0.5))",
        f"ops.mean(ops.square(ops.sigmoid(scores) - ops.one_hot(label, depth={classes}, dtype={dtype!r})))",
    )
    optimizer = pick(*OPTIMIZERS)
    more = f", accumulate={2}" if rng.random() < 0.2 else ""
    more += ", clip=global_norm(0.5)" if rng.random() < 0.2 and "clip" not in str(optimizer) else ""
    end.append(f"loss = {loss}")
    end.append(f"program.minimize(loss, {optimizer}{more})")
    if rng.random() < 0.5:
        end.append("program.metrics(accuracy=ops.accuracy(scores, label))")
    end.append(f"program.outputs(scores=scores{', hidden=x' if rng.random() < 0.4 else ''})")
    if rng.random() < 0.3:
        end.append("program.fetch('hidden', x)")
    budget = float(rng.choice([1.0, 1.0, 0.9, 0.7]))
    return Network(seed, tuple(start), tuple(body), tuple(end), budget, bool(rng.random() < 0.4))


def rows(rng: np.random.Generator, number: int) -> list[str]:
    """A part of a network over rows [n, c]."""
    size, name = int(rng.choice(SIZES)) * int(rng.choice([1, 1, 4])), f"d{number}"
    return _around(rng, name, f"layers.dense(x, '{name}', {size}{_bias(rng)})", "x.shape[-1]")


def series(rng: np.random.Generator, number: int) -> list[str]:
    """A part of a network over series [n, t, c]."""
    size, name = int(rng.choice(SIZES)), f"s{number}"
    heads = int(rng.choice([1, 2, 4]))
    both = rng.random() < 0.3
    attending = f"heads={heads}, causal={rng.random() < 0.5}, rotary={rng.random() < 0.2 and size > 1}"
    options = [
        f"layers.lstm(x, '{name}', {size}, bidirectional={both})[0]",
        f"layers.gru(x, '{name}', {size}, bidirectional={both})[0]",
        f"layers.attention(layers.dense(x, '{name}in', {8 * heads}), '{name}', {attending})",
        f"layers.transformer_block(layers.dense(x, '{name}in', {8 * heads}), '{name}', {attending})",
        f"layers.conv(x, '{name}', {size}, window={int(rng.choice([1, 2, 3]))}{_bias(rng)})",
        f"layers.dense(x, '{name}', {size}{_bias(rng)})",
        "ops.cumsum(x, axis=1) * 0.3",
        "ops.softmax(x, axis=-1)",
        "ops.transpose(ops.transpose(x, axis=(0, 2, 1)) * 1.5, axis=(0, 2, 1))",
        "ops.concat(x, ops.roll(x, shifts=(1,), axis=(1,)), axis=2)",
    ]
    return _around(rng, name, options[int(rng.integers(len(options)))], "x.shape[-1]")


def images(rng: np.random.Generator, number: int) -> list[str]:
    """A part of a network over images [n, h, w, c]."""
    size, name = int(rng.choice(SIZES)), f"c{number}"
    window, stride = int(rng.choice([1, 2, 3, 5])), int(rng.choice([1, 1, 2]))
    dilation = int(rng.choice([1, 1, 2])) if stride == 1 else 1
    pool = "max_pool" if rng.random() < 0.5 else "avg_pool"
    edges = "(0, 1, 1, 0)"
    options = [
        f"layers.conv(x, '{name}', {size}, window={window}, stride={stride}{_bias(rng)})",
        f"layers.conv(x, '{name}', {size}, window={window}, dilation={dilation}{_bias(rng)})",
        f"layers.conv(x, '{name}', x.shape[-1], window={window}, stride={stride}, groups=x.shape[-1])",
        f"layers.conv(x, '{name}', 2 * x.shape[-1], window=3, groups=x.shape[-1])",
        f"layers.conv_norm(x, '{name}', {size}, window={window}, stride={stride})",
        f"ops.{pool}(x, window=(2, 2), stride=(2, 2), padding={edges})",
        f"ops.{pool}(x, window=(3, 3), stride=(1, 1), padding=(1, 1, 1, 1))",
        f"ops.concat(x, layers.conv(x, '{name}', {size}, window={window}), axis=3)",
        "ops.pad(x, before=(0, 1, 0, 0), after=(0, 0, 2, 0), value=0.5)",
    ]
    return _around(rng, name, options[int(rng.integers(len(options)))], "x.shape[-1]")


def _around(rng: np.random.Generator, name: str, call: str, size: str) -> list[str]:
    """The call, and what may stand around it: a norm, an activation, a sum with what came in, dropout."""
    lines = [f"x, was = {call}, x"]
    norms = [f"layers.layer_norm(x, '{name}n')", f"layers.batch_norm(x, '{name}n')"]
    if rng.random() < 0.35:
        lines.append(f"x = {norms[int(rng.integers(2))]}")
    act = f"x = ops.{rng.choice(ACTIVATIONS)}(x)"
    if rng.random() < 0.6:
        lines.append(act)
    if rng.random() < 0.4:
        lines.append("x = x + was if x.shape == was.shape else x")
        if rng.random() < 0.5:
            lines.append(f"x = ops.{rng.choice(ACTIVATIONS)}(x)")
    if rng.random() < 0.2:
        lines.append(f"x = layers.dropout(x, {round(float(rng.uniform(0.1, 0.6)), 2)})")
    if rng.random() < 0.1:
        lines.append("x = x * ops.sigmoid(ops.mean(x, axis=(-1,), keepdims=True))")
    return lines


def _bias(rng: np.random.Generator) -> str:
    return ", bias=False" if rng.random() < 0.3 else ""


def compiled(network: Network, mixed: Mixed | str | None = None) -> Compiled:
    """Raises what a line raises, or compiling."""
    names = {**WORDS, "layers": prograd.layers}
    for line in (*network.start, *network.body, *network.end):
        exec(line, names)
    made = names["program"].compile(mixed=mixed)
    if network.budget < 1:
        arena = max(binding.plan.arena_bytes for entry in made.desc.entries for binding in entry.bindings)
        with suppress(LimitError):  # it needs that much
            made.plan(budget=math.ceil(arena * network.budget), spill=network.spill)
    return made


def judged(network: Network) -> Verdict:
    """Compare both engines on it."""
    try:
        program = compiled(network).desc
    except (OpError, CompileError) as error:
        return Verdict("skipped", JUDGE, "numbers", f"{type(error).__name__}: {str(error).split(':')[0][:60]}")
    try:
        return engines.judged(program, fed(network), (1, 2, 3), "network")
    except Exception as error:
        return Verdict("raised", JUDGE, type(error).__name__, str(error)[:300])


def fed(network: Network) -> dict[str, np.ndarray]:
    """Arrays for the inputs."""
    rng = np.random.default_rng((network.seed, 8))
    names = {**WORDS}
    for line in network.start:
        exec(line, names)
    x = names["x"]
    arrays = {"x": rng.standard_normal(x.shape).astype(x.dtype)}
    return arrays | {"label": rng.integers(0, 2, x.shape[0])}


def shrunk(network: Network, like: Verdict) -> Network:
    """Return the fewest lines that still fail in the same way."""

    def fails(candidate: Network) -> bool:
        try:
            found = judged(candidate)
        except Exception:  # a line reads what is gone
            return False
        return (found.word, found.judge) == (like.word, like.judge) and (
            like.word != "raised" or found.what == like.what
        )

    for at in range(len(network.body) - 1, -1, -1):
        smaller = replace(network, body=(*network.body[:at], *network.body[at + 1 :]))
        network = smaller if fails(smaller) else network
    for end in range(len(network.end) - 1, -1, -1):
        smaller = replace(network, end=(*network.end[:end], *network.end[end + 1 :]))
        network = smaller if fails(smaller) else network
    smaller = replace(network, budget=1.0)
    return smaller if fails(smaller) else network
