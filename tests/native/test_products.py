"""Products that threads share, in parts along rows, columns or depth, with what is fused behind them."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from native.building import SETS
from native.made import check

from prograd import Program, Run, constant, sgd
from registry import Value
from registry.ops import cast, einsum, matmul, mean, outer_sum, relu, transpose
from runtime.codegen.emit.partition import partitioned
from runtime.codegen.kernels.matmul.shape import ProductShape, is_halved
from runtime.codegen.kernels.nest import Nest
from runtime.codegen.machine import target
from runtime.engines.native.cpu import this_machine

NEAR = {"float32": 1e-5, "float64": 2e-14}
"""Relative to the largest element: long sums of numbers of both signs are smaller than what is added."""

SIZES = [(32, 784, 256), (1, 256, 64), (7, 512, 33), (64, 256, 130), (3, 130, 700), (1, 4096, 2), (300, 40, 24)]
"""Rows, depth and columns, of which most are cut along the depth, and its halves into blocks."""


def of(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(dtype)


def layer(x: Value, w: Value, b: Value, beside: Value) -> list[Value]:
    """Products whose sums are fused with what follows, or kept, and a gradient of weights."""
    h = matmul(x, w) + b
    return [relu(h), h, matmul(beside, w), outer_sum(x, h) * 2]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_any_number_of_threads_makes_the_same_bits_of_a_product(m: int, k: int, n: int, dtype: str):
    operands = [of(m, k, dtype=dtype), of(k, n, dtype=dtype), of(n, dtype=dtype), of(2, k, dtype=dtype)]
    first, *others = [check(layer, operands, this_machine(), NEAR[dtype], threads) for threads in (1, 2, 3)]
    for found in others:
        for a, b in zip(first, found, strict=True):
            np.testing.assert_array_equal(a, b)


def light(product: Value, beside: Value) -> list[Value]:
    return [product + 1.0]


def heavy(product: Value, beside: Value) -> list[Value]:
    h = product * beside
    return [relu(h), h]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("transpose_a", "transpose_b"), [(False, False), (False, True), (True, False)])
@pytest.mark.parametrize(("m", "k", "n", "follows"), [(261, 520, 1003, heavy), (1003, 131, 515, light)])
def test_a_large_product_copies_its_right_operand_once_for_all_parts(
    m: int, k: int, n: int, follows: Callable[..., list[Value]], transpose_a: bool, transpose_b: bool, dtype: str
):
    """Nothing is a multiple of anything; sums wait for what follows, or do not."""

    def made(a: Value, b: Value, beside: Value) -> list[Value]:
        return follows(matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b), beside)

    a, b = of(*((k, m) if transpose_a else (m, k)), dtype=dtype), of(*((n, k) if transpose_b else (k, n)), dtype=dtype)
    check(made, [a, b, of(m, n, dtype=dtype)], this_machine(), threads=2)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("k", "m", "n"), [(1024, 96, 1030), (517, 512, 260)])
def test_a_large_gradient_of_weights_is_cut_into_columns_of_all_rows(k: int, m: int, n: int, dtype: str):
    """One thread does all units, or each some: the last is smaller, and so is the last block of the depth."""

    def made(a: Value, b: Value, w: Value) -> list[Value]:
        return [w - outer_sum(a, b) * 0.1]

    operands = [of(k, m, dtype=dtype), of(k, n, dtype=dtype), of(m, n, dtype=dtype)]
    first, *others = [check(made, operands, this_machine(), NEAR[dtype], threads) for threads in (1, 2, 3)]
    for found in others:
        np.testing.assert_array_equal(first[0], found[0])


def test_a_product_of_a_matrix_with_itself_is_cut_too():
    x = of(256, 256)
    first, second = (
        check(lambda x: [matmul(x, x), outer_sum(x, x)], [x], this_machine(), NEAR["float32"], n) for n in (1, 2)
    )
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("batch", "inside", "outside", "forwards", "of_weights", "of_input"),
    [(32, 784, 256, "depth", "rows", "columns"), (512, 64, 48, "rows", "depth", "rows")],
    ids=["weights", "batch"],
)
def test_parts_are_rows_of_what_is_large(
    batch: int, inside: int, outside: int, forwards: str, of_weights: str, of_input: str
):
    """Return the shapes of a layer and of its two gradients, for large weights or a large batch."""
    nest, machine = Nest((), {}), replace(target("avx512"), l2_bytes=2 << 20)  # the caches of a Xeon
    shapes = [
        (forwards, ProductShape(nest, batch, outside, inside, (inside, 1), (outside, 1))),
        (of_weights, ProductShape(nest, inside, outside, batch, (1, inside), (outside, 1))),
        (of_input, ProductShape(nest, batch, inside, outside, (outside, 1), (1, outside))),
    ]
    for along, shape in shapes:
        partition = partitioned(machine, 32, shape, 1, halved=is_halved(shape, 32))
        pieces = {"rows": partition.rows.pieces, "columns": partition.columns.pieces, "depth": partition.depth.pieces}
        assert pieces[along] > 1, (along, pieces)
        assert sum(count > 1 for count in pieces.values()) == 1 or along == "depth", (along, pieces)


@pytest.mark.parametrize("k", [1, 2, 64])
def test_a_gradient_of_a_product_of_two_rows_of_one_matrix_has_a_depth_of_one(k: int):
    program = Program("rows", seed=1)
    x, w = program.input("x", "float32", ("batch", k)), program.parameter("w", (2, k), constant(0.5))
    program.minimize(einsum("i,i->", w[0], w[1]) + mean(x * w[0]), sgd(0.25))
    compiled, rows = program.compile(batch=4), {"x": of(8, k)}
    states: list[np.ndarray] = []
    for engine in ("reference", "native"):
        run = Run(compiled, engine=engine)
        run.train(data=rows, shuffle=False)
        states.append(run.states.arrays["w"])
    np.testing.assert_allclose(states[1], states[0], rtol=NEAR["float32"])


def torch_layer(x: Value, w: Value, b: Value) -> list[Value]:
    """A layer whose weights are stored by outputs, on rows that are computed where they are read, or kept."""
    h = relu(x)
    y = matmul(h, w, transpose_b=True)
    return [relu(y + b), y, matmul(x, w, transpose_b=True)]


@pytest.mark.sampled(7)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("k", "n"), [(1, 4099), (2100, 2), (100, 33), (130, 41), (256, 64)])
def test_few_rows_by_weights_as_they_lie_have_equal_bits_everywhere(rows: int, k: int, n: int, dtype: str):
    operands = [of(rows, k, dtype=dtype), of(n, k, dtype=dtype), of(n, dtype=dtype)]
    ways = [(each, 1 + number % 2) for number, each in enumerate(map(target, SETS), rows)]
    first, *others = [check(torch_layer, operands, each, NEAR[dtype], threads) for each, threads in ways]
    for found in others:
        for a, b in zip(first, found, strict=True):
            np.testing.assert_array_equal(a, b)
    check(torch_layer, operands, target("sse2"), NEAR[dtype])


def sums_in_lanes(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Products of rows, added in 16 lanes of four chains of 64 links, in their order one by one, rounded once each."""
    rounds = x.shape[1] // 64
    room = np.zeros((x.shape[0], w.shape[0], 4, 16), "float32")
    pad = [(0, 0), (0, -x.shape[1] % 64)]
    parts = [np.pad(each, pad).reshape(len(each), -1, 4, 16).astype("longdouble") for each in (x, w)]

    def longer(chain: np.ndarray, i: int) -> np.ndarray:
        return (parts[0][:, None, i] * parts[1][None, :, i] + chain).astype("float32")

    chains = room.copy()
    for start in range(0, rounds, 64):
        chain = room.copy()
        for i in range(start, min(start + 64, rounds)):
            chain = longer(chain, i)
        chains += chain
    chains = longer(chains, rounds) if x.shape[1] % 64 else chains
    lanes = (chains[..., 0, :] + chains[..., 1, :]) + (chains[..., 2, :] + chains[..., 3, :])
    while lanes.shape[-1] > 1:
        lanes = lanes[..., ::2] + lanes[..., 1::2]
    return lanes[..., 0]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("end", [True, False])
