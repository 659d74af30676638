"""A camera's classifier: whether a gate is open, ajar or closed, by a head on a trunk that an ONNX file brings.

    python examples/make_camera.py gate/       # crops, and MobileNetV2 as gate/trunk.onnx
    python examples/camera.py gate/            # builds gate/camera.pb
    runtime execute gate/camera.pb --save gate/trained.safetensors
    runtime execute gate/camera.pb --load gate/trained.safetensors --entry predict --data gate/crops.safetensors \
        --split test --fetch state=@gate/states.npy

The trunk is frozen, so a step computes its features without gradients, and trains two layers. An application names the
crops of its user by --data, and trains again with --load when there are more.
"""

import sys
from pathlib import Path

import prograd
from prograd import Program, adam, layers, ops

STATES = ("open", "ajar", "closed")


def build(folder: Path) -> Program:
    """Return the training run: 50 epochs in steps of 16 crops."""
    program = prograd.from_onnx(folder / "trunk.onnx", name="camera", seed=1)
    program.freeze("*", statistics=True)
    state = program.input("state", "int64", ("batch",))

    hidden = ops.relu(layers.dense(program["features"], "hidden", 128))
    scores = layers.dense(layers.dropout(hidden, 0.3), "scores", len(STATES))
    program.minimize(ops.softmax_cross_entropy(scores, state), adam(1e-3))
    program.metrics(accuracy=ops.accuracy(scores, state))
    program.entry("predict", state=ops.argmax(scores), probabilities=ops.softmax(scores))

    program.data("crops.safetensors", splits={"train": "train", "test": "test"}, shuffle=True)
    program.training(epochs=50, evaluate="test")
    return program


if __name__ == "__main__":
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "gate")
    build(path).compile(batch=16).save(path / "camera.pb", force=True)
