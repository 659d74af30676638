"""Ops with forms as groups of their own, against their kernels, in memory that is NaN where nothing was written."""

import numpy as np
import pytest
from native.bound import bind_compiled, lowered
from oracles.interpret import compute
from samples import LARGE, SAMPLES, Sample
from subjects.cases import build

from prograd_proto import program_pb2 as pb
from prograd_proto.tensor_types import tensor_desc
from runtime.codegen.rules import RULES, Product, Reduction
from runtime.dtypes import array_type
from runtime.engines.native.cpu import this_machine
from runtime.engines.native.step import CompiledStep
from runtime.memory.aligned import aligned_bytes

CASES = [(sample, "float64") for sample in SAMPLES if sample.op in RULES]
CASES += [
    (sample, dtype)
    for sample in LARGE
    if isinstance(RULES.get(sample.op), Product | Reduction)
    for dtype in ("float64", "float32")
]

TOLERANCE = {"float32": 2e-6, "float64": 1e-13}
"""Relative to the largest element: products and sums are added in another order than NumPy's."""


@pytest.mark.sampled(108)
@pytest.mark.parametrize(("sample", "dtype"), CASES, ids=str)
def test_a_group_of_one_op_computes_what_the_kernel_does(sample: Sample, dtype: str):
    case = build(sample)
    inputs = [None if x is None else x.astype(dtype) if x.dtype == np.float64 else x for x in case.inputs]
    expected = compute(case.desc, inputs)
    compiled = in_garbage(case.desc, inputs, expected)
    compiled()
    for name, wanted in zip(case.desc.outputs, expected, strict=True):
        made = compiled.arrays[name]
        if wanted.dtype.kind == "f":
            scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=1.0)
            np.testing.assert_allclose(made, wanted, rtol=0, atol=TOLERANCE[wanted.dtype.name] * scale)
        else:
            np.testing.assert_array_equal(made, wanted)


def in_garbage(op: pb.OpDesc, inputs: list[np.ndarray | None], outputs: list[np.ndarray]) -> CompiledStep:
    """The op alone, compiled and fed, in an arena whose other bytes are NaN."""
    block = pb.BlockDesc(ops=[op])
    operands = {name: x for name, x in zip(op.inputs, inputs, strict=True) if name and x is not None}
    for name, array in [*operands.items(), *zip(op.outputs, outputs, strict=True)]:
        block.tensors.append(tensor_desc(name, array_type(array)))
    for name in operands:
        block.parameters.add(tensor=name, feed=name)
    step = lowered(block, list(op.outputs), this_machine())
    arena = aligned_bytes(step.memory.arena_bytes)
    arena[:] = 0xFF
    compiled = bind_compiled(step, {}, arena)
    for name, array in operands.items():
        compiled.arrays[name][...] = array
    return compiled