def test_few_rows_by_large_weights_add_in_lanes_whatever_is_read_side_by_side(rows: int, dtype: str, end: bool):
    x, w = of(rows, 4200), of(130, 4200, dtype=dtype)
    wanted = sums_in_lanes(x, w.astype("float32"))

    def layer(x: Value, w: Value) -> list[Value]:
        return [matmul(x, cast(w, dtype="float32") if dtype == "float16" else w, transpose_b=True)]

    for each in map(target, SETS):
        [found] = check(layer, [x, w], each, NEAR["float32"], 2, end)
        np.testing.assert_array_equal(found, wanted)


def keras_layer(x: Value, w: Value, b: Value) -> list[Value]:
    """A layer whose weights are stored by inputs, on rows that are computed where they are read, or kept."""
    h, w = relu(x), cast(w, dtype="float32") if w.type.dtype == "float16" else w
    y = matmul(h, w)
    return [relu(y + b), y, matmul(x, w)]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
@pytest.mark.parametrize(("k", "n"), [(16, 2053), (301, 5001), (1300, 1029)])
def test_few_rows_by_wide_weights_have_the_bits_of_these_rows_among_more(rows: int, k: int, n: int, dtype: str):
    """Weights are read row by row for up to four rows, and in tiles for more; the order of additions is the same."""
    of_rows = "float64" if dtype == "float64" else "float32"
    x, w, b = of(7, k, dtype=of_rows), of(k, n, dtype=dtype), of(n, dtype=of_rows)
    wanted = check(keras_layer, [x, w, b], this_machine(), NEAR[of_rows])
    for number, each in enumerate(map(target, SETS), rows):
        found = check(keras_layer, [x[:rows], w, b], each, NEAR[of_rows], (1, 16)[number % 2])
        for a, b_of in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b_of[:rows])
    check(keras_layer, [x[:rows], w, b], target("sse2"), NEAR[of_rows])


