"""Products against NumPy's in float64, over shapes with tails, either operand transposed, between forbidden pages."""

import re
from dataclasses import replace

import numpy as np
import pytest
from native.building import HERE, every_target, run
from native.guarded import guarded

from runtime.codegen.ir import FLOAT32, FLOAT64, INT32, Module, pointer
from runtime.codegen.ir.types import BFLOAT16
from runtime.codegen.ir.words import convert, maximum
from runtime.codegen.kernels.depth import UNROLLED_DEPTH_STEPS, PairForm
from runtime.codegen.kernels.matmul import ComputedMatrix, Matrix, PairedMatrix, plan_product, product, stored
from runtime.codegen.kernels.matmul.plan import MAX_CHAIN_DEPTH, MAX_TILE_ROWS, shares
from runtime.codegen.kernels.matmul.tile import tile
from runtime.codegen.kernels.pair_chains import MAX_CHAINED_ROWS, UNROLLED_PAIRS
from runtime.codegen.kernels.pair_products import GROUP_PAIRS
from runtime.codegen.kernels.steps import ComputedOperand
from runtime.codegen.machine import INSTRUCTION_SETS, target
from runtime.engines.native import jit

ELEMENT = {np.dtype("f4"): FLOAT32, np.dtype("f8"): FLOAT64}
SHAPES = [(1, 1, 1), (1, 7, 300), (14, 33, 17), (3, 16, 0), (97, 70, 513), (97, 129, 65), (20, 130, 1024)]
OF_VECTORS = [of for of in map(target, HERE) if not of.has_matrix_tiles]
ODD_CACHES = {"l2_bytes": 24 << 10}


def multiply(of, a, b, epilogue=None, beside=(), layout="NN"):
    """a @ b by code for a target, from operands that lie as the two letters of the layout say."""
    (m, k), n = a.shape, b.shape[1]
    element = ELEMENT[a.dtype]
    left = (k, 1) if layout[0] == "N" else (1, m)
    right = (n, 1) if layout[1] == "N" else (1, k)
    plan = plan_product(of, element.bits, m, n, k, left, right)
    arrays = [
        np.ascontiguousarray(a if layout[0] == "N" else a.T),
        np.ascontiguousarray(b if layout[1] == "N" else b.T),
    ]
    arrays += [np.full((m, n), np.nan, a.dtype), np.full(max(plan.scratch, 1), np.nan, a.dtype), *beside]
    arrays = [guarded(array) for array in arrays]
    module = Module(of)
    f = module.function("built", [pointer(element)] * len(arrays))
    pa, pb, pc, ps, *more = f.arguments
    c = Matrix(pc, n)
    finish = epilogue(f, c, *more) if epilogue else stored(c)
    product(f, plan, element, m, n, k, Matrix(pa, *left), Matrix(pb, *right), finish, partial=c, scratch=ps)
    f.end()
    run(module, arrays)
    return arrays[2]


def operands(m, n, k, dtype="f4"):
    rng = np.random.default_rng(m + n + k)
    return rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)


@pytest.mark.sampled(2)
@every_target
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_products_of_odd_shapes_are_near_the_exact_ones(target, layout):
    for m, n, k in SHAPES if layout in ("NN", "NT") else SHAPES[2:4] + SHAPES[-1:]:
        for dtype in ("f4", "f8") if layout == "NN" and m < 20 else ("f4",):
            a, b = operands(m, n, k, dtype)
            size = np.abs(a).astype("f8") @ np.abs(b).astype("f8")
            error = np.abs(multiply(target, a, b, layout=layout) - a.astype("f8") @ b.astype("f8"))
            assert (error <= 20 * np.finfo(dtype).eps * size).all(), (m, n, k, dtype)


@every_target
def test_neither_caches_nor_place_nor_layout_change_a_bit(target):
    a, b = operands(61, 75, 2 * MAX_CHAIN_DEPTH + 7)
    expected = multiply(target, a, b)
    small = replace(target, **ODD_CACHES)
    for layout in ("NN", "NT", "TN"):
        assert (multiply(small, a, b, layout=layout) == expected).all(), layout
    assert (multiply(target, a[17:40], b[:, 3:21]) == expected[17:40, 3:21]).all()
    wide = np.hstack([b] * 20)
    for layout in ("NN", "TT"):
        assert (multiply(small, np.vstack([a, a]), wide, layout=layout)[:61, 225:300] == expected).all(), layout


