"""Operators with NaN, infinities, -0.0 and denormals in each operand, as data and as known numbers, by both engines.

A case is one operator with operands of a sample. `differences` says in which ways the two engines disagree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from math import inf, nan
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from native.made import Made
from samples import Sample
from samples.operands import Operand

from registry import OPS, Value
from runtime.codegen.machine import Target
from runtime.engines.native.cpu import this_machine
from runtime.errors import ExecutionError

ODD: Final = {"NaN": nan, "inf": inf, "-inf": -inf, "-0": -0.0, "denormal": 1e-45, "-denormal": -1e-45}
"""By the name in docs/accuracy.md; a float64 denormal is 5e-324."""

REFUSING: Final = {"cholesky", "eigh", "inverse", "pseudo_inverse", "solve", "svd"}
"""Operators that are computed by NumPy in both engines, and refuse singular matrices or numbers that are not finite."""

SHARE: Final = 0.03
"""Share of the elements of an operand that are odd; at least one is."""

NEAR: Final = {"float32": 2e-5, "float64": 1e-12}
"""Distance of finite results, relative to the largest of them."""


class Case(NamedTuple):
    """An operator, operands by number, and what was done to them.

    Attributes:
        sample: the operator, shapes and attributes.
        what: which number went where.
        operands: arrays, None where one is absent.
        known: numbers that take the place of operands, by position.
    """

    sample: Sample
    what: str
    operands: tuple[np.ndarray | None, ...]
    known: dict[int, float]


def of_dtype(sample: Sample, dtype: str) -> Sample:
    """Return the sample with float operands and attributes of this dtype."""
    kept = {4} if sample.op == "nadam" else set[int]()  # the product of its shares is float64
    operands = tuple(
        replace(x, dtype=dtype) if x is not None and is_float(x) and i not in kept else x
        for i, x in enumerate(sample.operands)
    )
    attributes = dict(sample.attributes)
    if attributes.get("dtype") in NEAR:
        attributes["dtype"] = dtype
    return replace(sample, operands=operands, attributes=attributes)


def is_float(operand: Operand | None) -> bool:
    """Return True if the operand is there and holds floats."""
    return operand is not None and operand.dtype in NEAR


def in_data(sample: Sample, names: Sequence[str]) -> Iterator[Case]:
    """Yield cases with each of these numbers among the elements of each float operand."""
    plain = made(sample)
    for i, operand in enumerate(sample.operands):
        if not is_float(operand) or not plain[i].size:
            continue
        for name in names:
            yield Case(sample, f"{name} in operand {i}", with_odd(plain, i, name), {})


def as_known(sample: Sample, names: Sequence[str]) -> Iterator[Case]:
    """Yield cases in which each of these numbers is a float operand."""
    plain = made(sample)
    for i, operand in enumerate(sample.operands):
        if is_float(operand):
            for name in names:
                number = odd_number(name, plain[i].dtype)
                yield Case(sample, f"operand {i} is {name}", plain, {i: number})


def made(sample: Sample) -> tuple[np.ndarray | None, ...]:
    """Return ordinary operands of a sample."""
    rng = np.random.default_rng(len(str(sample)))
    return tuple(None if x is None else np.asarray(x.make(rng)) for x in sample.operands)


def odd_number(name: str, dtype: np.dtype) -> float:
    """Return the number of this name."""
    if "denormal" in name:
        return float(np.copysign(np.finfo(dtype).smallest_subnormal, ODD[name]))
    return ODD[name]


def with_odd(operands: tuple[np.ndarray | None, ...], i: int, name: str) -> tuple[np.ndarray | None, ...]:
    """Return the operands with a number at some places of the i-th one."""
    x = operands[i]
    assert x is not None, "it is there"
    x = x.copy()
    places = np.random.default_rng(i).permutation(x.size)[: max(1, round(x.size * SHARE))]
    x.reshape(-1)[places] = odd_number(name, x.dtype)
    return (*operands[:i], x, *operands[i + 1 :])


def group_of(cases: Sequence[Case], target: Target) -> list[tuple[Case, int, np.ndarray, np.ndarray]]:
    """Compute cases in one block; return each case with the position of a result, the native one and the other."""
    given = [x for case in cases for x in case.operands]

    numbers: list[tuple[Case, int]] = []

    def write(*values: Value | None) -> Iterator[Value]:
        left = iter(values)
        for case in cases:
            results = called(case, [next(left) for _ in case.operands])
            numbers.extend((case, i) for i in range(len(results)))
            yield from results

    block = Made(write, given)
    found = block.native(target)
    return [(case, i, got, wanted) for (case, i), got, wanted in zip(numbers, found, block.wanted, strict=True)]


def called(case: Case, operands: list[Value | None]) -> list[Value]:
    """Append the operator to the block of its operands."""
    for i, number in case.known.items():
        x = operands[i]
        assert x is not None, "it is there"
        operands[i] = OPS["full"].on(x.block)(shape=x.shape, value=number, dtype=x.dtype)
    op, attributes = OPS[case.sample.op], case.sample.attributes
    result = op(*operands, **op.signature.spelled(attributes))
    return [result] if isinstance(result, Value) else list(result)


def differences(got: np.ndarray, wanted: np.ndarray) -> set[str]:
    """Return in which ways results differ: "NaN", "infinity", "sign of zero", "number" or "integer"."""
    if wanted.dtype.kind != "f":
        return set() if np.array_equal(got, wanted) else {"integer"}
    found: set[str] = set()
    if (np.isnan(got) != np.isnan(wanted)).any():
        found.add("NaN")
    there = ~(np.isnan(got) | np.isnan(wanted))
    a, b = got[there], wanted[there]
    if (np.where(np.isinf(a), a, 0) != np.where(np.isinf(b), b, 0)).any():
        found.add("infinity")
    finite = np.isfinite(a) & np.isfinite(b)
    a, b = a[finite], b[finite]
    zeros = (a == 0) & (b == 0)
    if (np.signbit(a) != np.signbit(b))[zeros].any():
        found.add("sign of zero")
    if (np.abs(a - b) > NEAR[wanted.dtype.name] * np.abs(b).max(initial=1e-30)).any():
        found.add("number")
    return found


@cache
def listed() -> dict[str, frozenset[str]]:
    """Return the differences that docs/accuracy.md lists, by operator."""
    text = (Path(__file__).parents[2] / "docs/accuracy.md").read_text(encoding="utf-8")
    rows = text.partition("| operators | difference | reason |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [row.split("|") for row in rows]
    return {
        name: frozenset(kind.strip() for kind in kinds.split(","))
        for _, names, kinds, *_ in cells
        for name in re.findall("`(.*?)`", names)
    }


def unlisted(cases: Sequence[Case]) -> list[str]:
    """Return the differences between the engines that the docs do not list, a sentence each."""
    if not cases:
        return []
    allowed = listed().get(cases[0].sample.op, frozenset())
    try:
        results = group_of(cases, this_machine())
    except ExecutionError:  # the kernel refuses, and both engines call it
        assert cases[0].sample.op in REFUSING
        return []
    except AssertionError as error:
        if "NumPy computes" not in str(error):
            raise
        return []  # the native engine calls the kernel, too
    return [
        f"{case.sample}, {case.what}, result {i}: {kind}"
        for case, i, got, wanted in results
        for kind in sorted(differences(got, wanted) - allowed)
    ]
