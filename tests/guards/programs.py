"""Good programs to run guarded: the networks of ordinary sizes here, and all that the repository has as files.

Ordinary are 32 rows, widths of 64 to 256, and 32 or 128 time steps; some widths are no multiple of a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from prograd import Program, adam, adamw, global_norm, layers, ops, sgd
from prograd_proto.files import END, canonical_bytes

ROOT: Final = Path(__file__).parents[2]

ROWS: Final = 32


def files() -> Iterator[Path]:
    """Yield the compiled programs of the examples and of the golden files."""
    yield from sorted((ROOT / "examples").glob("*.pb"))
    yield from sorted((ROOT / "tests/golden/compiled").glob("*.pb"))
    yield from sorted((ROOT / "tests/golden/operators").glob("*.pb"))


def mlp(program: Program) -> None:
    """Train three dense layers with dropout."""
    x, label = program.input("x", "float32", (ROWS, 200)), program.input("label", "int64", (ROWS,))
    h = layers.dropout(ops.relu(layers.dense(x, "a", 256)), 0.2)
    h = ops.gelu(layers.layer_norm(layers.dense(h, "b", 131), "n"))
    _train(program, h, label, adam(1e-3))


def images(program: Program) -> None:
    """Train convolutions of several kinds, with pooling."""
    x, label = program.input("x", "float32", (ROWS, 14, 13, 3)), program.input("label", "int64", (ROWS,))
    h = ops.relu(layers.conv_norm(x, "a", 32, window=3))
    h = ops.max_pool2d(h, window=(2, 2), stride=(2, 2))
    h = ops.relu(layers.conv(h, "b", 64, window=3))
    h = ops.relu(layers.conv(h, "c", 64, window=3, groups=64))
    h = layers.conv(h, "d", 96, window=1) + layers.conv(h, "e", 96, window=5, stride=1)
    h = ops.avg_pool2d(ops.silu(h), window=(3, 3), stride=(1, 1), padding=(1, 1, 1, 1))
    _train(program, ops.mean(h, axis=(1, 2)), label, sgd(0.01))


def recurrent(layer: str, steps: int, inputs: int, width: int, both: bool) -> Callable[[Program], None]:
    """Return what writes a recurrent layer that is trained."""

    def write(program: Program) -> None:
        x, label = program.input("x", "float32", (ROWS, steps, inputs)), program.input("label", "int64", (ROWS,))
        h = getattr(layers, layer)(x, "r", width, bidirectional=both)[0]
        _train(program, ops.mean(h, axis=(1,)), label, adam(1e-3, clip=global_norm(1.0)))

    return write


def attending(program: Program) -> None:
    """Train two transformer blocks over tokens, one of them causal."""
    token, label = program.input("token", "int64", (ROWS, 128)), program.input("label", "int64", (ROWS,))
    h = ops.embedding(program.parameter("table", (9, 64)), token)
    h = layers.transformer_block(h, "a", heads=4, causal=True, rotary=True)
    h = layers.transformer_block(h, "b", heads=2, causal=False)
    _train(program, ops.mean(h, axis=(1,)), label, adamw(1e-3, decay=0.01))


def sorting(program: Program) -> None:
    """Predict by elements in order, their places, sums so far, and rows by number."""
    x, i = program.input("x", "float32", (ROWS, 131)), program.input("i", "int64", (ROWS, 70))
    values, places = ops.topk(x, k=7)
    program.outputs(
        values=values,
        places=places,
        order=ops.argsort(x),
        few=ops.sort(x[:, :20]),
        sums=ops.cumsum(x, axis=0),
        rows=ops.gather(x, i, axis=0),
        added=ops.scatter_add(x, i, ops.gather(x, i, axis=0), axis=0),
        largest=ops.argmax(x, axis=1),
        counts=ops.bincount(i, depth=77),
    )


NETWORKS: Final[dict[str, Callable[[Program], None]]] = {
    "mlp": mlp,
    "images": images,
    "lstm": recurrent("lstm", 32, 64, 128, both=False),
    "lstm of both directions": recurrent("lstm", 32, 12, 67, both=True),
    "gru": recurrent("gru", 32, 64, 131, both=False),
    "gru of both directions": recurrent("gru", 128, 33, 64, both=True),
    "attention": attending,
    "sorting": sorting,
}


def network(name: str) -> Program:
    """Return the network of that name."""
    program = Program(name, seed=3)
    NETWORKS[name](program)
    return program


def as_bytes(name: str) -> bytes:
    """Return the network of that name as a file."""
    return canonical_bytes(network(name).compile().desc) + END


def _train(program: Program, h: object, label: object, optimizer: object) -> None:
    scores = layers.dense(h, "out", 10)  # type: ignore[arg-type]
    program.minimize(ops.softmax_cross_entropy(scores, label), optimizer)  # type: ignore[arg-type]
    program.outputs(p=ops.softmax(scores))