@every_target
def test_sums_are_chains_of_a_depth_in_order(target):
    k = MAX_CHAIN_DEPTH + 44
    a, b = operands(2, 3, k)
    depth = -(-k // 2 // UNROLLED_DEPTH_STEPS) * UNROLLED_DEPTH_STEPS
    fused = fused_chain if target.fma else plain_chain
    expected = fused(a[:, :depth], b[:depth]) + fused(a[:, depth:], b[depth:])
    assert (multiply(target, a, b) == expected).all()


def fused_chain(a, b):
    """Compute the product with wider numbers, which is exact for these, and round once."""
    total = np.zeros((a.shape[0], b.shape[1]), "f4")
    for x, y in zip(a.T, b, strict=True):
        total = (x[:, None].astype(np.longdouble) * y.astype(np.longdouble) + total).astype("f4")
    return total


def plain_chain(a, b):
    total = np.zeros((a.shape[0], b.shape[1]), "f4")
    for x, y in zip(a.T, b, strict=True):
        total = total + x[:, None] * y
    return total


@every_target
@pytest.mark.parametrize("k", [24, MAX_CHAIN_DEPTH + 30])
def test_an_epilogue_takes_every_finished_vector_once(target, k):
    a, b = operands(17, 37, k)
    bias = np.random.default_rng(0).standard_normal(37).astype("f4")

    def epilogue(f, c, bias):
        write = stored(c)

        def finish(x, i, j, count):
            write(maximum(x + f.load(bias, j, x.type.lanes, count), 0.0), i, j, count)

        return finish

    plain = multiply(target, a, b)
    assert (multiply(target, a, b, epilogue, [bias]) == np.maximum(plain + bias, 0)).all()


def computed(memory, row, column, factor):
    """Return a matrix of integers in memory as floats that are multiplied by a factor."""
    width = max(row, column)

    def read(i, j, lanes, count):
        numbers = memory.function.load(memory, i * width + j, *((lanes, count) if lanes else ()))
        return convert(numbers, FLOAT32) * factor

    return ComputedMatrix(ComputedOperand(read, [memory]), row, column, is_transposed=row == 1)


@every_target
@pytest.mark.parametrize("layout", ["NN", "TT"])
def test_operands_are_computed_where_they_are_packed(target, layout):
    m, n, k = 130, 150, 70
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (m, k)).astype("i4"), rng.integers(-9, 9, (k, n)).astype("i4")
    left, right = ((k, 1), (n, 1)) if layout == "NN" else ((1, m), (1, k))
    plan = plan_product(replace(target, **ODD_CACHES), 32, m, n, k, left, right)
    assert plan.pack_left
    assert plan.pack_right
    module = Module(target)
    f = module.function("built", [pointer(INT32)] * 2 + [pointer(FLOAT32)] * 2)
    pa, pb, pc, ps = f.arguments
    half, whole = computed(pa, *left, 0.5), computed(pb, *right, 1.0)
    product(f, plan, FLOAT32, m, n, k, half, whole, stored(Matrix(pc, n)), scratch=ps)
    f.end()
    flip = (lambda x: x) if layout == "NN" else (lambda x: x.T)
    arrays = [guarded(np.ascontiguousarray(flip(x))) for x in (a, b)]
    arrays += [guarded(np.zeros(size, "f4")) for size in ((m, n), plan.scratch)]
    run(module, arrays)
    assert (arrays[2] == (a @ b) / 2).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", OF_VECTORS, ids=lambda t: t.name)
