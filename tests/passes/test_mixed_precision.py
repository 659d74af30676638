"""Mixed precision: products of rounded operands, against training by hand, and what stays as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from subjects.commands import run_compiler

import prograd
from compiler.build.compiled import compile_program
from compiler.build.mixed import with_mixed
from compiler.passes.mixed_precision import ORDERS
from compiler.passes.pipeline import PASSES
from prograd import CompileError, Program, normal, ops, sgd
from prograd_proto.blocks import BlockAnalysis

RATE = 0.1

Array = np.ndarray[Any, np.dtype[Any]]


def net() -> Program:
    program = Program("net", seed=1)
    x, y = program.input("x", "float32", ("batch", 64)), program.input("y", "float32", ("batch", 16))
    hidden = ops.relu(x @ program.parameter("w", (64, 128), normal(0.0, 0.1)))
    prediction = hidden @ program.parameter("head.v", (128, 16), normal(0.0, 0.1))
    program.minimize(ops.mean((prediction - y) * (prediction - y)), sgd(RATE))
    program.outputs(prediction=prediction)
    return program


def rounded(x: Array) -> Array:
    """Round float32 to bfloat16, to nearest, ties to even, by the exponent of each number and its 8 digits."""
    mantissa, exponent = np.frexp(x.astype(np.float64))
    return np.ldexp(np.rint(mantissa * 256), exponent - 8)


def by_hand(x: Array, y: Array, w: Array, v: Array) -> tuple[float, Array, Array]:
    """Make a step in float64 with rounded operands of products; return the loss and the new weights."""
    hidden = np.maximum(rounded(x) @ rounded(w), 0)
    difference = rounded(hidden) @ rounded(v) - y
    gradient = 2 * difference / difference.size
    back = (rounded(gradient) @ rounded(v).T) * (hidden > 0)
    return (
        float((difference**2).mean()),
        w - RATE * rounded(x).T @ rounded(back),
        v - RATE * rounded(hidden).T @ rounded(gradient),
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_training_step_has_rounded_operands_and_float32_states(tmp_path: Path, engine: str) -> None:
    net().compile(batch=32, mixed="bfloat16").save(tmp_path / "net.pb")
    run = prograd.load(tmp_path / "net.pb", engine=engine)
    numbers = np.random.default_rng(0)
    x, y = numbers.normal(size=(32, 64)).astype("f4"), numbers.normal(size=(32, 16)).astype("f4")
    for _ in range(5):
        w, v = np.array(run.state["w"]), np.array(run.state["head.v"])
        loss, new_w, new_v = by_hand(x, y, w, v)
        assert float(run.step({"x": x, "y": y})["loss"]) == pytest.approx(loss, rel=1e-5)
        assert run.state["w"].dtype == np.float32
        # a sum that float32 rounds elsewhere may take an operand to the other neighbour in bfloat16
        assert np.abs(run.state["w"] - new_w).max() < 0.01 * np.abs(new_w - w).max()
        assert np.abs(run.state["head.v"] - new_v).max() < 0.01 * np.abs(new_v - v).max()


def test_every_operand_of_a_product_is_rounded_to_bfloat16() -> None:
    desc = net().compile(batch=32, mixed="bfloat16").desc
    block = desc.blocks[desc.entries[0].source_block]
    made = {name: op for op in block.ops for name in op.outputs}
    products = [op for op in block.ops if op.type in ("matmul", "outer_sum")]
    assert len(products) == 5  # two forward, two gradients of weights, one of the hidden layer
    for op in products:
        for name in op.inputs:
            assert made[name].type == "cast"
            assert ".bfloat16" in name


def test_ops_that_keep_names_stay_float32_with_their_gradients() -> None:
    desc = net().compile(batch=32, mixed=prograd.mixed("bfloat16", keep=["head.*"])).desc
    block = desc.blocks[desc.entries[0].source_block]
    types = {name: type.dtype for name, type in BlockAnalysis(block).types.items()}
    found = [{types[name] for name in op.inputs} for op in block.ops if op.type in ("matmul", "outer_sum")]
    assert found.count({"bfloat16"}) == 2  # x @ w and the gradient of w
    assert found.count({"float32"}) == 3


def test_a_program_that_has_the_casts_gets_no_more() -> None:
    compiled = net().compile(batch=32, mixed="bfloat16")
    before = compiled.sha256
    assert compile_program(compiled.desc, {"batch": 32}, passes=with_mixed(PASSES, "bfloat16")).sha256 == before


def test_a_weight_that_is_stored_in_bfloat16_is_read_as_it_is() -> None:
    program = Program("stored", seed=1)
    x = program.input("x", "float32", ("batch", 64))
    w = program.parameter("w", (64, 96), dtype="bfloat16", trainable=False)
    v = program.parameter("v", (96, 64))
    y = ops.relu(x @ ops.cast(w, dtype="float32")) @ v
    program.minimize(ops.sum(ops.square(y)), prograd.sgd(1e-3))
    desc = program.compile(batch=32, mixed="bfloat16").desc
    block = desc.blocks[desc.entries[0].source_block]
    types = {name: type.dtype for name, type in BlockAnalysis(block).types.items()}
    read = {name for op in block.ops if op.type in ("matmul", "outer_sum") for name in op.inputs}
    assert "w" in read
    assert {types[name] for name in read} == {"bfloat16"}


def test_two_tensors_are_compared_as_they_are() -> None:
    program = Program("compared", seed=1)
    x = program.input("x", "float32", ("batch", 64))
    w, u = (program.parameter(name, (64, 64), normal(0.0, 0.1)) for name in ("w", "u"))
    a, b = x @ w, x @ u
    program.minimize(ops.mean(ops.maximum(a, b) + a @ w + b @ u), sgd(RATE))
    desc = program.compile(batch=32, mixed="bfloat16").desc
    block = desc.blocks[desc.entries[0].source_block]
    comparisons = ("greater", "greater_equal", "less", "less_equal", "equal", "not_equal")
    compared = [op for op in block.ops if op.type in comparisons]
    assert compared
    assert not any("bfloat16" in name for op in compared for name in op.inputs)


@pytest.mark.parametrize(
    ("mixed", "message"),
    [
        ("float16", "mixed='float16': operands can be rounded to bfloat16 only; write mixed='bfloat16'"),
        (3, 'mixed=3: give "bfloat16" or prograd.mixed("bfloat16", keep=[…])'),
        ("", 'mixed=\'\': give "bfloat16" or prograd.mixed("bfloat16", keep=[…])'),
        (prograd.mixed("", keep=["w"]), 'mixed=\'\': give "bfloat16" or prograd.mixed("bfloat16", keep=[…])'),
    ],
)
def test_other_requests_are_refused(mixed: object, message: str) -> None:
    with pytest.raises(CompileError) as refused:
        net().compile(batch=32, mixed=mixed)  # pyright: ignore[reportArgumentType]: that is the test
    assert str(refused.value).endswith(message)


def test_a_pattern_without_a_tensor_is_refused() -> None:
    with pytest.raises(CompileError) as refused:
        net().compile(batch=32, mixed=prograd.mixed("bfloat16", keep=["haed.*"]))
    assert str(refused.value).endswith("mixed: keep='haed.*' matches no tensor; `compiler show` prints their names")


def test_patterns_are_a_list_of_names() -> None:
    with pytest.raises(CompileError, match=r"mixed: keep='w' is no list of patterns; write keep=\['w'\]"):
        prograd.mixed("bfloat16", keep="w")
    with pytest.raises(CompileError, match="mixed: keep='a,b' is no pattern of a name; write one item for each"):
        prograd.mixed("bfloat16", keep=["a,b"])
    with pytest.raises(CompileError, match=r"mixed: keep=\[5\] has 5, which is no text; patterns are names"):
        prograd.mixed("bfloat16", keep=[5])  # pyright: ignore[reportArgumentType]: that is the test


def test_the_command_rounds_a_program_that_exists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net().compile(batch=32).save(tmp_path / "net.pb")
    code, out, _ = run_compiler(capsys, "compile", tmp_path / "net.pb", "--mixed", "bfloat16")
    assert code == 0
    assert net().compile(batch=32, mixed="bfloat16").sha256 in out
    code, _, err = run_compiler(capsys, "compile", tmp_path / "net.pb", "--mixed", "int8")
    assert code != 0
    assert "mixed='int8': operands can be rounded to bfloat16 only; write mixed='bfloat16'" in err


def test_the_command_takes_patterns_beside_the_dtype(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net().compile(batch=32).save(tmp_path / "net.pb")
    parameter = next(iter(net().compile(batch=32).desc.states)).name
    for option in ("keep", "lower"):
        asked = f"mixed_precision.{option}"
        mixed = prograd.mixed("bfloat16", keep=["*"]) if option == "keep" else prograd.mixed("bfloat16", lower=["*"])
        command = ["compile", tmp_path / "net.pb", "--option"]
        code, out, _ = run_compiler(capsys, *command, f"{asked}=*", "--mixed", "bfloat16")
        assert code == 0
        assert net().compile(batch=32, mixed=mixed).sha256 in out
        code, _, err = run_compiler(capsys, *command, f"{asked}=haed.*", "--mixed", "bfloat16")
        assert code != 0
        assert err.endswith(f"mixed: {option}='haed.*' matches no tensor; `compiler show` prints their names\n")
        code, _, err = run_compiler(capsys, *command, f"{asked}={parameter}")
        assert code != 0
        assert err.endswith(f"mixed: {option}={parameter!r} needs mixed precision; give 'bfloat16' as mixed too\n")


def test_the_command_takes_the_order_of_additions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net().compile(batch=32).save(tmp_path / "net.pb")
    command = ["compile", tmp_path / "net.pb", "--option", "mixed_precision.order=pairs"]
    code, out, _ = run_compiler(capsys, *command, "--mixed", "bfloat16")
    assert code == 0
    hashes = [net().compile(batch=32, mixed=prograd.mixed("bfloat16", order=order)).sha256 for order in ORDERS]
    assert [each in out for each in hashes] == [False, True]
    code, _, err = run_compiler(capsys, *command)
    assert code != 0
    assert err.endswith("mixed: order='pairs' needs mixed precision; give 'bfloat16' as mixed too\n")
    command[-1] = "mixed_precision.order=rows"
    code, _, err = run_compiler(capsys, *command, "--mixed", "bfloat16")
    assert code != 0
    assert err.endswith("mixed: order='rows' is no order of additions; there are tiles and pairs\n")


def test_products_of_few_columns_of_a_float32_input_stay_float32() -> None:
    program = Program("regression", seed=1)
    x, y = program.input("x", "float32", ("batch", 64)), program.input("y", "int64", ("batch",))
    logits = x @ program.parameter("w", (64, 10))
    program.minimize(ops.softmax_cross_entropy(logits, y), sgd(RATE))
    assert program.compile(batch=32, mixed="bfloat16").sha256 == program.compile(batch=32).sha256
    wide = prograd.mixed("bfloat16", lower=[logits.name])
    assert program.compile(batch=32, mixed=wide).sha256 != program.compile(batch=32).sha256
