"""A character model with causal attention (Vaswani et al., 2017): it reads Alice in Wonderland, a letter at a time.

    python examples/characters.py              builds examples/characters.pb
    runtime execute examples/characters.pb     trains it, evaluating on the end of the story

With `--epochs 20 --save FILE` it learns more. The entries `write` and `greedy` go on with a text:

    runtime execute examples/characters.pb --entry write --load FILE --feed start=@codes.npy --decode text=utf-8

Characters are their ASCII codes. A row is 64 of them, and every one but the first is predicted from those before it;
`bits` is what a character then costs, the mean of minus log2 of the probability of the one that came.
"""

from collections.abc import Callable
from math import log
from pathlib import Path

from prograd import Program, Value, adamw, global_norm, layers, normal, ops, warmup_cosine, zeros

CODES, LENGTH, SIZE, HEADS, BLOCKS = 128, 64, 32, 4, 2
WRITTEN = 500  # characters that an entry writes
TEMPERATURE = 0.6  # near 0 the likeliest character always wins, at 1 each comes as often as the model expects it


def build() -> Program:
    """Return the training run: 2 epochs over 2,031 rows of text."""
    program = Program("characters", seed=1)
    text = program.input("text", "uint8", ("batch", LENGTH))

    codes = ops.cast(text, dtype="int64")
    logits = model(program, codes)
    loss = ops.softmax_cross_entropy(logits[:, :-1], codes[:, 1:])
    program.minimize(loss, adamw(rate=warmup_cosine(1e-2), clip=global_norm(1.0)))
    program.metrics(bits=loss / log(2.0))
    program.outputs(logits=logits[:, -1])

    program.data("alice.safetensors", splits={"train": "train", "test": "test"}, shuffle=True, remainder="drop")
    program.training(epochs=2, split="train", evaluate="test")

    start = program.input("start", "uint8", ("batch", LENGTH))
    program.entry("write", text=write(program, start, lambda x: ops.categorical(x / TEMPERATURE)))
    program.entry("greedy", text=write(program, start, lambda x: ops.argmax(x, axis=-1)))
    return program


def model(program: Program, codes: Value) -> Value:
    """Return the logits of the character that comes after each."""
    table = program.parameter("embedding", (CODES, SIZE), normal(0.0, 1.0))
    x = ops.embedding(table, codes)
    for i in range(BLOCKS):
        x = x + attention(program, f"layer{i}.attention", x)
        x = x + feed_forward(program, f"layer{i}.forward", x)
    w = program.parameter("output.w", (SIZE, CODES), normal(0.0, 0.02))
    return layers.layer_norm(x, "output") @ w


def attention(program: Program, name: str, x: Value) -> Value:
    """Return what each position attends to in the positions up to itself, with relative positions."""
    w = program.parameter(f"{name}.w", (SIZE, 3 * SIZE))
    out = program.parameter(f"{name}.out", (SIZE, SIZE))

    heads = ops.reshape(layers.layer_norm(x, name) @ w, shape=("batch", LENGTH, 3, HEADS, SIZE // HEADS))
    q, k, v = ops.unstack(ops.transpose(heads, axis=(2, 0, 3, 1, 4)))
    positions = ops.range.on(program)(stop=LENGTH)
    q, k = (ops.rotary_embedding(each, positions) for each in (q, k))
    y = ops.scaled_dot_product_attention(q, k, v, causal=True)
    return ops.reshape(ops.transpose(y, axis=(0, 2, 1, 3)), shape=("batch", LENGTH, SIZE)) @ out


def feed_forward(program: Program, name: str, x: Value) -> Value:
    """Two layers for each character by itself."""
    w1 = program.parameter(f"{name}.w1", (SIZE, 4 * SIZE))
    b1 = program.parameter(f"{name}.b1", (4 * SIZE,), zeros())
    w2 = program.parameter(f"{name}.w2", (4 * SIZE, SIZE))
    return ops.relu(layers.layer_norm(x, name) @ w1 + b1) @ w2


def write(program: Program, start: Value, choose: Callable[[Value], Value]) -> Value:
    """Return the characters that come after `start`, which ends with zeros if it is shorter than a row."""

    def step(seen: Value, _: tuple[()]) -> tuple[Value, Value]:
        with program.scope("", reuse=True):
            code = choose(model(program, seen)[:, -1])
        return ops.concat(seen[:, 1:], ops.unsqueeze(code, axis=1), axis=1), code

    given = ops.cast(start, dtype="int64")
    length = ops.sum(ops.cast(ops.greater(given, 0), dtype="int64"), axis=1, keepdims=True)
    place = ops.range.on(program)(stop=LENGTH) + length - LENGTH  # the text moves to the end, behind ends of lines
    given = ops.take_along_axis(given, ops.maximum(place, 0), axis=1)
    _, codes = ops.scan(step, ops.where(place < 0, ord("\n"), given), length=WRITTEN)
    return ops.cast(ops.transpose(codes, axis=(1, 0)), dtype="uint8")


if __name__ == "__main__":
    build().compile(batch=8).save(Path(__file__).with_suffix(".pb"), force=True)
