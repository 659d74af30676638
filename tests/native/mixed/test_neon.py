"""Tiles of pairs of bfloat16 by NEON, which an emulator of aarch64 runs as a program of its own."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native.mixed.contract import product
from native.mixed.test_contract import KINDS, numbers

from runtime.codegen.elf import read_object
from runtime.codegen.ir import FLOAT32, Module, pointer
from runtime.codegen.kernels.depth import DepthLoop, PairForm, Tile
from runtime.codegen.kernels.tiles import tile
from runtime.codegen.machine import target
from runtime.engines.native import jit
from runtime.engines.native.objects.image import image_of

Array = np.ndarray[Any, np.dtype[Any]]

EMULATOR = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")

pytestmark = pytest.mark.skipif(EMULATOR is None, reason="needs qemu-aarch64")

SHAPES = [(8, 64, 8), (5, 96, 12), (13, 130, 8), (3, 30, 7), (6, 512, 16)]
"""Rows, depth and columns of a tile."""

CODE, LEFT, RIGHT, RESULT = 0x400000, 0x10000000, 0x20000000, 0x30000000
"""Addresses of the segments of a program, whose lower 16 bits are 0."""

SEGMENT = 1 << 16

WRITE, EXIT = 64, 93
"""Numbers of system calls of Linux on aarch64."""

SVC = 0xD4000001


def upper(register: int, address: int) -> int:
    """Return the instruction `movz` of the upper 16 bits of an address of 32 bits."""
    return 0xD2A00000 | (address >> 16) << 5 | register


def lower(register: int, number: int) -> int:
    """Return the instruction `movz` of a number of 16 bits."""
    return 0xD2800000 | number << 5 | register


def program(module: Module, left: bytes, right: bytes, nbytes: int) -> bytes:
    """Return an executable file that calls the function `tile` of a module and prints its result."""
    image = image_of(read_object(jit.compiled(module)))
    start = -(-len(image.content) // 16) * 16
    code = [upper(0, LEFT), upper(1, RIGHT), upper(2, RESULT)]
    call = (image.addresses["tile"] - (start + 4 * len(code))) // 4
    code += [0x94000000 | (call & 0x3FFFFFF), lower(8, WRITE), lower(0, 1), upper(1, RESULT), lower(2, nbytes), SVC]
    code += [lower(8, EXIT), lower(0, 0), SVC]
    content = image.content.ljust(start, b"\0") + struct.pack(f"<{len(code)}I", *code)
    parts = {CODE: content, LEFT: left, RIGHT: right, RESULT: bytes(nbytes)}
    heads, body = b"", b""
    for address, part in parts.items():
        size = len(part) + 4096 if address in (LEFT, RIGHT) else len(part)
        at = SEGMENT + len(body)
        heads += struct.pack("<IIQQQQQQ", 1, 7, at, address, address, size, size, SEGMENT)
        body += part.ljust(-(-size // SEGMENT) * SEGMENT, b"\0")
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    head += struct.pack("<HHIQQQIHHHHHH", 2, 183, 1, CODE + start, 64, 0, 0, 64, 56, len(parts), 0, 0, 0)
    return (head + heads).ljust(SEGMENT, b"\0") + body


def words(x: Array) -> Array:
    """Return the pairs of each row as words."""
    halves = x.view("u4") >> 16
    return (halves[:, 0::2] | halves[:, 1::2] << 16).astype("u4")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("by_steps", [False, True])
@pytest.mark.parametrize("is_widened", [False, True])
def test_a_tile_of_neon_has_the_bits_of_the_contract(
    tmp_path: Path, shape: tuple[int, int, int], kind: str, by_steps: bool, is_widened: bool
) -> None:
    """`by_steps`: the rows of a step of the depth are contiguous, not the pairs of a row."""
    m, k, n = shape
    rng, of = np.random.default_rng([m, k, n, KINDS.index(kind)]), target("neon", "linux")
    a, b = numbers(rng, (m, k), kind), numbers(rng, (k, n), kind)
    left, right = (a, b) if is_widened else (words(a), words(np.ascontiguousarray(b.T)).T)
    across, each, lanes = left.shape[1], 2 if is_widened else 1, of.lanes()
    module = Module(of)
    f = module.function("tile", [pointer(FLOAT32)] * 3)
    rows, step = ([*range(m)], m) if by_steps else ([i * across for i in range(m)], 1)
    depth, vector = [DepthLoop(k // 2, step * each, n * each)], FLOAT32.of(lanes)
    sums = tile(Tile.of(f.arguments[0], rows, f.arguments[1], n, vector, depth), pairs=PairForm(is_widened))
    for i, x in enumerate(sums):
        f.store(x, f.arguments[2], i * lanes)
    f.end()
    at, nbytes = tmp_path / "tile", 4 * lanes * len(sums)
    at.write_bytes(program(module, (left.T if by_steps else left).tobytes(), right.tobytes(), nbytes))
    at.chmod(0o755)
    assert EMULATOR is not None, "the test is skipped without it"
    printed = subprocess.run([EMULATOR, at], capture_output=True, check=True).stdout
    found, wanted = np.frombuffer(printed, "f4").reshape(m, -1)[:, :n], product(a, b, k)
    assert ((found.view("u4") == wanted.view("u4")) | (np.isnan(found) & np.isnan(wanted))).all()
