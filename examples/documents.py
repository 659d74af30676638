"""A filing clerk: the kind of a document and its labels, from its words.

    python examples/documents.py              builds examples/documents.pb
    runtime execute examples/documents.pb     trains, evaluating on documents that it has not seen

A row is sparse: hashes of some 40 words of 4,096. The first layer adds the weights of the words that are there, so a
step takes as long as documents are, whatever the vocabulary. Two heads share it: one of six kinds, and any of five
labels. Documents of two lengths have steps of their own. An application trains it anew after each correction:
`runtime execute examples/documents.pb --data all.safetensors --load trained.safetensors`.
"""

from pathlib import Path

from prograd import Program, adamw, layers, ops, warmup_cosine

HASHES, KINDS, LABELS = 4096, 6, 5


def build() -> Program:
    """Return the training run: 12 epochs of AdamW."""
    program = Program("documents", seed=1)
    words = program.input("words", "int64", ("batch", "count"))
    present = program.input("present", "float32", ("batch", "count"))  # 1 for a word, 0 for padding
    kind = program.input("kind", "int64", ("batch",))
    labels = program.input("labels", "float32", ("batch", LABELS))

    hidden = ops.relu(layers.sparse_dense(words, present, "hidden", HASHES, 64))
    hidden = layers.dropout(hidden, 0.1)
    scores, tags = layers.dense(hidden, "kind", KINDS), layers.dense(hidden, "labels", LABELS)

    loss = ops.softmax_cross_entropy(scores, kind) + ops.binary_cross_entropy_with_logits(tags, labels)
    program.minimize(loss, adamw(rate=warmup_cosine(0.01)))
    right = ops.cast(ops.equal(tags > 0.0, labels > 0.5), dtype="float32")
    program.metrics(kinds=ops.accuracy(scores, kind), labels=ops.mean(right))
    program.outputs(kind=ops.argmax(scores), labels=ops.sigmoid(tags))

    columns = {"words": "text", "present": "text.mask", "kind": "kind", "labels": "labels"}
    program.data("documents.safetensors", columns=columns, splits={"train": "train", "test": "test"}, shuffle=True,
                 remainder="drop")  # fmt: skip
    program.training(epochs=12, evaluate="test")
    return program


if __name__ == "__main__":
    build().compile(batch=32, count=(48, 96)).save(Path(__file__).with_suffix(".pb"), force=True)
