"""Small training programs in folders of their own, with data: what the runtime's tests run."""

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from compiler import Program, adam, constant, ops, sgd, warmup_cosine, zeros

ROWS, TRAIN, TEST, BATCH = 43, 31, 12, 4


def arrays(seed: int = 0) -> dict[str, np.ndarray]:
    """43 rows of a linear problem with noise; the last 12 are the split `test`."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ROWS, 3)).astype(np.float32)
    y = (x @ np.array([1.0, -2.0, 0.5], np.float32) + 0.1 * rng.normal(size=ROWS)).astype(np.float32)
    return {"x": x, "y": y, "train": np.arange(TRAIN), "test": np.arange(TRAIN, ROWS)}


def write_data(folder: Path, **changes: np.ndarray) -> Path:
    """rows.safetensors, with some tensors replaced."""
    save_file(arrays() | changes, folder / "rows.safetensors")
    return folder / "rows.safetensors"


def linear(*, rate: float = 0.1) -> Program:
    """y = x w + b by gradient descent; entries train, evaluate and predict."""
    program = Program("linear", seed=5)
    x = program.input("x", "float32", ("batch", 3))
    y = program.input("y", "float32", ("batch",))
    w = program.parameter("w", (3,), constant(0.1))
    b = program.parameter("b", (), zeros())
    prediction = ops.sum(x * w, axis=(1,)) + b
    program.minimize(ops.squared_error(prediction, y), sgd(rate=rate))
    program.outputs(prediction=prediction)
    return program


def rich() -> Program:
    """Everything that a checkpoint must remember: slots, a schedule, dropout, buffers that last and that do not."""
    program = Program("rich", seed=7)
    x = program.input("x", "float32", ("batch", 3))
    y = program.input("y", "float32", ("batch",))
    w = program.parameter("w", (3,), constant(0.1))
    hidden = ops.dropout(x * w, ratio=0.25)
    prediction = ops.sum(hidden, axis=(1,))
    error = ops.squared_error(prediction, y)
    program.minimize(error, adam(rate=warmup_cosine(0.2, warmup=3)))
    seen = program.buffer("seen", (), lifespan="epoch", dtype="float32")
    program.update(seen, seen + ops.sum(ops.abs(y)))
    largest = program.buffer("largest", ())
    program.update(largest, ops.maximum(largest, ops.max(ops.abs(x))))
    program.fetch("total", ops.sum(y), over="sum")
    program.metrics(mean=ops.mean(prediction))
    program.outputs(prediction=prediction)
    return program


def save(program: Program, folder: Path, *, epochs: int = 3, name: str = "p.pb", **options: object) -> Path:
    """Compile with batches of 4 and save beside rows.safetensors, which is made if it is not there."""
    if not (folder / "rows.safetensors").exists():
        write_data(folder)
    program.data("rows.safetensors", splits={"train": "train", "test": "test"}, shuffle=True, remainder="drop")
    options = {"evaluate": "test", "keep_best": "loss", "best": "min"} | options
    program.training(epochs=epochs, split="train", **options)
    path = folder / name
    program.compile(batch=BATCH).save(path, force=True)
    return path
