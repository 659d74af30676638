"""The IR builder: loops, tails, masks, words; run on every instruction set that this machine has."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from native.building import call, every_target, pointwise, run

from runtime.codegen.ir import BOOL, DTYPES, FLOAT32, FLOAT64, INT32, INT64, UINT8, Module, pointer
from runtime.codegen.ir.types import MASK
from runtime.codegen.ir.words import (
    absolute,
    across,
    bits,
    convert,
    copysign,
    fma,
    is_nan,
    maximum,
    minimum,
    shuffle,
    sqrt,
    where,
)
from runtime.codegen.machine import target
from runtime.engines.native import jit

FLOAT_WORDS = [
    (maximum, np.maximum),
    (minimum, np.minimum),
    (lambda a, b: a + b, np.add),
    (lambda a, b: a - b, np.subtract),
    (lambda a, b: a * b, np.multiply),
    (lambda a, b: a / b, np.divide),
    (lambda a, b: copysign(a, b), np.copysign),
    (lambda a, b: where(a < b, a, 7.0), lambda a, b: np.where(a < b, a, 7)),
    (lambda a, b: where(a >= b, 7.0, b), lambda a, b: np.where(a >= b, 7, b)),
    (lambda a, b: where(a.equal(b), a, b - 1), lambda a, b: np.where(a == b, a, b - 1)),
    (lambda a, b: where(a.not_equal(b), 1.0, b), lambda a, b: np.where(a != b, 1, b)),
    (lambda a, b: where(is_nan(a) | (b > 0), 1.0 - a, -b), lambda a, b: np.where(np.isnan(a) | (b > 0), 1 - a, -b)),
    (lambda a, b: sqrt(absolute(a)), lambda a, b: np.sqrt(np.abs(a))),
    (lambda a, b: maximum(a, 0.0), lambda a, b: np.maximum(a, 0)),
    (lambda a, b: minimum(a, 2.0), lambda a, b: np.minimum(a, 2)),
]

ODD = [0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 1e-40, -1e30, 3.0, 0.5]


def odd_pairs(dtype):
    a, b = np.meshgrid(np.array(ODD, dtype), np.array(ODD, dtype))
    return a.ravel(), b.ravel()


@every_target
@pytest.mark.parametrize("n", [1, 3, 16, 37])
@pytest.mark.parametrize("end", [True, False])
def test_a_loop_with_a_masked_tail_touches_its_elements_and_no_others(target, n, end):
    lanes = target.lanes()

    def build(f, x, y):
        for i in f.range(0, n // lanes * lanes, lanes):
            f.store(f.load(x, i, lanes) * 2.0, y, i)
        if tail := n % lanes:
            f.store(f.load(x, n - tail, lanes, tail) * 2.0, y, n - tail, tail)

    x = np.arange(1, n + 1, dtype="f")
    assert (call(target, build, [x, np.zeros_like(x)], end)[1] == 2 * x).all()


@every_target
@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("known", [True, False])
def test_a_loop_carries_values_however_often_it_turns(target, n, known):
    def build(f, x, count, y):
        stop = n if known else f.load(count)
        loop = f.loop(0, stop, 1, carry=[f.constant(FLOAT32, 1), f.constant(INT64, 0)])
        for i, [product, turns] in loop:
            loop.carry([product * f.load(x, i), turns + 1])
        product, turns = loop.results
        f.store(product, y)
        f.store(convert(turns, FLOAT32), y, 1)

    x = np.array([2, 3, 5, 7, 11], "f")
    y = call(target, build, [x, np.array([n]), np.zeros(2, "f")])[2]
    assert y.tolist() == [np.prod(x[:n]), n]


@every_target
def test_loops_nest_and_start_where_they_are_told(target):
    def build(f, y, edge):
        for i in f.range(1, f.load(edge)):
            for j in f.range(i, 6, 2):
                f.store(f.load(y, i * 6 + j) + 1.0, y, i * 6 + j)

    expected = np.zeros((5, 6), "f")
    for i in range(1, 4):
        expected[i, i:6:2] += 1
    assert (call(target, build, [np.zeros((5, 6), "f"), np.array([4])])[0] == expected).all()


@every_target
def test_a_loop_that_hands_nothing_on_is_a_mistake_of_its_author(target):
    f = Module(target).function("f", [])
    loop = f.loop(0, 4, carry=[f.constant(FLOAT32, 0)])
    with pytest.raises(AssertionError, match="the body does not hand on what the loop carries"):
        list(loop)


@every_target
def test_a_branch_runs_only_where_its_condition_holds(target):
    def build(f, x, y):
        for i in f.range(0, 8):
            with f.when(f.load(x, i) > 3):
                f.store(f.constant(INT64, 1), y, i)

    x = np.array([1, 5, 3, 4, -9, 7, 0, 3])
    assert (call(target, build, [x, np.zeros(8, "i8")])[1] == (x > 3)).all()


@every_target
def test_a_tail_may_be_known_only_when_the_code_runs(target):
    lanes = target.lanes()

    def build(f, x, count, y):
        tail = f.load(count)
        f.store(f.load(x, 0, lanes, tail), y, 0, tail)

    for n in (1, 3, lanes - 1):
        x = np.arange(1, n + 1, dtype="f")
        assert (call(target, build, [x, np.array([n]), np.zeros(n, "f")])[2] == x).all()


@every_target
def test_a_function_calls_another_of_its_module(target):
    module = Module(target)
    inner = module.function("twice", [pointer(FLOAT32), INT64], public=False)
    x, i = inner.arguments
    inner.store(inner.load(x, i) * 2.0, x, i)
    inner.end()
    outer = module.function("built", [pointer(FLOAT32)])
    for i in outer.range(0, 5):
        outer.call("twice", outer.arguments[0], outer.index(i))
    outer.end()
    x = np.arange(5, dtype="f")
    run(module, [x])
    assert x.tolist() == [0, 2, 4, 6, 8]


@every_target
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_words_give_what_numpy_gives_of_odd_numbers(target, dtype):
    a, b = odd_pairs(dtype)
    words, oracles = zip(*FLOAT_WORDS, strict=True)
    for got, oracle in zip(pointwise(target, words, np.dtype(dtype), a, b), oracles, strict=True):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(got, oracle(a, b).astype(dtype))


@every_target
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_whole_numbers_wrap_and_compare_as_numpys(target, dtype):
    edge = np.iinfo(dtype)
    values = np.array([0, 1, 2, 3, 100, edge.min, edge.max, edge.max - 1], dtype)
    a, b = (x.ravel() for x in np.meshgrid(values, values))
    whole_words = [
        (lambda a, b: a + b, np.add),
        (lambda a, b: a * b, np.multiply),
        (lambda a, b: (a & b) ^ (a | 5), lambda a, b: (a & b) ^ (a | 5)),
        (lambda a, b: ~a, lambda a, b: ~a),
        (lambda a, b: where(a < b, a, b), np.minimum),
        (maximum, np.maximum),
        (lambda a, b: a >> 3, lambda a, b: a >> 3),
        (lambda a, b: a << 2, lambda a, b: a << 2),
        (lambda a, b: absolute(a), lambda a, b: np.abs(a)),
    ]
    words, oracles = zip(*whole_words, strict=True)
    for got, oracle in zip(pointwise(target, words, np.dtype(dtype), a, b), oracles, strict=True):
        np.testing.assert_array_equal(got, oracle(a, b).astype(dtype))


@every_target
def test_conversions_are_numpys(target):
    x = np.array([0, 1, -1, 2.5, -2.5, 100.7, -100.2], "f")
    for element, dtype in [(INT32, "int32"), (INT64, "int64"), (FLOAT64, "float64")]:
        [got] = pointwise(target, [lambda v, element=element: convert(v, element)], np.dtype(dtype), x)
        np.testing.assert_array_equal(got, x.astype(dtype))
    for dtype in ("int64", "uint8", "bool", "float64", "int32"):
        x = np.array([0, 1, 1, 0, 1, 0, 1, 1, 0] if dtype == "bool" else [0, 1, 2, 3, 255, 254, 17, 100, 9], dtype)
        [got] = pointwise(target, [lambda v: convert(v, FLOAT32)], np.dtype("f"), x)
        np.testing.assert_array_equal(got, x.astype("f"))
    x = np.array([1.5, 0.0, -0.0, np.nan, 3], "f")
    [got] = pointwise(target, [lambda v: convert(convert(v, MASK), BOOL)], np.dtype(bool), x)
    np.testing.assert_array_equal(got, x.astype(bool))
    assert pointwise(target, [lambda v: bits(v, INT32)], np.dtype("i4"), x)[0].tolist() == x.view("i4").tolist()


@every_target
def test_lanes_are_joined_from_the_halves_inwards(target):
    lanes = target.lanes()

    def build(f, x, y):
        v = f.load(x, 0, lanes)
        f.store(across(v, lambda a, b: a + b), y)
        f.store(shuffle(v, v, list(reversed(range(lanes)))), y, 1)

    x = (np.arange(lanes, dtype="f") + 1) ** 7 / 3
    y = call(target, build, [x, np.zeros(lanes + 1, "f")])[1]
    part = x
    while part.size > 1:
        part = part[: part.size // 2] + part[part.size // 2 :]
    assert y[0] == part[0]
    assert (y[1:] == x[::-1]).all()


@every_target
def test_a_multiply_add_rounds_once_where_the_target_can_and_calls_nothing_where_not(target):
    a, b, c = (np.array([x], "f") for x in (1 + 2**-12, 1 + 2**-12, -1))
    got = pointwise(target, [fma], np.dtype("f"), a, b, c)[0][0]
    once = np.float32(np.float64(a[0]) * np.float64(b[0]) + np.float64(c[0]))
    assert got == (once if target.fma else a[0] * b[0] + c[0])


@pytest.mark.parametrize("name", ["avx512", "avx2", "sse2", "neon"])
def test_no_word_calls_a_library_and_no_register_is_wider_than_the_target(name):
    module = Module(target(name))
    f = module.function("words", [pointer(FLOAT32), pointer(FLOAT64), pointer(UINT8)])
    for x, lanes in ((f.arguments[0], module.target.lanes()), (f.arguments[1], module.target.lanes(64))):
        v = f.load(x, 0, lanes)
        v = fma(sqrt(absolute(v)), v, copysign(1.0, v)) + maximum(v, minimum(v, v * 2.0))
        f.store(where(is_nan(v), 0.0, convert(convert(v, INT64), v.type.of(0))), x, 0, lanes - 1)
    f.end()
    lines = jit.assembly(module)
    assert not [line for line in lines.splitlines() if line.split()[:1] in (["callq"], ["call"], ["bl"])]
    assert ("zmm" in lines) == (name == "avx512")
    assert ("ymm" in lines) == (name in ("avx512", "avx2"))


def test_code_that_reads_past_its_array_dies_in_these_tests():
    script = (
        "import numpy as np\nfrom native.guarded import guarded\n"
        "import ctypes, sys\nx = guarded(np.zeros(5, 'f'), end=sys.argv[1] == 'end')\n"
        "at = x.ctypes.data + (x.nbytes if sys.argv[1] == 'end' else -1)\n"
        "print(x.sum(), flush=True); ctypes.c_char.from_address(at).value"
    )
    for where_ in ("end", "start"):
        done = subprocess.run(
            [sys.executable, "-c", script, where_],
            cwd=Path(__file__).parents[2],
            env={"PYTHONPATH": "."},
            capture_output=True,
            text=True,
        )
        assert done.stdout == "0.0\n"
        assert done.returncode == -11


@pytest.mark.sampled(3)
@every_target
@pytest.mark.parametrize("wide", ["int64", "int32", "float64"])
@pytest.mark.parametrize("narrow", ["int32", "uint8", "float32", "bool"])
def test_a_narrowed_tail_is_stored_in_its_own_bytes(target, wide: str, narrow: str):
    """LLVM makes one store of the conversion and the tail, which may be wider than what is stored."""
    lanes = target.lanes(8 * np.dtype(wide).itemsize)
    x = np.arange(1, lanes + 1).astype(wide)
    for tail in {1, 2, lanes - 1} - {0, lanes}:

        def build(f, source, goal, tail=tail):
            y = convert(f.load(source, 0, lanes, tail), DTYPES[narrow])
            f.store(convert(y, BOOL) if narrow == "bool" else y, goal, 0, tail)

        for end in (True, False):
            _, found = call(target, build, [x[:tail], np.zeros(tail, narrow)], end)
            np.testing.assert_array_equal(found, x[:tail].astype(narrow))
