"""The last pass over rows writes over the operand that the passes before it have read, and no bit changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from native.bound import lowered

import runtime
from compiler import Program, adam, ops
from compiler.build.compiled import Compiled
from runtime.codegen.lowering import in_place
from runtime.engines.native.cpu import this_machine

ROWS, WIDTH, CLASSES = 48, 64, 1000


def classifier() -> Compiled:
    """Logits, whose softmax and gradient are written over them, and a normalisation with a residual before."""
    program = Program("classifier")
    x, labels = program.input("x", "float32", ("batch", WIDTH)), program.input("labels", "int32", ("batch",))
    wide = ops.matmul(x, program.parameter("first", (WIDTH, CLASSES)))
    normal, *_ = ops.layer_norm(wide + ops.relu(wide), axis=-1)
    logits = ops.matmul(normal, program.parameter("last", (CLASSES, CLASSES)))
    program.minimize(ops.cross_entropy(logits, labels, ignored=7), adam(1e-3))
    return program.compile(batch=ROWS)


def feeds() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {"x": rng.normal(size=(ROWS, WIDTH)).astype("f4"), "labels": rng.integers(0, CLASSES, ROWS).astype("i4")}


def trained(program: Compiled, threads: int, engine: str = "native") -> Any:
    run = runtime.Run(program, engine=engine, threads=threads)
    return [run.step(feeds())["loss"].item() for _ in range(3)], run.state_sha256


def overwriting(program: Compiled) -> list[str]:
    """The groups over rows that write over an operand."""
    run = runtime.Run(program, engine="reference")
    block = run.session.bindings("train")[0].block
    step = lowered(block, (), this_machine(), 1, 1 << 30, blocks=run.program.blocks)
    over = in_place.overwritten_operands(step, set())
    return [group.label for group in step.groups if group.is_rows and not over.keys().isdisjoint(group.outputs)]


def test_logits_and_their_gradient_share_memory_and_bits_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROGRAD_CACHE", "")
    program = classifier()
    labels = overwriting(program)
    assert any(label.startswith("softmax_cross_entropy(") and " + softmax(" in label for label in labels), labels
    found = [trained(program, threads) for threads in (1, 2)]
    reference, _ = trained(program, 1, "reference")
    monkeypatch.setattr(in_place, "MIN_OVERWRITTEN_BYTES", 1 << 60)
    assert overwriting(program) == []
    assert found == [trained(program, 1)] * 2
    np.testing.assert_allclose(found[0][0], reference, rtol=1e-4)


def test_what_another_group_reads_later_stays() -> None:
    program = Program("read again")
    x = program.input("x", "float32", ("batch", CLASSES))
    hidden = ops.matmul(x, program.parameter("w", (CLASSES, CLASSES)))
    likely = ops.softmax(hidden, axis=-1)
    program.entry("predict", likely=likely, again=ops.matmul(ops.matmul(likely, hidden, transpose_b=True), hidden))
    rows = np.random.default_rng(2).normal(size=(ROWS, CLASSES)).astype("f4")
    runs = [runtime.Run(program.compile(batch=ROWS), engine=engine) for engine in ("native", "reference")]
    one, other = (run.predict(rows) for run in runs)
    for name, array in one.items():
        np.testing.assert_allclose(array, other[name], rtol=1e-3, atol=1e-3)
