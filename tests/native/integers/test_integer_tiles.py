"""Tiles of words of integers: the instructions of x86, and the integers of NEON, which an emulator runs."""

from __future__ import annotations

import subprocess
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from native.mixed.test_neon import EMULATOR, program
from oracles import integers

from runtime.codegen.ir import FLOAT32, INT32, UINT8, Module, Type, pointer
from runtime.codegen.kernels.depth import DepthLoop, PanelVector, Tile
from runtime.codegen.kernels.integers.sums import rows_of_sums
from runtime.codegen.kernels.integers.words import INT16
from runtime.codegen.machine import INSTRUCTION_SETS, Target, target
from runtime.codegen.rules.integers import requantized
from runtime.engines.native import jit

FACTOR, ZERO = 2.0**-13 * 1.25, 77


def module_of(of: Target, m: int, k: int, n: int, element: Type = INT16) -> Module:
    """Return a function of elements of words [m, k], words [depth, n], and codes of the requantised product."""
    module, lanes = Module(of), of.lanes(32)
    f = module.function("tile", [pointer(element), pointer(INT32), pointer(UINT8)])
    elements = 32 // element.bits
    depth = [DepthLoop(k // elements, elements, n)]
    rows, vectors = [i * k for i in range(m)], [PanelVector(j, lanes) for j in range(0, n, lanes)]
    operands = Tile(f.arguments[0], rows, f.arguments[1], vectors, INT32.of(lanes), depth)
    factor, zero = f.constant(FLOAT32.of(lanes), FACTOR), f.constant(UINT8.of(lanes), ZERO)
    sums = rows_of_sums(operands, None, in_matrix_tiles=of.has_byte_tiles)
    for i, x in enumerate(chain.from_iterable(sums)):
        f.store(requantized(x, factor, zero), f.arguments[2], i * lanes)
    f.end()
    return module


def instructions_of(name: str, element: Type) -> list[str]:
    """Return the assembly of a tile of four rows, line by line."""
    of = target(name, "linux")
    parsed, machine = jit._assembled(module_of(of, 4, 64, of.lanes(32), element))
    return machine.emit_assembly(parsed).splitlines()


def counted(lines: list[str], *words: str) -> list[int]:
    return [sum(word in line.split() for line in lines) for word in words]


X86 = {name: found for name, found in INSTRUCTION_SETS.items() if found.architecture == "x86_64"}


@pytest.mark.parametrize("name", [name for name, found in X86.items() if not found.has_byte_products])
def test_x86_multiplies_pairs_by_the_instruction_that_does_not_saturate(name: str):
    lines = instructions_of(name, INT16)
    assert max(counted(lines, "pmaddwd", "vpmaddwd")) >= 4
    assert counted(lines, "vpmaddubsw", "pmaddubsw", "vpmulld", "pmulld") == [0] * 4


WITH_VECTORS = [name for name, found in X86.items() if found.has_byte_products and not found.has_byte_tiles]


@pytest.mark.parametrize("name", WITH_VECTORS)
def test_sets_with_vnni_multiply_four_bytes_by_the_instruction_that_does_not_saturate(name: str):
    lines = instructions_of(name, UINT8)
    assert counted(lines, "vpdpbusd")[0] >= 4
    assert counted(lines, "vpdpbusds", "vpmaddubsw", "vpmulld", "vpmaddwd") == [0] * 4
    assert counted(lines, "{vex}")[0] == (counted(lines, "vpdpbusd")[0] if name == "avx_vnni" else 0)


def test_tiles_of_bytes_multiply_codes_by_signed_bytes_without_vectors():
    lines = instructions_of("amx_int8", UINT8)
    assert counted(lines, "tdpbusd", "vpdpbusd", "tdpbf16ps") == [1, 0, 0]


def test_neon_multiplies_four_bytes_by_dot_products_where_it_has_them():
    assert counted(instructions_of("neon_dotprod", UINT8), "sdot")[0] >= 4
    assert counted(instructions_of("neon", INT16), "sdot") == [0]


@pytest.mark.skipif(EMULATOR is None, reason="needs qemu-aarch64")
@pytest.mark.parametrize("shape", [(8, 64, 8), (5, 512, 12), (6, 30, 4)], ids=str)
def test_a_tile_of_neon_has_the_codes_of_the_oracle(tmp_path: Path, shape: tuple[int, int, int]):
    m, k, n = shape
    rng, of = np.random.default_rng(shape), target("neon", "linux")
    x, w = rng.integers(0, 256, (m, k), dtype="u1"), rng.integers(0, 256, (k, n), dtype="u1")
    left, right = x.astype("i2") - 9, w.astype("i2") - 128
    words = np.ascontiguousarray(right.reshape(k // 2, 2, n).transpose(0, 2, 1))
    at = tmp_path / "tile"
    at.write_bytes(program(module_of(of, m, k, n), left.tobytes(), words.tobytes(), m * n))
    at.chmod(0o755)
    assert EMULATOR is not None, "the test is skipped without it"
    printed = subprocess.run([EMULATOR, at], capture_output=True, check=True).stdout
    one, zero = np.array(1, "f4"), np.array(ZERO, "u1")
    sums = integers.product(x, w, 9, np.array(128))
    wanted = integers.requantized(sums, np.array(FACTOR, "f4"), one, one, zero)
    assert len(np.unique(wanted)) > 10
    np.testing.assert_array_equal(np.frombuffer(printed, "u1").reshape(m, n), wanted)
