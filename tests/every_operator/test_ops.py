"""Properties of every operator, tested on every sample: the two sides agree, and gradients are derivatives."""

from pathlib import Path

import numpy as np
import pytest
from oracles.allocation import traced
from oracles.interpret import compute, unwritten
from samples import LARGE, SAMPLES, Sample
from subjects.cases import build, check_derivative, differentiated, takes_symbol, with_size

from compiler.passes.list_operators import list_operators
from compiler.reference import CHECKED_ORDER
from prograd_proto import files
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses
from prograd_proto.text import from_text, to_text
from prograd_proto.upgrades import FORMAT_VERSION
from registry import OPS, Op, ops
from registry.audit import audit_op
from runtime.contract import GROUP
from runtime.kernel import KERNELS
from runtime.operators import CONTRACTS

ALLOWED = 65536 + 4096
"""Bytes that a kernel may allocate while it computes: NumPy's buffer of 8192 elements, and small change."""

BUFFER = 8192 if np.lib.NumpyVersion(np.__version__) >= "2.3.0" else 2048
"""Elements of NumPy's buffer in that test: before 2.3 a reduction that casts has two of them."""

each_op = pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
each_sample = pytest.mark.parametrize("sample", SAMPLES, ids=str)
each_large_sample = pytest.mark.parametrize("sample", LARGE, ids=str)


@each_op
def test_an_operator_has_a_docstring_a_sample_a_kernel_and_a_large_sample(op: Op):
    audit_op(op)
    assert op.__doc__
    assert op.name in {sample.op for sample in SAMPLES}, f"add a line for {op.name} to tests/samples/__init__.py"
    family = op.declaration.__module__.removeprefix("registry.ops.")
    assert op.name in KERNELS, f"add a kernel for {op.name} to {family}.py in runtime/engines/reference/kernels"
    assert op.name in {sample.op for sample in LARGE} | {"constant", "size", "iteration_step"}, (
        "these have nothing large"
    )


@each_op
def test_an_operator_has_a_gradient_or_is_declared_not_to_have_one(op: Op):
    declared = not op.differentiable or op.no_gradient >= set(op.signature.inputs)
    assert (op.gradient_rule is None) == declared


@each_op
def test_samples_check_the_gradient_to_the_order_that_the_reference_says(op: Op):
    orders = {sample.order for sample in SAMPLES if sample.op == op.name} - {0}
    if op.gradient_rule is not None:
        assert orders == (set() if op.traits.checked_through else {CHECKED_ORDER})


@each_op
def test_a_contract_has_the_signature_of_its_operator(op: Op):
    contract = CONTRACTS[op.name]
    signature = op.signature
    assert contract.rule.inputs == signature.inputs
    assert contract.rule.attributes == {name: spec.kind for name, spec in signature.attributes.items()}
    assert contract.rule.optional == sum(default is None for default in signature.defaults.values())
    assert contract.rule.variadic == signature.variadic
    assert contract.variadic_outputs == signature.variadic_outputs
    assert contract.random == op.random
    assert contract.rule.version == op.version
    assert contract.rule.halves == op.halves


@each_op
def test_an_operator_is_found_under_its_name(op: Op):
    assert getattr(ops, op.name) is op, "a later family's star import has another thing of this name"


def test_every_kernel_is_of_an_operator_or_of_the_exchanges_between_ranks():
    exchanges = {name for name, contract in CONTRACTS.items() if any(e.resource == GROUP for e in contract.effects)}
    assert exchanges == {"all_gather", "all_reduce", "reduce_scatter"}
    assert set(KERNELS) - exchanges == set(OPS)


@each_sample
def test_a_kernel_writes_every_element_and_reads_none_before(sample: Sample):
    case = build(sample)
    one, other = (compute(case.desc, case.inputs, rubbish) for rubbish in (0x55, 0x00))
    assert [array.tobytes() for array in one] == [array.tobytes() for array in other]


@each_sample
def test_a_kernel_computes_the_same_where_it_allows_to_work_in_place(sample: Sample):
    case = build(sample)
    expected = compute(case.desc, case.inputs)
    for output, position in case.kernel.in_place:
        if case.operands[position] is None or case.operands[position].dtype != expected[output].dtype.name:
            continue
        inputs = [None if x is None else x.copy() for x in case.inputs]
        if inputs[position].size == expected[output].size:
            outputs, scratch = ([unwritten(type) for type in types] for types in case.made)
            outputs[output] = inputs[position].reshape(outputs[output].shape)
            with np.errstate(all="ignore"):
                case.call(inputs, outputs, scratch)()
            assert [array.tobytes() for array in outputs] == [array.tobytes() for array in expected]


@pytest.mark.sampled(9)
@each_large_sample
def test_a_kernel_allocates_nothing_beyond_small_change(sample: Sample):
    case = build(sample)
    outputs, scratch = ([unwritten(type) for type in types] for types in case.made)
    sizes = [array.nbytes for array in [*case.inputs, *outputs] if array is not None]
    assert max(sizes) > ALLOWED, "the sample is too small to show a copy"
    call = case.call(case.inputs, outputs, scratch)
    with np.errstate(all="ignore"):  # which puts the size of the buffer back as well
        np.setbufsize(BUFFER)
        call()
        with traced() as allocation:
            call()
        assert allocation.peak_bytes < ALLOWED


@pytest.mark.sampled(3)
@pytest.mark.parametrize("sample", [sample for sample in SAMPLES if sample.order], ids=str)
def test_gradients_of_every_order_are_derivatives(sample: Sample):
    case = build(sample)
    for _ in range(sample.order):
        gradient = differentiated(case)
        check_derivative(gradient)
        case = gradient.as_case()


@each_sample
def test_an_operator_and_its_gradients_survive_a_file_and_text(sample: Sample, tmp_path: Path):
    case = build(sample)
    if sample.order:
        case = differentiated(case).as_case()
    program = pb.ProgramDesc(format_version=FORMAT_VERSION, blocks=[case.block.desc])
    list_operators(BlockAnalyses(program))
    files.save(program, tmp_path / "program.pb")
    assert files.load(tmp_path / "program.pb") == program
    assert from_text(to_text(program)) == program


@pytest.mark.parametrize("sample", [sample for sample in SAMPLES if takes_symbol(sample)], ids=str)
def test_inference_with_a_symbol_for_the_batch_agrees_with_inference_of_its_size(sample: Sample):
    cases = [build(sample), build(sample, batch="n")]
    bound, unbound = ([with_size(value.type, sample) for value in case.outputs] for case in cases)
    assert bound == unbound
    if sample.order:
        bound, unbound = ([with_size(v.type, sample) for v in differentiated(case).outputs] for case in cases)
        assert bound == unbound


def test_most_operators_take_a_symbol_for_the_batch():
    able = {sample.op for sample in SAMPLES if takes_symbol(sample)}
    assert set(OPS) - able <= {
        "constant",  # its elements are in the program
        "iteration_step",  # its operands and results are numbers
        "range",  # its extent follows from its numbers
        "linspace",  # its extent is its number of elements
        "permutation",  # its extent is its number of elements
        "orthogonal",  # the work on a matrix grows with the square of its sides
        "split",  # the sample splits the batch
        "concat",  # the sample joins batches
        "unslice",
        "scatter_add",
    }
