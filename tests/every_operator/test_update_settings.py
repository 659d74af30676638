"""Settings of updates out of their range: refused in one sentence when a program is built, and when a file is read."""

import pytest
from samples import SAMPLES
from subjects.commands import told

import runtime
from compiler import OpError, Program, adam, ops
from prograd_proto import ProgramError, TensorType
from registry.op import OPS

SHARES = {"beta1", "beta2", "alpha", "rho"}
UPDATES = {sample.op: sample for sample in SAMPLES if OPS[sample.op].signature.inputs[:2] == ("w", "dw")}
SETTINGS = [
    (name, attribute)
    for name in UPDATES
    for attribute, spec in OPS[name].signature.attributes.items()
    if spec.kind == "float"
]


@pytest.mark.parametrize(("op", "name"), SETTINGS)
def test_a_setting_out_of_its_range_is_refused(op, name):
    sample = UPDATES[op]
    types = [TensorType(operand.dtype, operand.shape) for operand in sample.operands]
    attributes = OPS[op].signature.bind([None] * len(types), OPS[op].signature.spelled(sample.attributes))[1]
    share = name in SHARES
    for value in (-0.5, float("nan"), float("inf"), *([1.0, 2.0] if share else [])):
        wanted = f"{name} is {value}, which is not " + ("in [0, 1)" if share else "a number from 0 on")
        with pytest.raises(OpError) as caught:
            OPS[op].infer_types(types, attributes | {name: value})
        assert str(caught.value) == wanted
    for value in (0.0, *([] if share else [3.0])):
        OPS[op].infer_types(types, attributes | {name: value})


def test_a_file_with_such_a_setting_is_refused_before_it_runs():
    program = Program()
    w = program.parameter("w", (2,))
    program.minimize(ops.sum(w * w), adam(0.1))
    desc = program.compile().desc
    for block in desc.blocks:
        for op in block.ops:
            for attribute in op.attributes:
                if attribute.name == "beta2":
                    attribute.float_value = 2.0
    assert told(ProgramError, lambda: runtime.Run(desc)).endswith("): beta2 is 2.0, which is not in [0, 1)")


def test_an_optimizer_with_such_a_setting_is_refused_with_the_users_line():
    program = Program()
    w = program.parameter("w", (2,))
    with pytest.raises(OpError) as caught:
        program.minimize(ops.sum(w * w), adam(0.1, epsilon=-1.0))
    assert str(caught.value).startswith("tests/every_operator/test_update_settings.py:")
    assert str(caught.value).endswith("): epsilon is -1.0, which is not a number from 0 on")
