"""Products of bfloat16 by the tiles of AMX, whose instructions are emulated where the CPU lacks them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native.mixed import test_attention as attention
from native.mixed import test_convolutions as convolutions
from native.mixed.contract import multiply_add
from native.mixed.contract import product as by_contract
from native.mixed.test_contract import KINDS, SHAPES, numbers
from native.mixed.test_products import CASES, exact, product, result
from native.mixed.test_products import numbers as ordinary
from subjects.random_networks import network

import prograd
from prograd import Program, ops
from prograd_proto.dtypes import DTypeName
from runtime.codegen.ir import FLOAT32, Module, pointer
from runtime.codegen.kernels.depth import DepthLoop, PairForm, Tile
from runtime.codegen.kernels.matmul import plan_product
from runtime.codegen.kernels.tiles import tile
from runtime.codegen.machine import target

Array = np.ndarray[Any, np.dtype[Any]]

Count = Callable[[], int]

pytestmark = pytest.mark.filterwarnings("ignore:invalid value")


def has_bits(found: Array, wanted: Array) -> bool:
    """Return True if all bits are equal, but for those of NaN."""
    return bool(((found.view("u4") == wanted.view("u4")) | (np.isnan(found) & np.isnan(wanted))).all())


@pytest.mark.sampled(9)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bits_are_those_of_the_contract(
    tmp_path: Path, products: Count, shape: tuple[int, int, int], kind: str
) -> None:
    m, k, n = shape
    rng = np.random.default_rng([m, k, n, KINDS.index(kind)])
    a, b = numbers(rng, (m, k), kind), numbers(rng, (k, n), kind)
    before = products()
    found = result(product(tmp_path, "matmul", ((m, k), (k, n)), {}), a, b, "native.amx")
    assert products() > before or before < 0
    assert has_bits(found, by_contract(a, b, SHAPES[shape]))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_all_shapes_and_strides_give_products(tmp_path: Path, products: Count, case: Any) -> None:
    name, *shapes, attributes = case
    a, b = (ordinary(i, shape) for i, shape in enumerate(shapes))
    before = products()
    y = result(product(tmp_path, name, shapes, attributes), a, b, "native.amx")
    assert products() > before or before < 0
    wanted = exact(name, a, b, attributes)
    assert np.abs(y - wanted).max() <= 2e-6 * np.abs(wanted).max()


@pytest.mark.parametrize(("m", "k", "n"), [(100, 96, 150), (40, 1100, 70), (256, 512, 512)])
def test_all_panels_are_read_for_the_rows_of_a_tile(tmp_path: Path, products: Count, m: int, k: int, n: int) -> None:
    """The largest shape shares panels among work items."""
    a, b = ordinary(0, (m, k)), ordinary(1, (k, n))
    plan = plan_product(target("amx"), 32, m, n, -(-k // 2), (k, 1), (n, 1), (False, True), of_pairs=True)
    assert plan.repeats_panels
    path, before = product(tmp_path, "matmul", ((m, k), (k, n)), {}), products()
    found = result(path, a, b, "native.amx")
    assert products() > before or before < 0
    assert has_bits(found, result(path, a, b, "native.avx2"))


def test_a_transposed_left_operand_has_the_same_bits(tmp_path: Path, products: Count) -> None:
    a, b = ordinary(0, (77, 90)), ordinary(1, (90, 52))
    wanted = by_contract(a, b)
    path = product(tmp_path, "outer_sum", ((90, 77), (90, 52)), {})
    assert has_bits(result(path, np.ascontiguousarray(a.T), b, "native.amx"), wanted)


def test_bits_of_a_convolution_are_those_of_the_contract(tmp_path: Path, products: Count) -> None:
    """A direct convolution is one chain: rows of the filter, of each its columns and channels in groups of 32."""
    case = ((4, 9, 9, 72), (3, 3, 72, 40), {})
    before = products()
    found, *_ = convolutions.results(tmp_path, "bfloat16", case, "native.amx")
    assert products() > before or before < 0
    x, w = (convolutions.numbers(i, shape) for i, shape in enumerate(case[:2]))
    total = np.zeros((4 * 49, 40), "f4")
    for i in range(3):
        image = np.concatenate([x[:, i : i + 7, j : j + 7] for j in range(3)], axis=3).reshape(-1, 3 * 72)
        weights = w[i].reshape(3 * 72, 40)
        for start in range(0, 3 * 72, 32):
            part = by_contract(image[:, start : start + 32], weights[start : start + 32])
            total = multiply_add(part, np.ones_like(part), total)
    assert has_bits(found.reshape(total.shape), total)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", convolutions.CASES, ids=str)
def test_convolutions_are_those_of_float32(tmp_path: Path, products: Count, case: Any) -> None:
    wanted = convolutions.results(tmp_path, "float32", case, "reference")
    tolerance = convolutions.ROUNDED_TRANSFORMS if case in convolutions.OF_WINOGRAD else 2e-6
    for y, x in zip(convolutions.results(tmp_path, "bfloat16", case, "native.amx"), wanted, strict=True):
        assert np.abs(y - x).max() <= tolerance * np.abs(x).max()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", attention.CASES, ids=str)
def test_attention_and_its_gradients_are_those_by_hand(tmp_path: Path, products: Count, case: Any) -> None:
    feeds, before = attention.fed(case), products()
    found = attention.results(tmp_path, case, "native.amx", feeds)
    assert products() > before or before < 0
    for name, wanted in attention.by_hand(case, feeds).items():
        differences = np.abs(found[name] - wanted) / np.abs(wanted).max()
        assert differences.max() <= 1e-3


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [0, 2, 3, 5])
def test_random_networks_have_the_hash_of_vector_instructions(tmp_path: Path, products: Count, seed: int) -> None:
    """Train rows, images, sequences and recurrent layers."""
    program, feeds = network(seed)
    program.compile(batch=16, mixed="bfloat16").save(tmp_path / "p.pb")
    digests: set[str] = set()
    for engine, threads in (("native.avx512_bf16", 1), ("native.amx", 1), ("native.amx", 2)):
        before = products()
        run = prograd.load(tmp_path / "p.pb", engine=engine, threads=threads)
        for _ in range(3):
            run.step(feeds)
        assert (products() > before) == (engine == "native.amx") or before < 0
        digests.add(run.state_sha256)
    assert len(digests) == 1


def test_a_function_releases_the_registers_once_and_describes_them_again_after_a_call() -> None:
    module = Module(target("amx"))
    other = module.function("other", [])
    other.end()
    f = module.function("tiles", [pointer(FLOAT32)])
    [at] = f.arguments
    for rows in (32, 32, 20):
        offsets = [row * 16 for row in range(rows)]
        tile(Tile.of(at, offsets, at, 32, FLOAT32.of(16), [DepthLoop(16, 1, 32)]), pairs=PairForm())
    f.call("other")
    f.end()
    before, text = module.text.split("void @tiles(")
    lines = text.splitlines()
    assert before.count("@llvm.x86.tilerelease()") == 1  # its declaration
    [release] = [i for i, line in enumerate(lines) if "tilerelease" in line]
    assert lines[release + 1].strip() == "ret void"
    loads = [i for i, line in enumerate(lines) if "ldtilecfg" in line]
    assert len(loads) == 3
    assert all(lines[i - 1].startswith("b") and "br i1" in lines[i - 2] for i in loads)  # under a condition
    [call] = [i for i, line in enumerate(lines) if "@other" in line]
    assert lines[call + 1].strip() == "store ptr null, ptr %tile_description"


def test_products_of_float32_use_no_tiles(tmp_path: Path, products: Count) -> None:
    dtype: DTypeName = "float32"
    program = Program("product")
    x, y = program.input("a", dtype, (32, 64)), program.input("b", dtype, (64, 32))
    program.outputs(y=ops.matmul(x, y))
    program.compile().save(tmp_path / "p.pb")
    a, b = ordinary(0, (32, 64)), ordinary(1, (64, 32))
    before = products()
    found, pairs = (result(tmp_path / "p.pb", a, b, f"native.{each}") for each in ("amx", "avx512_bf16"))
    assert products() == before
    assert has_bits(found, pairs)
