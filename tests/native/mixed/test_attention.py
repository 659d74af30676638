"""Attention of bfloat16: values beside a computation in float64 that rounds factors, and equal bits on all sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native.building import SETS
from native.mixed.test_products import numbers
from native.mixed.test_recurrent import rounded

import prograd
from prograd import Program, ops

Array = np.ndarray[Any, np.dtype[Any]]

CASES = [
    # images, heads, heads of keys, queries, keys, size of a key, size of a value, causal, mask
    (2, 4, 4, 64, 64, 32, 32, True, ""),
    (2, 4, 4, 128, 128, 64, 64, False, ""),
    (1, 4, 2, 70, 90, 16, 24, False, "bool"),
    (2, 2, 2, 40, 40, 8, 8, True, "float32"),
    (1, 2, 1, 33, 47, 31, 17, True, ""),
    (1, 1, 1, 5, 3, 4, 6, False, ""),
    (1, 2, 2, 100, 1100, 32, 32, False, ""),
]

Found = dict[str, Array]


def results(path: Path, case: Any, engine: str, feeds: Found) -> Found:
    """Return attention and its gradients."""
    *_, causal, mask = case
    program = Program("attention", seed=1)
    given = {name: program.input(name, "bfloat16", feeds[name].shape) for name in ("q", "k", "v", "dy")}
    operands = [given[name] for name in ("q", "k", "v")]
    masks = [program.input("mask", "bool" if mask == "bool" else "float32", feeds["mask"].shape)] if mask else []
    y = ops.scaled_dot_product_attention(*operands, *masks, causal=causal)
    dq, dk, dv = ops.attention_gradient(*operands, given["dy"], *masks, causal=causal, scale=case[5] ** -0.5)
    program.outputs(y=y, dq=dq, dk=dk, dv=dv)
    program.compile().save(path / "p.pb", force=True)
    found = prograd.load(path / "p.pb", engine=engine).predict(feeds)
    return {name: np.asarray(x) for name, x in found.items()}


def fed(case: Any) -> Found:
    """Return operands that bfloat16 holds, and the mask."""
    n, heads, groups, queries, keys, depth, width, _, mask = case
    shapes = {"q": (n, heads, queries, depth), "k": (n, groups, keys, depth), "v": (n, groups, keys, width)}
    shapes["dy"] = (n, heads, queries, width)
    feeds = {name: numbers(seed, shape) for seed, (name, shape) in enumerate(shapes.items())}
    rng = np.random.default_rng(9)
    if mask == "bool":
        feeds["mask"] = rng.random((n, 1, queries, keys)) < 0.7
    elif mask:
        feeds["mask"] = rng.normal(size=(queries, keys)).astype("f4")
    return feeds


def by_hand(case: Any, feeds: Found) -> Found:
    """Compute in float64; only factors of products are rounded."""
    _, heads, groups, queries, keys, depth, _, causal, mask = case
    times = heads // groups
    q, k, v, dy = (feeds[name].astype("f8") for name in ("q", "k", "v", "dy"))
    k, v = (np.repeat(x, times, 1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) * depth**-0.5
    if mask == "bool":
        scores = np.where(feeds["mask"], scores, -np.inf)
    elif mask:
        scores = scores + feeds["mask"]
    if causal:
        scores = np.where(np.arange(keys) <= np.arange(queries)[:, None], scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    total = powers.sum(-1, keepdims=True)
    p = powers / total
    dp = dy @ v.swapaxes(2, 3)
    ds = rounded((dp - (p * dp).sum(-1, keepdims=True)) * p * depth**-0.5)
    of_keys = {"dk": ds.swapaxes(2, 3) @ q, "dv": rounded(p).swapaxes(2, 3) @ dy}
    of_groups = {name: x.reshape(len(x), groups, times, *x.shape[2:]).sum(2) for name, x in of_keys.items()}
    return {"y": rounded(powers) @ v / total, "dq": ds @ k, **of_groups}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_only_factors_of_products_are_rounded(tmp_path: Path, case: Any, engine: str) -> None:
    """Few weights that are nearly halfway between two bfloat16 numbers are rounded to the other one."""
    feeds = fed(case)
    found, wanted = results(tmp_path, case, engine, feeds), by_hand(case, feeds)
    for name, exact in wanted.items():
        assert found[name].dtype == np.float32
        differences = np.abs(found[name] - exact) / np.abs(exact).max()
        assert differences.max() <= 1e-3
        assert np.median(differences) <= 5e-6


@pytest.mark.thorough
@pytest.mark.skipif(len(SETS) < 2, reason="this machine has one instruction set")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_bits_do_not_depend_on_the_instruction_set(tmp_path: Path, case: Any) -> None:
    feeds = fed(case)
    first, *others = (results(tmp_path, case, f"native.{name}", feeds) for name in SETS)
    for other in others:
        assert all(np.array_equal(first[name].view("u4"), other[name].view("u4")) for name in first)


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
def test_values_that_are_not_finite_reach_the_queries_that_see_them(tmp_path: Path, engine: str, odd: float) -> None:
    """A hidden key has a weight of 0, and 0 times infinity is NaN, as in float32."""
    case = (1, 2, 2, 64, 64, 32, 32, True, "")
    feeds = fed(case)
    feeds["v"][0, 1, 40, 3] = odd
    y = results(tmp_path, case, engine, feeds)["y"]
    assert np.isnan(y[0, 1, :40, 3]).all()
    assert np.array_equal(y[0, 1, 40:, 3], np.full(24, odd, "f4"), equal_nan=True)
    assert np.isfinite(y).sum() == y.size - 64


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_queries_that_see_no_key_get_zeros(tmp_path: Path, engine: str) -> None:
    case = (1, 2, 2, 40, 48, 32, 32, False, "bool")
    feeds = fed(case)
    feeds["mask"][0, 0, 7] = False
    found = results(tmp_path, case, engine, feeds)
    assert not found["y"][0, :, 7].any()
    assert not found["dq"][0, :, 7].any()
    assert np.isfinite(found["dk"]).all()


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_operands_below_the_least_normal_number_count_as_0(tmp_path: Path, engine: str) -> None:
    case = (1, 1, 1, 32, 32, 16, 16, False, "")
    feeds = fed(case)
    feeds["v"][...] = 2.0**-127
    assert not results(tmp_path, case, engine, feeds)["y"].any()
