"""The passes: what each must change, what it must leave, and that they agree with each other."""

from __future__ import annotations

import numpy as np
import pytest
from subjects.commands import told
from subjects.steps import Oracle, Stepper, same_bits

from compiler import CompileError, Program, Value, constant, gradients, momentum, ops, sgd
from compiler.build.compiled import Compiled, compile_program
from compiler.passes.pass_table import Pass
from compiler.passes.pipeline import PASSES
from compiler.passes.run_passes import run_passes
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses
from prograd_proto.identity import program_sha256


def small_network(*, norm: bool = False, dropout: bool = False) -> Program:
    """Images to three classes, with what differs outside training if asked."""
    program = Program()
    x = program.input("x", "float32", ("batch", 6, 6, 2))
    label = program.input("label", "int64", ("batch",))
    w = program.parameter("w", (3, 3, 2, 4))
    v = program.parameter("v", (4, 3))
    h = ops.relu(ops.conv2d(x, w))
    if norm:
        h = normalised(program, h)
    h = ops.mean(h, axis=(1, 2))
    if dropout:
        h = ops.dropout(h, ratio=0.5)
    logits = h @ v
    loss = ops.softmax_cross_entropy(logits, label)
    program.minimize(loss, momentum(0.1))
    program.metrics(accuracy=ops.accuracy(logits, label))
    program.outputs(p=ops.softmax(logits))
    return program


def normalised(program: Program, h: Value) -> Value:
    channels = h.type.shape[-1:]
    scale, bias = program.parameter("scale", channels, constant(1.0)), program.parameter("bias", channels)  # type: ignore[arg-type]
    mean, variance = program.buffer("mean", channels), program.buffer("variance", channels, constant(1.0))  # type: ignore[arg-type]
    y, new_mean, new_variance, *_ = ops.batch_norm(h, scale, bias, mean, variance)
    program.update(mean, new_mean)
    program.update(variance, new_variance)
    return y


def source(compiled: Compiled, entry: str) -> pb.BlockDesc:
    [found] = [e.source_block for e in compiled.desc.entries if e.name == entry]
    return compiled.desc.blocks[found]


def types(block: pb.BlockDesc) -> list[str]:
    return [op.type for op in block.ops]


def bytes_of(program: pb.ProgramDesc) -> bytes:
    return program.SerializeToString(deterministic=True)


# The pipeline


def test_running_all_passes_twice_changes_nothing():
    compiled = small_network(norm=True, dropout=True).compile(batch=4)
    before = bytes_of(compiled.desc)
    run_passes(compiled.desc)
    assert bytes_of(compiled.desc) == before


@pytest.mark.parametrize("name", PASSES.names)
def test_a_pass_that_runs_again_right_away_changes_nothing(name):
    program = small_network(norm=True, dropout=True)._assembled()
    for entry in program.entries:
        entry.bindings.add(dims=[pb.SymbolSize(symbol="batch", size=4)])
    run_passes(program, (*PASSES.before(name), *PASSES.only(name)))
    before = bytes_of(program)
    [change] = PASSES.only(name)
    change.function(BlockAnalyses(program))
    assert bytes_of(program) == before


def test_the_program_is_looked_at_after_every_pass():
    seen: list[str] = []
    run_passes(small_network().compile(batch=4).desc, after=lambda name, program: seen.append(name))
    assert seen == PASSES.names


def test_a_pass_that_breaks_the_program_is_reported_by_name():
    def lose_an_op(program: BlockAnalyses) -> None:
        del program.desc.blocks[0].ops[0]

    passes = PASSES.only("eliminate_dead_ops", "list_operators")
    with pytest.raises(CompileError) as error:
        run_passes(small_network().compile(batch=4).desc, (passes[0], Pass(lose_an_op), passes[1]))
    assert str(error.value) == (
        "lose_an_op: block 0: %conv2d_1 is described, and nothing defines it; "
        "this breaks the rule: every tensor has a name, is described once and defined once"
    )


def test_a_program_that_is_broken_before_the_first_pass_names_none():
    program = small_network().compile(batch=4).desc
    program.blocks[0].ops[1].id = program.blocks[0].ops[0].id
    with pytest.raises(CompileError, match=r"^block 0: op 1 \(relu\) has the id 0 or that of another op; "):
        run_passes(program)


# Inference forms


def test_outside_training_dropout_is_its_input_and_batch_norm_uses_the_running_statistics():
    compiled = small_network(norm=True, dropout=True).compile(batch=4)
    assert {"dropout", "batch_norm"} <= set(types(source(compiled, "train")))
    for entry in ("evaluate", "predict"):
        block = source(compiled, entry)
        assert not {"dropout", "batch_norm"} & set(types(block))
        read = {p.state for p in block.parameters if p.WhichOneof("source") == "state"}
        assert read == {"w", "v", "scale", "bias", "mean", "variance"}


