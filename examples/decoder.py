"""A transformer that writes with a cache: it reads Alice in Wonderland, and each new letter costs one position.

    python examples/decoder.py              builds examples/decoder.pb
    runtime execute examples/decoder.pb     trains it, evaluating on the end of the story
    runtime execute examples/decoder.pb --entry write --load FILE --feed 'start="Alice"' --decode text=utf-8

Training computes all positions of a row at once. The entry `write` is a loop over positions. It carries the keys and
values of the last 64 of them, so that it computes nothing twice. Near a temperature of 0 the likeliest character always
wins, as it does at 0; at 1 each comes as often as the model expects it.
"""

from math import log
from pathlib import Path

from prograd import Program, Value, adamw, global_norm, layers, ops, warmup_cosine

CODES, LENGTH, SIZE, HEADS, BLOCKS = 128, 64, 48, 4, 2
WRITTEN = 500  # characters of a text, with those given


def build() -> Program:
    """Return the training run: 2 epochs over 2,031 rows of text."""
    program = Program("decoder", seed=1)
    text = program.input("text", "uint8", ("batch", LENGTH))

    codes = ops.cast(text, dtype="int64")
    x = layers.embedding(codes, "letters", CODES, SIZE)
    for i in range(BLOCKS):
        x = layers.transformer_block(x, f"block{i}", HEADS, causal=True, rotary=True)
    logits = output(x)  # of the character that comes after each

    loss = ops.softmax_cross_entropy(logits[:, :-1], codes[:, 1:])
    program.minimize(loss, adamw(rate=warmup_cosine(1e-2), clip=global_norm(1.0)))
    program.metrics(bits=loss / log(2.0))
    program.outputs(logits=logits)

    program.data("alice.safetensors", splits={"train": "train", "test": "test"}, shuffle=True, remainder="drop")
    program.training(epochs=2, split="train", evaluate="test")

    start = program.input("start", "uint8", ("batch", LENGTH))
    with program.scope("", reuse=True):  # the parameters above
        program.entry("write", text=write(program, start))
    return program


def output(x: Value) -> Value:
    """Return the logits of the next character."""
    return layers.dense(layers.layer_norm(x, "norm"), "output", CODES, bias=False)


def write(program: Program, start: Value) -> Value:
    """Return texts that begin with `start`, which ends with zeros if it is shorter than a row."""
    temperature = program.setting("temperature", 0.6, least=0.0)

    def step(carry: tuple[Value, tuple[tuple[Value, Value], ...]], row: tuple[Value, Value]) -> tuple[object, Value]:
        (chosen, caches), (position, given) = carry, row
        code = ops.where(ops.greater(given, 0), given, chosen)
        x = ops.unsqueeze(layers.embedding(code, "letters", CODES, SIZE), axis=1)
        after: list[tuple[Value, Value]] = []
        for i, cache in enumerate(caches):
            x, cache = layers.cached_transformer_block(x, f"block{i}", HEADS, cache, position, rotary=True)
            after.append(cache)
        return (choose(output(x)[:, 0]), tuple(after)), code

    def choose(logits: Value) -> Value:
        return ops.cond(
            ops.greater(temperature, 0.0),
            lambda: ops.categorical(logits / ops.cast(temperature, dtype="float32")),
            lambda: ops.argmax(logits, axis=-1),
        )

    codes = ops.transpose(ops.cast(start, dtype="int64"), axis=(1, 0))
    given = ops.pad(codes, before=(0, 0), after=(WRITTEN - LENGTH, 0))
    first = layers.embedding(codes[0], "letters", CODES, SIZE)
    caches = tuple(layers.attention_cache(first, HEADS, LENGTH) for _ in range(BLOCKS))
    _, text = ops.scan(step, (codes[0], caches), (ops.range.on(program)(stop=WRITTEN), given))
    return ops.cast(ops.transpose(text, axis=(1, 0)), dtype="uint8")


if __name__ == "__main__":
    build().compile(batch=8).save(Path(__file__).with_suffix(".pb"), force=True)