@pytest.mark.parametrize("rows", [2, 4])
def test_few_rows_have_the_bits_of_their_op_wherever_its_operands_lie(rows: int):
    """Rows that are a slice of another tensor, and weights that are the transpose of one, are read or copied alike."""
    x, w = of(2 * rows, 64), of(64, 80)

    def sliced(x: Value, w: Value) -> list[Value]:
        return [matmul(x[:rows], transpose(w), transpose_b=True)]

    def beside(x: Value, w: Value) -> list[Value]:
        half, turned = x[:rows], transpose(w)
        return [matmul(half, turned, transpose_b=True), half, turned]

    found, *_ = check(sliced, [x, w], this_machine(), NEAR["float32"])
    again, *_ = check(beside, [x, w], this_machine(), NEAR["float32"])
    np.testing.assert_array_equal(found, again)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shared", [False, True])
def test_few_rows_by_each_matrix_of_a_batch_have_the_bits_of_that_matrix_alone(rows: int, dtype: str, shared: bool):
    """Queries of a few heads by the keys of each text; or the keys of one text, by queries of two others."""
    texts, groups, keys, size = 2, 3, 130, 64
    rows = -(-rows // texts) if shared else rows
    q, k = of(texts, groups, rows, size, dtype=dtype), of(4, texts, groups, keys, size, dtype=dtype)

    def of_texts(q: Value, k: Value) -> list[Value]:
        return [matmul(q, k[2, 0] if shared else k[2], transpose_b=True) * 0.125]

    def of_one(q: Value, k: Value) -> list[Value]:
        return [matmul(q, k, transpose_b=True) * 0.125]

    alone = [
        check(of_one, [a, b], this_machine(), NEAR[dtype])[0]
        for of_text, i in zip(q, (0, 0) if shared else (0, 1), strict=True)
        for a, b in zip(of_text, k[2, i], strict=True)
    ]
    wanted = np.reshape(alone, (texts, groups, rows, keys))
    for number, each in enumerate(map(target, SETS), rows):
        [found] = check(of_texts, [q, k], each, NEAR[dtype], 1 + number % 2)
        np.testing.assert_array_equal(found, wanted)
    check(of_texts, [q, k], target("sse2"), NEAR[dtype])
