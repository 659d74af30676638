"""Writes what a camera's classifier begins with: crops.safetensors and trunk.onnx, into a folder.

python examples/make_camera.py gate/                        # 400 crops of 96 x 96, a trunk trained for 600 steps
python examples/make_camera.py gate/ --crops 2000 --size 224

The crops show a gate by day and by night, open, ajar or closed. The trunk is MobileNetV2 (Sandler et al., 2018) with
0.35 of its channels. It has learnt to tell shapes apart and has never seen a gate.
"""

import argparse
from pathlib import Path

import numpy as np

import prograd
from prograd import Program, Value, adamw, layers, ops

SHAPES = 6
BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Expansion, channels, repetitions and stride of MobileNetV2."""

random = np.random.default_rng(3)


def ground(count: int, size: int) -> np.ndarray:
    """Return pictures of a lit ground with noise: [count, size, size, 3], 0 to 1."""
    light = random.uniform(0.15, 0.8, (count, 1, 1, 1))
    slope = np.linspace(-0.2, 0.2, size).reshape(1, size, 1, 1) * random.uniform(-1, 1, (count, 1, 1, 1))
    tint = random.uniform(0.8, 1.2, (count, 1, 1, 3))
    return (light + slope) * tint + random.normal(0, 0.03, (count, size, size, 3))


def gates(count: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return crops of a gate and its states: 0 open, 1 ajar, 2 closed."""
    pictures, states = ground(count, size), random.integers(0, 3, count)
    for picture, state in zip(pictures, states, strict=True):
        left, right = (random.integers(at, at + size // 10) for at in (size // 10, 8 * size // 10))
        top, bottom = random.integers(size // 4, size // 3), random.integers(7 * size // 10, 8 * size // 10)
        reach = left + int((right - left) * (0.05, 0.5, 1.0)[state] * random.uniform(0.8, 1))
        colour = random.uniform(0, 0.5, 3)
        for post in (left, right):
            picture[top - size // 12 : bottom, post - 1 : post + size // 24] = colour
        for bar in np.linspace(top, bottom - 3, 4).astype(int):
            picture[bar : bar + max(size // 40, 2), left:reach] = colour
    return _bytes(pictures), states.astype(np.int64)


def shapes(count: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return pictures of shapes and their kinds: disc, ring, square, cross, bars lying or standing."""
    pictures, kinds = ground(count, size), random.integers(0, SHAPES, count)
    y, x = np.mgrid[:size, :size] / size
    for picture, kind in zip(pictures, kinds, strict=True):
        u, v, r = x - random.uniform(0.35, 0.65), y - random.uniform(0.35, 0.65), random.uniform(0.12, 0.3)
        far, near = np.maximum(abs(u), abs(v)), np.minimum(abs(u), abs(v))
        round_ = np.hypot(u, v)
        inside = (round_ < r, (round_ < r) & (round_ > 0.6 * r), far < r, (far < r) & (near < r / 4),
                  (far < r) & (v * 10 / r % 4 < 2), (far < r) & (u * 10 / r % 4 < 2))[kind]  # fmt: skip
        picture[inside] = random.uniform(0, 1, 3)
    return _bytes(pictures), kinds.astype(np.int64)


def _bytes(pictures: np.ndarray) -> np.ndarray:
    return (255 * pictures.clip(0, 1)).astype(np.uint8)


def norm(x: Value, name: str, size: int, *, window: int = 1, stride: int = 1, groups: int = 1) -> Value:
    """Return a convolution with batch normalisation."""
    x = layers.conv(x, name, size, window=window, stride=stride, groups=groups, bias=False)
    return layers.batch_norm(x, f"{name}.norm")


def trunk(image: Value, width: float = 0.35) -> Value:
    """Return MobileNetV2's 1,280 features of images uint8 [n, h, w, 3]."""
    x = ops.cast(image, dtype="float32") / 127.5 - 1.0
    x = ops.clip(norm(x, "stem", 16, window=3, stride=2), min=0.0, max=6.0)
    for i, (expansion, channels, count, first) in enumerate(BLOCKS):
        size = max(8, int(channels * width + 4) // 8 * 8)
        for j in range(count):
            name, stride, inner = f"block{i}.{j}", first if j == 0 else 1, expansion * int(x.shape[-1])
            y = ops.clip(norm(x, f"{name}.expand", inner), min=0.0, max=6.0) if expansion > 1 else x
            y = norm(y, f"{name}.depthwise", inner, window=3, stride=stride, groups=inner)
            y = norm(ops.clip(y, min=0.0, max=6.0), f"{name}.project", size)
            x = x + y if stride == 1 and int(x.shape[-1]) == size else y
    x = ops.clip(norm(x, "last", 1280), min=0.0, max=6.0)
    return ops.mean(x, axis=(1, 2))


def main() -> None:
    """Draw the crops, and train the trunk."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--crops", type=int, default=400)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--steps", type=int, default=600)
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    image, state = gates(options.crops, options.size)
    order = random.permutation(options.crops)
    parts = {"train": order[: options.crops * 4 // 5], "test": order[options.crops * 4 // 5 :]}
    crops = options.folder / "crops.safetensors"
    prograd.data.write(crops, {"image": image, "state": state}, splits=parts, force=True)

    program = Program("trunk", seed=1)
    x = program.input("image", "uint8", ("batch", options.size, options.size, 3))
    kind = program.input("kind", "int64", ("batch",))
    features = trunk(x)
    scores = layers.dense(features, "kinds", SHAPES)
    program.minimize(ops.softmax_cross_entropy(scores, kind), adamw(rate=2e-3))
    program.metrics(accuracy=ops.accuracy(scores, kind))
    program.outputs(features=features)
    run = prograd.Run(program.compile(batch=16))
    for _ in range(0, options.steps, 50):
        pictures, kinds = shapes(16 * min(options.steps, 50), options.size)
        print(run.train(data={"image": pictures, "kind": kinds}, epochs=1).metrics)
    prograd.to_onnx(run, options.folder / "trunk.onnx", force=True)


if __name__ == "__main__":
    main()
