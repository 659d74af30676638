"""A residual network (He et al., 2016) on 8 x 8 handwritten digits.

    python examples/resnet.py              builds examples/resnet.pb
    runtime execute examples/resnet.pb     trains it, evaluating on the rows with index mod 3 = 2

Three stages at 8 x 8, 4 x 4 and 2 x 2. A block adds to its input what two convolutions make of it; where a block
halves height and width, its input goes through a 1 x 1 convolution to have the same shape.
"""

from pathlib import Path

from prograd import Program, Value, he_normal, layers, momentum, ops, warmup_cosine

STAGES = ((16, 1), (32, 2), (64, 2))  # channels and stride
BLOCKS = 1  # in each stage


def build() -> Program:
    """Return the training run: 10 epochs over 1,198 images."""
    program = Program("resnet", seed=1)
    image = program.input("image", "uint8", ("batch", 8, 8, 1))  # 0 to 16
    label = program.input("label", "int64", ("batch",))

    x = ops.cast(image, dtype="float32") / 16.0
    x = ops.relu(conv(x, "stem", STAGES[0][0]))
    for i, (channels, stride) in enumerate(STAGES):
        for j in range(BLOCKS):
            x = residual_block(x, f"stage{i}.block{j}", channels=channels, stride=stride if j == 0 else 1)
    x = ops.mean(x, axis=(1, 2))
    logits = layers.dense(x, "output", 10, bias_decay_scale=0.0)

    loss = ops.softmax_cross_entropy(logits, label)
    program.minimize(loss, momentum(rate=warmup_cosine(0.1), nesterov=True, decay=1e-3))
    program.metrics(accuracy=ops.accuracy(logits, label))
    program.outputs(probabilities=ops.softmax(logits))

    program.data("digits.safetensors", splits={"train": "train", "test": "test"}, shuffle=True, remainder="drop")
    program.training(epochs=10, split="train", evaluate="test")
    return program


def residual_block(x: Value, name: str, *, channels: int, stride: int) -> Value:
    """Relu of x, or its projection, plus two convolutions of x."""
    y = ops.relu(conv(x, f"{name}.conv1", channels, stride=stride))
    y = conv(y, f"{name}.conv2", channels)
    if x.shape != y.shape:
        x = conv(x, f"{name}.projection", channels, window=1, stride=stride)
    return ops.relu(x + y)


def conv(x: Value, name: str, channels: int, *, window: int = 3, stride: int = 1) -> Value:
    """Return a convolution and batch normalisation, whose scale and bias do not decay."""
    return layers.conv_norm(x, name, channels, window=window, stride=stride, initial=he_normal(), norm_decay_scale=0.0)


if __name__ == "__main__":
    build().compile(batch=32).save(Path(__file__).with_suffix(".pb"), force=True)
