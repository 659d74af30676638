"""Kernels compute what their rules take around every sample, and the dtypes in the reference are these."""

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import product

import numpy as np
import pytest
from oracles.interpret import compute
from samples import SAMPLES, Sample
from subjects.cases import Case, build

from compiler.reference import reference
from compiler.reference.operand_types import DtypeRules, dtype_rules
from prograd_proto import TensorType, attributes_of
from prograd_proto.dtypes import ITEM_BYTES
from registry import OPS, Op, OpError
from runtime.dtypes import numpy_dtype
from runtime.errors import ExecutionError

rules_of = cache(dtype_rules)
"""The rules of an operator, found once in a process."""

FEWER = {
    "over_shards": "A mean fits floats only.",
    "pad": "A value with fractions fits floats only.",
    "randint": "all within the dtype",
    "range": "Integers go up in whole steps only.",
    "scatter_nd": 'bool allows "set" only',
}
"""Operators that allow fewer dtypes for some values of an attribute, and how their text says so."""

each_sample = pytest.mark.parametrize("sample", [s for s in SAMPLES if s.op != "constant"], ids=str)


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_the_dtypes_of_every_operator_are_known(op: Op):
    assert rules_of(op) is not None, f"declare an @example call above {op.name}"


@each_sample
def test_a_kernel_computes_every_element_for_the_shapes_that_its_rule_takes(sample: Sample):
    op, case = OPS[sample.op], build(sample)
    attributes = attributes_of(case.desc)
    usual = types_of(op, case)
    for place, type in enumerate(usual):
        for shape in () if type is None else other_shapes(type.static_shape):
            types = [*usual[:place], TensorType(type.dtype, shape), *usual[place + 1 :]]
            if inferred(op, types, attributes) is not None:
                arrays = [None if type is None else plain(type) for type in types]
                with suppress(ExecutionError):  # of no numbers that it computes: indices of nothing, a singular matrix
                    one, other = (compute(case.desc, arrays, rubbish) for rubbish in (0x55, 0x00))
                    assert [array.tobytes() for array in one] == [array.tobytes() for array in other], types


@each_sample
def test_a_rule_takes_and_gives_the_dtypes_of_the_reference(sample: Sample):
    op, rules = OPS[sample.op], rules_of(OPS[sample.op])
    chosen = [name for name, spec in op.signature.attributes.items() if spec.kind == "dtype"]
    case = build(sample)
    given = attributes_of(case.desc)
    shapes = [None if type is None else type.shape for type in types_of(op, case)]
    usual = [None if type is None else type.dtype for type in types_of(op, case)]
    for dtypes in combinations([*usual, *(given[name] for name in chosen)]):
        operands, own = dtypes[: len(shapes)], dtypes[len(shapes) :]
        types = [None if d is None else TensorType(d, s) for d, s in zip(operands, shapes, strict=True)]
        attributes = given | dict(zip(chosen, own, strict=True))
        made = inferred(op, types, attributes)
        if says(rules, operands, own) != (made is not None):
            assert sample.op in FEWER, dtypes
            assert made is None, dtypes
        if made is not None:
            padded = (*in_places(rules, operands), *own, *(type.dtype for type in made))
            first = len(padded) - len(made)
            assert all(rule.accepts(padded[first + i], padded) for i, rule in enumerate(rules.outputs)), dtypes


@pytest.mark.parametrize("name", FEWER)
def test_an_operator_says_where_an_attribute_allows_fewer_dtypes(name: str):
    assert FEWER[name] in " ".join(OPS[name].__doc__.split())


@pytest.mark.thorough
def test_dtypes_are_told_in_the_reference():
    page = reference()
    for line in (
        "*Types*: `x`, `dtype` any; `y` as `dtype`.",  # cast
        "*Types*: `xs` any, all alike; `y` as `xs`.",  # concat
        "*Types*: `condition` bool; `a` any; `b`, `y` as `a`.",  # where
        "*Types*: `x` any but float16 and bfloat16; `y` as `x`, but int64 for int32, bool and uint8.",  # sum
        "*Types*: `q` float32, float64 or bfloat16; `k`, `v` as `q`; "
        "`mask` bool or as `q`, but float32 or bool for bfloat16; `y` as `q`, but float32 for bfloat16.",  # attention
        "*Types*: `a` float32, float64, int32, int64 or uint8; `b`, `y` as `a`.",  # add
    ):
        assert line in page


def types_of(op: Op, case: Case) -> list[TensorType | None]:
    """The operands' types, None for each absent one, also at the end."""
    absent = [None] * (len(op.signature.inputs) - len(case.operands))
    return [*(None if value is None else value.type for value in case.operands), *absent]


def other_shapes(shape: tuple[int, ...]) -> set[tuple[int, ...]]:
    """Return shapes of every rank up to five, and shapes near this one."""
    near = {shape[1:], (5, *shape), (*shape, 1), (0, *shape[1:]), shape[::-1]}
    return near | {(), (1,), (0,), (2, 2), (3, 1, 2), (2, 2, 2, 2), (1, 2, 1, 2, 3)}


def combinations(usual: list[str | None]) -> Iterator[list[str | None]]:
    """Another dtype for all operands that share one, and then for one of all."""
    for old, new in product(dict.fromkeys(filter(None, usual)), ITEM_BYTES):
        together = [new if dtype == old else dtype for dtype in usual]
        yield together
        for place, dtype in enumerate(together):
            if dtype is not None:
                yield from ([*together[:place], other, *together[place + 1 :]] for other in ITEM_BYTES)


def says(rules: DtypeRules, operands: list[str | None], attributes: list[str | None]) -> bool:
    """Return True if operands may have these dtypes; further operands of a variadic input are like its last."""
    before = [*in_places(rules, operands), *attributes]
    last = len(rules.operands) - 1
    more = [rules.operands[last].accepts(dtype, before) for dtype in operands[len(rules.operands) :]]
    ruled = zip((*rules.operands, *rules.attributes), before, strict=True)
    return all(more) and all(rule.accepts(dtype, before) for rule, dtype in ruled if dtype is not None)


def in_places(rules: DtypeRules, operands: list[str | None]) -> list[str | None]:
    """The dtypes at the places of the rules, None where there is no operand."""
    count = len(rules.operands)
    return [*operands, *[None] * count][:count]


def inferred(op: Op, types: list[TensorType | None], attributes: dict) -> list[TensorType] | None:
    try:
        return list(op.infer_types(types, attributes))
    except OpError:
        return None


def plain(type: TensorType) -> np.ndarray:
    """Small numbers from 1 on for floats, and zeros, which are indices too."""
    array = np.zeros(type.static_shape, numpy_dtype(type.dtype))
    if array.dtype.kind == "f":
        array[...] = np.linspace(1, 2, array.size).reshape(array.shape)
    return array
