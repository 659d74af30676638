"""The table of addresses: one object, whatever the addresses."""

import numpy as np
import pytest
from native.building import every_target
from native.guarded import guarded

from runtime.engines.native import jit
from runtime.engines.native.context import ADDRESSES, Context
from runtime.engines.native.ir import FLOAT32, Module


@every_target
def test_one_function_serves_other_arrays_through_another_table(target):
    context = Context(["factor", "x"])
    module = Module(target)
    f = module.function("scale", [ADDRESSES])
    factor = f.load(context.pointer(f.arguments[0], "factor", FLOAT32))
    x = context.pointer(f.arguments[0], "x", FLOAT32)
    for i in f.range(0, 7):
        f.store(f.load(x, i) * factor, x, i)
    f.end()
    scale = jit.load(jit.compiled(module), target).function("scale", 1)
    for number in (2, 3):
        x, factor = guarded(np.arange(7, dtype="f4")), guarded(np.array([number], "f4"))
        table = guarded(context.table({"x": x.ctypes.data, "factor": factor.ctypes.data}))
        scale(table.ctypes.data)
        assert x.tolist() == [number * i for i in range(7)]


def test_a_slot_without_an_address_and_two_of_one_name_are_mistakes_of_their_author():
    with pytest.raises(AssertionError, match="no address of b, c"):
        Context(["a", "b", "c"]).table({"a": 1})
    with pytest.raises(AssertionError, match="two slots have the same name"):
        Context(["a", "a"])


def test_a_table_holds_whole_addresses():
    assert Context(["x"]).table({"x": 2**63 + 1}).tolist() == [2**63 + 1]