def test_predictions_are_those_of_the_formula_with_the_running_statistics():
    compiled = small_network(norm=True, dropout=True).compile(batch=4)
    train, rng = Stepper(compiled), np.random.default_rng(0)
    for _ in range(3):
        train.step(x=rng.normal(size=(4, 6, 6, 2)), label=rng.integers(0, 3, 4))
    s = train.snapshot()
    predict = Stepper(compiled, "predict")
    for name, array in s.items():
        predict.states.arrays[name][...] = array
    x = rng.normal(size=(4, 6, 6, 2)).astype("float32")
    h = sum(x[:, i : i + 4, j : j + 4] @ s["w"][i, j] for i in range(3) for j in range(3))
    h = (np.maximum(h, 0) - s["mean"]) / np.sqrt(s["variance"] + 1e-5) * s["scale"] + s["bias"]
    powers = np.exp(h.mean((1, 2)) @ s["v"])
    np.testing.assert_allclose(predict.step(x=x)["p"], powers / powers.sum(1, keepdims=True), rtol=1e-5)


def test_what_exists_only_while_training_cannot_be_an_output():
    program = Program()
    x = program.input("x", "float32", (4, 2))
    scale, bias = program.parameter("scale", (2,)), program.parameter("bias", (2,))
    mean, variance = program.buffer("mean", (2,)), program.buffer("variance", (2,))
    _, _, _, batch_mean, _ = ops.batch_norm(x, scale, bias, mean, variance)
    program.outputs(m=batch_mean)
    assert told(CompileError, lambda: program.compile()) == (
        f"use_inference_forms: entry 'predict' needs %{batch_mean.name}, which exists only while training"
    )


def test_new_ops_of_an_inference_form_differentiate_nothing_and_have_the_line_of_the_old_one():
    compiled = small_network(norm=True).compile(batch=4)
    block = source(compiled, "predict")
    [old] = [op for op in source(compiled, "train").ops if op.type == "batch_norm"]
    new = block.ops[types(block).index("relu") + 1 : types(block).index("mean")]
    assert len(new) >= 4
    assert {(op.gradient_of, op.stage) for op in new} == {(0, pb.STAGE_FORWARD)}
    assert {op.location for op in new if op.type != "constant"} == {old.location}


def test_what_predicts_is_the_same_before_and_after_training_is_added():
    program = Program()
    x, w = program.input("x", "float32", (4, 3)), program.parameter("w", (3, 2))
    h = ops.dropout(ops.tanh(x @ w))
    program.outputs(h=h)
    before = source(program.compile(), "predict")
    program.minimize(ops.sum(h), sgd(0.1))
    after = source(program.compile(), "predict")
    assert before.SerializeToString(deterministic=True) == after.SerializeToString(deterministic=True)


# Dead ops


def test_the_gradient_of_an_input_that_nobody_asked_for_is_not_computed():
    program = small_network()
    assert "conv2d_input_gradient" in types(program.block.desc)
    assert "conv2d_input_gradient" not in types(source(program.compile(batch=4), "train"))


def test_the_gradient_of_an_input_that_is_fetched_is_computed():
    program = Program()
    x, w = program.input("x", "float32", (1, 6, 6, 2)), program.parameter("w", (3, 3, 2, 4))
    loss = ops.sum(ops.conv2d(x, w))
    program.minimize(loss, sgd(0.1))
    [dx] = gradients(loss, [x])
    assert dx is not None
    program.fetch("dx", dx)
    assert "conv2d_input_gradient" in types(source(program.compile(), "train"))


def test_what_an_entry_does_not_need_is_not_in_it():
    compiled = small_network().compile(batch=4)
    assert [p.tensor for p in source(compiled, "predict").parameters] == ["x", "w", "v"]
    assert [p.tensor for p in source(compiled, "evaluate").parameters] == ["x", "label", "w", "v"]
    assert all(op.stage == pb.STAGE_FORWARD for name in ("evaluate", "predict") for op in source(compiled, name).ops)


def test_every_op_that_is_left_has_an_output_that_is_read():
    for block in small_network(norm=True, dropout=True).compile(batch=4).desc.blocks:
        read = {name for op in block.ops for name in op.inputs}
        read |= {fetch.tensor for fetch in block.fetches} | {update.tensor for update in block.updates}
        assert all(read & set(op.outputs) for op in block.ops)
        assert all(parameter.tensor in read for parameter in block.parameters)


def test_tensors_are_described_in_the_order_of_their_definitions():
    for block in small_network(norm=True).compile(batch=4).desc.blocks:
        defined = [p.tensor for p in block.parameters] + [name for op in block.ops for name in op.outputs]
        assert [tensor.name for tensor in block.tensors] == defined


