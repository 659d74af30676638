"""The light models of onnx with seeded weights, beside ONNX Runtime.

The files have one constant in place of each weight, so that their own expected results hold one number each. Here each
constant becomes a tensor of seeded numbers.

PYTHONPATH=tests python -m conformance.light --engine native
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from math import prod, sqrt
from pathlib import Path
from typing import Any

import numpy as np

import prograd

TOLERANCE = 1e-4
"""Largest |a - b| / (1 + |b|), with b by ONNX Runtime."""

STATISTIC = 4
"""Position of the variance among the inputs of BatchNormalization."""


def models() -> list[Path]:
    """Return the files of the light models."""
    onnx: Any = import_module("onnx")
    return sorted((Path(onnx.__file__).parent / "backend" / "test" / "data" / "light").glob("*.onnx"))


def seeded(path: Path, seed: int) -> Any:
    """Return a model with seeded numbers for each constant of a shape."""
    onnx: Any = import_module("onnx")
    model, rng = onnx.load(str(path)), np.random.default_rng(seed)
    shapes = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    variances = {n.input[STATISTIC] for n in model.graph.node if n.op_type == "BatchNormalization"}
    kept = [node for node in model.graph.node if node.op_type != "ConstantOfShape"]
    for node in model.graph.node:
        if node.op_type == "ConstantOfShape":
            shape = [int(n) for n in shapes.pop(node.input[0])]
            [name] = node.output
            if name in variances:
                weights = rng.uniform(0.5, 1.5, shape)
            else:
                weights = rng.normal(0, sqrt(2 / max(prod(shape[1:]), 1)) if len(shape) > 1 else 0.5, shape)
            array = weights.astype(np.float32)
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    used = {name for node in kept for name in node.input}
    inputs = [value for value in model.graph.input if value.name in used]
    tensors = [tensor for tensor in model.graph.initializer if tensor.name in used]
    del model.graph.node[:], model.graph.input[:], model.graph.initializer[:]
    model.graph.node.extend(kept)
    model.graph.input.extend(inputs)
    model.graph.initializer.extend(tensors)
    return model


def error_of(path: Path, engine: str, seed: int = 7) -> float:
    """Return the largest |a - b| / (1 + |b|) of a model's results, with b by ONNX Runtime."""
    runtime: Any = import_module("onnxruntime")
    model = seeded(path, seed)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(seed)
    feeds = {x.name: rng.normal(size=x.shape).astype(np.float32) for x in session.get_inputs()}
    wanted = session.run(None, feeds)
    del session
    program = prograd.from_onnx(model)
    run = prograd.Run(program.compile(), engine=engine)  # type: ignore[arg-type]
    names = run.entries["predict"].feeds
    found = run.step(dict(zip(names, feeds.values(), strict=True)), entry="predict")
    results = [found[name] for name in program.outputs_of_module]
    spread = min(float(np.ptp(b)) for b in wanted)
    if not spread > 0:
        raise AssertionError(f"{path.name} with seeded weights makes one number only, which proves nothing")
    return max(float(np.max(np.abs(a - b) / (1 + np.abs(b)))) for a, b in zip(results, wanted, strict=True))


def main() -> int:
    """Print the error of each model; fail if one is larger than the tolerance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="native")
    parser.add_argument("--match", default="", help="models whose names contain this")
    options = parser.parse_args()
    failed = False
    for path in models():
        if options.match in path.name:
            error = error_of(path, options.engine)
            failed = failed or not error <= TOLERANCE
            print(f"{path.stem}\t{error:.1e}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
