"""A small convolutional network on 8 x 8 handwritten digits: the program that the README runs.

python examples/digits_cnn.py              builds examples/digits_cnn.pb
runtime execute examples/digits_cnn.pb     trains it, evaluating on the rows with index mod 3 = 2
"""

from pathlib import Path

from prograd import Program, adam, he_normal, layers, ops, warmup_cosine


def build() -> Program:
    """Return the training run: 20 epochs of Adam over 1,198 images."""
    program = Program("digits_cnn", seed=2)
    image = program.input("image", "uint8", ("batch", 8, 8, 1))  # 0 to 16
    label = program.input("label", "int64", ("batch",))

    x = ops.cast(image, dtype="float32") / 16.0
    x = ops.relu(layers.conv_norm(x, "conv1", 16, initial=he_normal()))
    x = ops.relu(layers.conv_norm(x, "conv2", 32, initial=he_normal()))
    x = ops.max_pool2d(x, window=(2, 2), stride=(2, 2))
    x = ops.relu(layers.conv_norm(x, "conv3", 64, initial=he_normal()))
    x = ops.dropout(ops.reshape(x, shape=("batch", -1)), ratio=0.5)
    logits = layers.dense(x, "output", 10, initial=he_normal())

    loss = ops.softmax_cross_entropy(logits, label)
    program.minimize(loss, adam(rate=warmup_cosine(3e-3)))
    program.metrics(accuracy=ops.accuracy(logits, label))
    program.outputs(probabilities=ops.softmax(logits))

    program.data("digits.safetensors", splits={"train": "train", "test": "test"}, shuffle=True, remainder="drop")
    program.training(epochs=20, split="train", evaluate="test")
    return program


if __name__ == "__main__":
    build().compile(batch=32).save(Path(__file__).with_suffix(".pb"), force=True)