def test_an_op_of_several_outputs_stays_whole_while_one_of_them_is_needed():
    program = Program()
    x = program.input("x", "float32", (6,))
    program.outputs(y=ops.split(x, sizes=(1, 2, 3))[1])
    [op] = source(program.compile(), "predict").ops
    assert len(op.outputs) == 3


# Sizes


def test_evaluation_and_prediction_are_bound_for_the_batch_and_for_one_row_and_training_for_the_batch():
    compiled = small_network().compile(batch=4)
    sizes = {e.name: [[(d.symbol, d.size) for d in b.dims] for b in e.bindings] for e in compiled.desc.entries}
    both = [[("batch", 4)], [("batch", 1)]]
    assert sizes == {"train": both[:1], "evaluate": both, "predict": both}


def test_a_batch_of_one_is_bound_once():
    assert [len(entry.bindings) for entry in small_network().compile(batch=1).desc.entries] == [1, 1, 1]


def test_no_symbol_is_left_in_a_bound_block_and_all_are_left_in_the_source():
    compiled = small_network(norm=True, dropout=True).compile(batch=4)
    for entry in compiled.desc.entries:
        assert 'symbol: "batch"' in str(compiled.desc.blocks[entry.source_block])
        for binding in entry.bindings:
            assert "symbol" not in str(compiled.desc.blocks[binding.block])


def test_two_symbols_are_bound_each_to_its_size():
    program = Program()
    x, y = program.input("x", "float32", ("rows", "inner")), program.input("y", "float32", ("inner", "columns"))
    program.outputs(z=x @ y)
    compiled = program.compile(rows=2, inner=3, columns=4)
    assert Stepper(compiled, "predict").step(x=1, y=1)["z"].shape == (2, 4)
    assert [len(e.bindings) for e in compiled.desc.entries] == [1], "no symbol counts the rows of every input"


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({}, "entry 'train': the symbol 'batch' has no size; bind it, as in batch=32"),
        ({"batch": 0}, "batch=0: a symbol is bound to a whole number, 1 or more, of at most 64 bits"),
        ({"batch": 4, "batches": 2}, "there is no symbol 'batches' in this program; did you mean 'batch'?"),
        ({"batch": 2.5}, "batch=2.5: a symbol is bound to a whole number, 1 or more, of at most 64 bits"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(sizes: dict[str, int], sentence: str):
    assert told(CompileError, lambda: small_network().compile(**sizes)) == sentence


def test_another_size_for_a_compiled_program_gives_what_compiling_anew_gives():
    old = small_network(norm=True, dropout=True).compile(batch=4)
    anew = small_network(norm=True, dropout=True).compile(batch=8)
    rebound = compile_program(old.desc, {"batch": 8})
    assert rebound.sha256 == anew.sha256 == program_sha256(anew.desc)
    assert bytes_of(rebound.desc) == bytes_of(anew.desc)


def test_training_gives_the_oracles_bits_with_running_statistics_and_random_numbers():
    compiled = small_network(norm=True, dropout=True).compile(batch=4)
    stepper, rng = Stepper(compiled, threads=2), np.random.default_rng(0)
    oracle = Oracle(compiled.desc, stepper.snapshot())
    for _ in range(10):
        fed = {"x": rng.normal(size=(4, 6, 6, 2)).astype("float32"), "label": rng.integers(0, 3, 4)}
        same_bits(stepper.step(**fed), oracle.step(**fed))
        same_bits(stepper.snapshot(), oracle.states)
    stepper.executor.close()


def test_the_operators_of_the_file_are_listed_sorted_with_their_versions():
    desc = small_network(norm=True).compile(batch=4).desc
    used = {op.type for block in desc.blocks for op in block.ops}
    used |= {state.op.type for state in desc.states if state.HasField("op")}
    assert [operator.type for operator in desc.operators] == sorted(used)
    assert {operator.version for operator in desc.operators} == {1}


def test_a_symbol_that_only_dead_ops_have_is_not_bound():
    def built() -> Program:
        program = small_network()
        ops.exp(program.input("unused", "float32", ("unread", 3)))
        return program

    compiled = built().compile(batch=4, unread=3)
    assert {dim.symbol for entry in compiled.desc.entries for binding in entry.bindings for dim in binding.dims} == {
        "batch"
    }
    assert built().compile(batch=4).sha256 == compiled.sha256, "it needs no size"
    copy = pb.ProgramDesc.FromString(compiled.desc.SerializeToString())
    assert compile_program(copy, {"batch": 4}).sha256 == compiled.sha256


def test_a_tensor_that_no_run_can_hold_is_refused():
    program = Program()
    program.outputs(y=ops.exp(program.input("x", "float32", ("batch", 4))))
    assert told(CompileError, lambda: program.compile(batch=2**61)) == (
        "bind_dimensions: entry 'predict': %x: float32[2305843009213693952, 4] is larger than a tebibyte"
    )
