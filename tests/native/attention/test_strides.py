"""Attention that reads heads by strides and writes gradients into their places, against copies before and after it."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from native.bound import lowered
from native.building import every_target
from native.made import Made, check

from registry import OPS, Value
from runtime.codegen.machine import Target
from runtime.engines.native.cpu import this_machine


class Case(NamedTuple):
    """Sizes of self-attention, and the way in which heads are split."""

    images: int = 3
    length: int = 37
    heads: int = 4
    size: int = 12
    split: str = "columns"  # of one product: its columns, an axis of three, or three products
    causal: bool = True
    dtype: str = "float32"


CASES = {
    "columns of one product": Case(),
    "an axis of three, in the order of a product of PyTorch": Case(split="axis"),
    "three products": Case(split="products", causal=False),
    "heads of whole vectors": Case(2, 128, 8, 32),
    "several batches of queries": Case(1, 150, 9, 16),
    "few heads, whose queries are shared by threads": Case(1, 70, 2, 8),
    "few heads of three products": Case(1, 70, 2, 8, split="products"),
    "one head": Case(2, 20, 1, 16),
    "one query": Case(2, 1, 4, 16),
    "one element": Case(2, 20, 8, 1, causal=False),
    "float64": Case(dtype="float64", split="axis"),
    "bfloat16": Case(2, 128, 8, 32, dtype="bfloat16"),
    "bfloat16, an axis of three": Case(split="axis", dtype="bfloat16"),
    "bfloat16, three products": Case(split="products", causal=False, dtype="bfloat16"),
    "bfloat16, an odd number of elements": Case(2, 40, 8, 7, dtype="bfloat16"),
    "bfloat16, several batches of queries": Case(1, 150, 9, 16, dtype="bfloat16"),
    "bfloat16, few heads, whose queries are shared by threads": Case(1, 70, 2, 8, dtype="bfloat16"),
    "bfloat16, few heads of three products": Case(1, 70, 2, 8, split="products", dtype="bfloat16"),
    "bfloat16, one head": Case(2, 20, 1, 16, dtype="bfloat16"),
    "bfloat16, one query": Case(2, 1, 4, 16, dtype="bfloat16"),
    "bfloat16, one query of many elements": Case(2, 1, 4, 256, dtype="bfloat16"),
    "bfloat16, one element": Case(2, 20, 8, 1, causal=False, dtype="bfloat16"),
}


def narrow(case: Case, x: Value) -> Value:
    return OPS["cast"](x, dtype="bfloat16") if case.dtype == "bfloat16" else x


def wide(case: Case, x: Value) -> Value:
    return OPS["cast"](x, dtype="float32") if case.dtype == "bfloat16" else x


def split(case: Case, x: Value) -> list[Value]:
    w = case.heads * case.size
    if case.split == "products":
        return [narrow(case, part) for part in (OPS["add"](x, OPS["neg"](x)), OPS["neg"](x), OPS["exp"](x))]
    x = narrow(case, x)
    if case.split == "columns":
        return [*OPS["split"](x, axis=2, sizes=(w, w, w))]
    x = OPS["reshape"](x, shape=(case.images, case.length, 3, w))
    return [OPS["slice"](x, axis=(2,), starts=(i,), stops=(i + 1,), strides=(1,)) for i in range(3)]


def attention(case: Case, *, apart: bool = False, mask: bool = False):
    """Heads split from a product, attention, its gradient, and the gradient of that product.

    With `apart`, all tensors between them are results, so that each needs memory of its own. Heads of bfloat16 are
    rounded before they are split, and results before they are turned.
    """
    n, length, h, d = case[:4]
    w = h * d

    def heads(x: Value) -> Value:
        return OPS["transpose"](OPS["reshape"](x, shape=(n, length, h, d)), axis=(0, 2, 1, 3))

    def write(x: Value, dy: Value, hidden: Value | None = None) -> Any:
        operands = [heads(part) for part in split(case, x)]
        y = OPS["scaled_dot_product_attention"](*operands, hidden, causal=case.causal, scale=0.3)
        rounded_y = narrow(case, y)
        y_turned = OPS["transpose"](rounded_y, axis=(0, 2, 1, 3))
        dy_heads = heads(narrow(case, dy))
        gradients = [*OPS["attention_gradient"](*operands, dy_heads, hidden, causal=case.causal, scale=0.3)]
        back = [narrow(case, each) for each in gradients]
        turned = [OPS["transpose"](each, axis=(0, 2, 1, 3)) for each in back]
        flat = [OPS["reshape"](each, shape=(n, length, w)) for each in turned]
        if case.split == "columns":
            flat = [OPS["concat"](*flat, axis=2)]
        if case.split == "axis":
            flat = [OPS["concat"](*(OPS["reshape"](each, shape=(n, length, 1, w)) for each in flat), axis=2)]
        found = [OPS["neg"](wide(case, each)) for each in (y_turned, *flat)]
        if not apart:
            return found
        return list(dict.fromkeys([*found, *operands, dy_heads, y, rounded_y, *gradients, *back, *turned]))

    return write


def given(case: Case) -> list[np.ndarray]:
    rng, width = np.random.default_rng(3), case.heads * case.size
    joined = width if case.split == "products" else 3 * width
    dtype = "float32" if case.dtype == "bfloat16" else case.dtype
    return [rng.normal(size=(case.images, case.length, each)).astype(dtype) for each in (joined, width)]


def names(made: Made, target: Target) -> set[str]:
    return {node.op.type for group in lowered(made.desc, (), target).groups for node in group.nodes}


def _casts(case: Case) -> int:
    """Count the casts that no other op takes: those of operands, unless products make them."""
    return (1 if case.split == "products" else 2) * (case.dtype == "bfloat16")


COPIES = {"transpose", "concat", "split", "slice"}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", CASES)
def test_heads_are_read_and_gradients_written_in_place_with_the_bits_of_copies(name: str):
    case, target = CASES[name], this_machine()
    together, apart = (Made(attention(case, apart=each), given(case)) for each in (False, True))
    assert names(together, target).isdisjoint(COPIES)
    assert [group for group in together.groups(target) if group == "cast"] == ["cast"] * _casts(case)
    assert {"transpose"} <= names(apart, target) or 1 in (case.length, case.heads)
    wanted = [x.tobytes() for x in apart.native(target)]
    for threads in (1, 2):
        found = [x.tobytes() for x in together.native(target, threads)]
        assert found == wanted[: len(found)]


@every_target
def test_heads_are_read_by_strides_on_every_instruction_set(target: Target):
    case = CASES["columns of one product"]
    check(attention(case), given(case), replace(target, l2_bytes=1 << 15))


@pytest.mark.thorough
@every_target
def test_heads_of_bfloat16_are_read_by_strides_on_every_instruction_set(target: Target):
    for case in (CASES["bfloat16"], CASES["bfloat16, an odd number of elements"]):
        together, apart = (Made(attention(case, apart=each), given(case)) for each in (False, True))
        found = [x.tobytes() for x in together.native(target)]
        assert found == [x.tobytes() for x in apart.native(target)][: len(found)]


@pytest.mark.thorough
@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("part", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_number_that_is_not_finite_is_found_in_rows_with_gaps(number: float, part: int, dtype: str):
    case = Case(2, 100, 4, 12, dtype=dtype)
    x, dy = given(case)
    x[0, 90, part * 48 + 17] = number
    mask = np.arange(100) < np.array([37, 100])[:, None, None, None]
    for operands in ([x, dy], [x, dy, mask], [x, np.where(x[:, :, :48] > 2, number, dy).astype("f4")]):
        together, apart = (Made(attention(case, apart=each), operands) for each in (False, True))
        found = [y.tobytes() for y in together.native(this_machine())]
        assert found == [y.tobytes() for y in apart.native(this_machine())][: len(found)]
        if dtype == "float32":
            check(attention(case), operands, this_machine())
        for got, wanted in zip(together.native(this_machine()), together.wanted, strict=True):
            assert (np.isnan(got) == np.isnan(wanted)).all()


def test_groups_of_heads_are_read_by_strides():
    """Four heads of queries share two of keys and values, in one product."""
    n, length, d = 2, 40, 8

    def write(x: Value, dy: Value) -> list[Value]:
        sizes = (4 * d, 2 * d, 2 * d)
        q, k, v = (
            OPS["transpose"](OPS["reshape"](part, shape=(n, length, size // d, d)), axis=(0, 2, 1, 3))
            for part, size in zip(OPS["split"](x, axis=2, sizes=sizes), sizes, strict=True)
        )
        y = OPS["scaled_dot_product_attention"](q, k, v, None, causal=True, scale=0.3)
        back = OPS["attention_gradient"](q, k, v, dy, None, causal=True, scale=0.3)
        turned = [OPS["transpose"](each, axis=(0, 2, 1, 3)) for each in (y, *back)]
        flat = [OPS["reshape"](each, shape=(n, length, -1)) for each in turned[1:]]
        return [OPS["neg"](turned[0]), OPS["neg"](OPS["concat"](*flat, axis=2))]

    rng = np.random.default_rng(0)
    operands = [rng.normal(size=shape).astype("f4") for shape in ((n, length, 8 * d), (n, 4, length, d))]
    assert names(Made(write, operands), this_machine()) == {"scaled_dot_product_attention", "attention_gradient", "neg"}
    check(write, operands, this_machine(), threads=2)


def test_a_result_that_others_read_stays_a_tensor_of_its_own():
    """One gradient is read twice, and a concatenation has a part that attention does not write."""
    shape = (2, 3, 20, 8)

    def write(q: Value, k: Value, v: Value, dy: Value) -> list[Value]:
        dq, dk, dv = OPS["attention_gradient"](q, k, v, dy, None, causal=False, scale=0.3)
        turned = [OPS["transpose"](each, axis=(0, 2, 1, 3)) for each in (dq, dk, dv)]
        joined = OPS["concat"](turned[1], turned[2], turned[0], OPS["exp"](turned[1]), axis=3)
        return [OPS["neg"](joined), OPS["neg"](dq)]

    rng = np.random.default_rng(0)
    operands = [rng.normal(size=shape).astype("f4") for _ in range(4)]
    made = Made(write, operands)
    [node] = [
        node
        for group in lowered(made.desc, (), this_machine()).groups
        for node in group.nodes
        if "attention" in node.name
    ]
    assert node.name == "attention_gradient with transpose, transpose"
    assert "concat" in names(made, this_machine())
    check(write, operands, this_machine())
