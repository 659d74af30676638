"""A multi-layer perceptron on 8 x 8 handwritten digits, with momentum, weight decay and gradient clipping.

python examples/digits_mlp.py              builds examples/digits_mlp.pb
runtime execute examples/digits_mlp.pb     trains it and keeps the parameters of the best evaluation;
                                           with --entry evaluate --load FILE --fetch confusion it shows which digits
                                           it takes for which
"""

from pathlib import Path

from prograd import Program, global_norm, layers, metrics, momentum, ops, warmup_cosine

SIZES = (64, 32)


def build() -> Program:
    """Return the training run: 20 epochs of gradient descent with momentum."""
    program = Program("digits_mlp", seed=2)
    image = program.input("image", "uint8", ("batch", 8, 8, 1))  # 0 to 16
    label = program.input("label", "int64", ("batch",))

    x = ops.reshape(ops.cast(image, dtype="float32") / 16.0, shape=("batch", 64))
    for i, size in enumerate(SIZES, start=1):  # biases do not decay
        x = ops.tanh(layers.dense(x, f"layer{i}", size, bias_decay_scale=0.0))
    x = layers.dense(x, "layer3", 10, bias_decay_scale=0.0)
    loss = ops.softmax_cross_entropy(x, label)

    rate = warmup_cosine(0.1, warmup=20)
    program.minimize(loss, momentum(rate, nesterov=True, decay=1e-4, clip=global_norm(5.0)))
    program.metrics(accuracy=metrics.accuracy(x, label), top2=metrics.top_k_accuracy(x, label, k=2))
    program.entry("evaluate", confusion=metrics.confusion_matrix(x, label))
    program.outputs(probabilities=ops.softmax(x), digit=ops.argmax(x))

    program.data("digits.safetensors", splits={"train": "train", "test": "test"}, shuffle=True, remainder="drop")
    program.training(epochs=20, split="train", evaluate="test", keep_best="loss", best="min", stop_after=5)
    return program


if __name__ == "__main__":
    build().compile(batch=32).save(Path(__file__).with_suffix(".pb"), force=True)