@pytest.mark.parametrize("layout", ["NN", "TT"])
@pytest.mark.parametrize("k", [129, 1063])
def test_copies_of_pairs_are_widened_once_unless_an_instruction_multiplies_them(target, k, layout):
    m, n = 49, 70
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (m, k)).astype("f4"), rng.integers(-9, 9, (k, n)).astype("f4")
    left, right = ((k, 1), (n, 1)) if layout == "NN" else ((1, m), (1, k))
    pairs, is_widened = -(-k // 2), target.widens_pairs
    plan = plan_product(target, 32, m, n, pairs, left, right, (True, True), of_pairs=True)
    assert plan.panel_row == plan.width * (2 if is_widened else 1)
    module = Module(target)
    f = module.function("built", [pointer(BFLOAT16)] * 2 + [pointer(FLOAT32)] * 2)
    pa, pb, pc, ps = f.arguments
    form = {"is_widened": is_widened, "is_chained": target.chains_pairs}
    x = PairedMatrix(Matrix(pa, *left), is_left=True, depth=k, **form)
    y = PairedMatrix(Matrix(pb, *right), is_left=False, depth=k, **form)
    c = Matrix(pc, n)
    product(f, plan, FLOAT32, m, n, pairs, x, y, stored(c), partial=c, scratch=ps)
    f.end()
    halves = [(np.ascontiguousarray(v if layout == "NN" else v.T).view("u4") >> 16).astype("u2") for v in (a, b)]
    arrays = [guarded(v) for v in (*halves, np.zeros((m, n), "f4"), np.full(plan.scratch, np.nan, "f4"))]
    run(module, arrays)
    assert (arrays[2] == a @ b).all()


@pytest.mark.parametrize(("m", "k", "n"), [(20, 16129, 40), (3, 16386, 40)])
def test_the_last_block_of_a_deep_product_may_have_less_than_an_unrolled_step(m, k, n):
    """Blocks of equal size leave one and two steps of the depth."""
    a, b = operands(m, n, k)
    exact = a.astype("f8") @ b
    for of in OF_VECTORS:
        assert np.abs(multiply(of, a, b) - exact).max() <= 2e-6 * np.abs(exact).max(), of.name


@every_target
def test_rows_that_evict_each_other_are_copied_if_that_pays(target):
    def copies(m, n, k):
        return plan_product(target, 32, m, n, k, (k, 1), (n, 1)).pack_left

    assert copies(20, 130, 1024)
    assert not copies(20, 130, 1000)
    assert not copies(8, 130, 1024)
    assert not copies(20, 64, 1024)


@every_target
def test_many_products_are_a_loop(target):
    a, b = (np.random.default_rng(0).standard_normal((5, 9, 9)).astype("f4") for _ in range(2))
    plan = plan_product(target, 32, 9, 9, 9, (9, 1), (9, 1))
    assert plan.scratch == 0
    module = Module(target)
    f = module.function("built", [pointer(FLOAT32)] * 3)
    for i in f.range(0, 5):
        at = [Matrix(x + i * 81, 9) for x in f.arguments]
        product(f, plan, FLOAT32, 9, 9, 9, at[0], at[1], stored(at[2]))
    f.end()
    arrays = [guarded(x) for x in (a, b, np.zeros_like(a))]
    run(module, arrays)
    np.testing.assert_allclose(arrays[2], a @ b, rtol=1e-4, atol=1e-5)


@every_target
def test_infinities_and_nan_go_where_they_belong(target):
    a, b = operands(9, 20, 30)
    a[2, 3], a[4, 5], b[7, 11] = np.inf, np.nan, -np.inf
    with np.errstate(all="ignore"):
        expected = a.astype("f8") @ b.astype("f8")
    got = multiply(target, a, b)
    assert (np.isnan(got) == np.isnan(expected)).all()
    assert (np.isinf(got) == np.isinf(expected)).all()


@pytest.mark.parametrize("name", INSTRUCTION_SETS)
def test_every_tile_stays_in_registers_and_calls_nothing(name):
    of = target(name)
    for vectors, rows in MAX_TILE_ROWS[of.registers, of.fma].items():
        module = Module(of)
        f = module.function("tile", [pointer(FLOAT32)] * 3)
        a, b, c = f.arguments
        vector, width = FLOAT32.of(of.lanes()), vectors * of.lanes()
        sums = tile(Matrix(a, MAX_CHAIN_DEPTH + of.lanes()), Matrix(b, width), rows, width, vector, MAX_CHAIN_DEPTH)
        for i, row in enumerate(sums):
            for j, x in enumerate(row):
                f.store(x, c, i * width + j * of.lanes())
        f.end()
        text = jit.assembly(module)
        body = text[text.index("\n.LBB0_1:") :]
        loop = body[: re.search(r"\n\s+(j\w+|b\.\w+)\s+\.LBB0_1", body).end()]
        assert not re.search(r"%[er]?sp|\[sp", loop), (vectors, rows)
        assert not re.search(r"\b(call|callq|bl)\b", text), (vectors, rows)
        multiplies = len(re.findall(r"\b(?:vfmadd\d+ps|fmla|mulps)\b", loop))
        assert multiplies == UNROLLED_DEPTH_STEPS * rows * vectors, (vectors, rows)


@pytest.mark.parametrize(("vectors", "rows"), MAX_CHAINED_ROWS.items())
def test_two_chains_of_combined_pairs_stay_in_registers(vectors, rows):
    of = target("avx512_bf16")
    module, width = Module(of), vectors * of.lanes()
    f = module.function("tile", [pointer(FLOAT32)] * 3)
    a, b, c = f.arguments
    vector, pairs = FLOAT32.of(of.lanes()), 4 * GROUP_PAIRS
    sums = tile(Matrix(a, pairs), Matrix(b, width), rows, width, vector, pairs, pairs=PairForm(is_chained=True))
    for i, x in enumerate(x for row in sums for x in row):
        f.store(x, c, i * of.lanes())
    f.end()
    loops = re.findall(r"\n(\.LBB0_\d+):((?:\n(?!\.LBB).*)*?\n\s+jl\s+\1\b)", jit.assembly(module))
    inner = [body for _, body in loops if "vdpbf16ps" in body and "rsp" not in body.rpartition("vdpbf16ps")[0]]
    assert sum(body.count("vdpbf16ps") for body in inner) == rows * vectors * UNROLLED_PAIRS


def test_shares_are_equal_but_for_one():
    assert shares(29, 13) == [(10, 2), (9, 1)]
    assert shares(26, 13) == [(13, 2)]
    assert shares(1, 13) == [(1, 1)]
    assert all(sum(s * c for s, c in shares(n, 6)) == n for n in range(1, 60))
