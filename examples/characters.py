"""A character model with causal attention (Vaswani et al., 2017): it reads Alice in Wonderland, a letter at a time.

    python examples/characters.py              builds examples/characters.pb
    runtime execute examples/characters.pb     trains it, evaluating on the end of the story

With `--epochs 20 --save FILE` it learns more, and `python examples/write_text.py FILE` lets it write.

Characters are their ASCII codes. A row is 64 of them, and every one but the first is predicted from those before it;
`bits` is what a character then costs, the mean of minus log2 of the probability of the one that came.
"""

from math import log
from pathlib import Path

from prograd import Program, Value, adamw, global_norm, layers, normal, ops, warmup_cosine, zeros

CODES, LENGTH, SIZE, HEADS, BLOCKS = 128, 64, 32, 4, 2


def build() -> Program:
    """Return the training run: 2 epochs over 2,031 rows of text."""
    program = Program("characters", seed=1)
    text = program.input("text", "uint8", ("batch", LENGTH))

    codes = ops.cast(text, dtype="int64")
    table = program.parameter("embedding", (CODES, SIZE), normal(0.0, 1.0))
    x = ops.embedding(table, codes)
    for i in range(BLOCKS):
        x = x + attention(program, f"layer{i}.attention", x)
        x = x + feed_forward(program, f"layer{i}.forward", x)
    w = program.parameter("output.w", (SIZE, CODES), normal(0.0, 0.02))
    logits = layers.layer_norm(x, "output") @ w  # of the character that comes after each

    loss = ops.softmax_cross_entropy(logits[:, :-1], codes[:, 1:])
    program.minimize(loss, adamw(rate=warmup_cosine(1e-2), clip=global_norm(1.0)))
    program.metrics(bits=loss / log(2.0))
    program.outputs(logits=logits[:, -1])

    program.data("alice.safetensors", splits={"train": "train", "test": "test"}, shuffle=True)
    program.training(epochs=2, split="train", evaluate="test")
    return program


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


if __name__ == "__main__":
    build().compile(batch=8).save(Path(__file__).with_suffix(".pb"), force=True)
