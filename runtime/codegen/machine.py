"""The target of code: an instruction set, its vector registers, and the caches of this CPU.

There are ten instruction sets and no list of CPUs: code for one is the same on every machine that has it, and so
are its bits. LLVM gets exactly these features, so it never emits an instruction that was not checked for. The sizes of
this CPU's caches decide how operands are blocked, which changes the time and no bit. A decision that sets the order of
additions reads `Target.nominal`, `NOMINAL_L1_BYTES` and `NOMINAL_L2_BYTES` instead: these are the same for all
instruction sets with a fused multiply-add, so their bits are too.

To add an instruction set:

1. A target in `INSTRUCTION_SETS` in `runtime/codegen/machine.py`: LLVM's names of its features, and its vector
   registers. `NUMPY_NAMES` has NumPy's names if they differ. The first set that a machine has is its default.
2. Its name in `EngineName` and `ENGINES` in `runtime/engines/choice.py`. `tests/native/whole/test_instructions.py`
   compares the two lists.
3. If `MAX_TILE_ROWS` in `runtime/codegen/kernels/matmul/plan.py` has no row for its number of registers with or
   without FMA, a row there.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Final

from prograd_proto import program_pb2 as pb
from runtime.errors import UsageError

PREFETCH_BYTES: Final = 1 << 13
"""Distance of prefetches of operands that are read in the order of memory, in bytes."""

CACHE_LINE_BYTES: Final = 64
"""Size of a cache line on nearly all CPUs."""

NOMINAL_L1_BYTES: Final = 48 << 10
NOMINAL_L2_BYTES: Final = 2 << 20
"""Assumed sizes of the first-level and second-level data caches, for decisions that set the order of additions.

They are the same on every machine, so that bits are too: other values give other bits.
"""

NOMINAL_LANES: Final = 16
"""Assumed lanes of a vector of 32-bit elements, for decisions that set the order of additions on all instruction sets,
also on those without a fused multiply-add."""


MATRIX_ROWS: Final = 16
"""Rows of a tile register of AMX, and 32-bit elements of a row."""

THREAD_CLASSES: Final = (2, 4, 8, 16, 32, 64)
"""Numbers of threads among which kernels partition their work; numbers between two share the code of the larger one."""

NUMPY_NAMES: Final = {
    "avx": "AVX2",
    "fma": "FMA3",
    "avxvnni": "AVX_VNNI",
    "neon": "ASIMD",
    "fp-armv8": "ASIMD",
    "dotprod": "ASIMDDP",
}
"""Features by LLVM's name, where that of NumPy is not the same in capitals."""


@dataclass(frozen=True)
class Target:
    """An instruction set and the machine around it.

    Attributes:
        name: name of the instruction set.
        triple: architecture, system and object format, as LLVM spells them.
        features: features as LLVM spells them; others are not used.
        tune: a CPU of this kind, whose latencies order the instructions.
        vector_bytes: size of a vector register.
        registers: number of vector registers.
        fma: True if a multiply-add is one instruction that rounds once.
        has_pair_products: True if an instruction adds the products of two pairs of bfloat16; no bit depends on it.
        has_matrix_tiles: True if products of bfloat16 use the tiles of AMX; no bit depends on it.
        has_byte_products: True if an instruction adds the products of four pairs of bytes; no bit depends on it.
        has_byte_tiles: True if products of bytes use the tiles of AMX; no bit depends on it.
        adds_pairs: True if products of bfloat16 add pair by pair in one chain, not in groups as AMX does.
        l2_bytes: size of the second-level cache of this CPU; no bit of a result may depend on it.
        threads: upper bound on the threads among which kernels partition their work, one of `THREAD_CLASSES`; no bit of
            a result may depend on it.
        is_compact: True if short code matters more than fast code, so loops are not unrolled; no bit may depend on it.
    """

    name: str
    triple: str
    features: str
    tune: str
    vector_bytes: int
    registers: int
    fma: bool
    has_pair_products: bool = False
    has_matrix_tiles: bool = False
    has_byte_products: bool = False
    has_byte_tiles: bool = False
    adds_pairs: bool = False
    l2_bytes: int = 512 << 10
    threads: int = 2
    is_compact: bool = False

    @property
    def architecture(self) -> str:
        """The architecture, as LLVM spells it."""
        return self.triple.partition("-")[0]

    @property
    def widens_pairs(self) -> bool:
        """True if products of bfloat16 are multiply-adds of elements that are widened to float32."""
        return not self.has_pair_products

    @property
    def chains_pairs(self) -> bool:
        """True if copies of matrices of bfloat16 have neighbours of a chain in a word, which one instruction adds."""
        return self.has_pair_products and not self.has_matrix_tiles and not self.adds_pairs

    @property
    def required(self) -> list[str]:
        """The features that CPU and system have, as NumPy names them, and `runtime/engines/native/amx.py` others."""
        words = self.features.replace("+", "").split(",")
        return [NUMPY_NAMES.get(word, word.upper().replace("-", "_")) for word in words]

    def for_program(self, program: pb.ProgramDesc) -> Target:
        """Return the target whose products of bfloat16 have the order of additions that the program names.

        AMX cannot add pair by pair, and CPUs that have it multiply and add widened elements faster than pairs.
        """
        if program.bfloat16_order != pb.BFLOAT16_ORDER_PAIRS:
            return self
        pairs = self.has_pair_products and not self.has_matrix_tiles
        return replace(self, adds_pairs=True, has_matrix_tiles=False, has_pair_products=pairs)

    def lanes(self, bits: int = 32) -> int:
        """Return the number of elements of `bits` bits in a vector register."""
        return self.vector_bytes * 8 // bits

    def wanted_items(self, least: int) -> int:
        """Return the number of work items that gives each thread a share, at least `least`."""
        return max(least, self.threads)

    def for_threads(self, threads: int) -> Target:
        """Return the target that partitions work among this number of threads, rounded up to a class."""
        found = next((most for most in THREAD_CLASSES if most >= threads), THREAD_CLASSES[-1])
        return replace(self, threads=found)

    @property
    def has_many_threads(self) -> bool:
        """True if every thread should have a share of each kernel, even if all kernels together then take longer."""
        return self.threads > THREAD_CLASSES[0]

    @property
    def nominal(self) -> Target:
        """The target for decisions that set bits: the same for any number of threads and all sets with an FMA."""
        return NOMINAL_TARGET if self.fma else self.for_threads(1)

    @property
    def vectors_per_nominal(self) -> int:
        """Number of vector registers that hold as many elements as one of the nominal target."""
        return self.nominal.vector_bytes // self.vector_bytes


def _extended(base: Target, name: str, features: str, tune: str, **differences: bool) -> Target:
    """Return an instruction set that has the features of another one too."""
    return replace(base, name=name, features=f"{base.features},{features}", tune=tune, **differences)


_SSE2: Final = Target("sse2", "x86_64", "+sse2", "nehalem", vector_bytes=16, registers=16, fma=False)
_AVX2: Final = Target("avx2", "x86_64", "+avx,+avx2,+f16c,+fma", "haswell", vector_bytes=32, registers=16, fma=True)
_AVX_VNNI: Final = _extended(_AVX2, "avx_vnni", "+avxvnni", "alderlake", has_byte_products=True)
_AVX512: Final = replace(
    _extended(_AVX2, "avx512", "+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl", "skylake-avx512"),
    vector_bytes=64,
    registers=32,
)
_AVX512_VNNI: Final = _extended(_AVX512, "avx512_vnni", "+avx512vnni", "cascadelake", has_byte_products=True)
_AVX512_BF16: Final = _extended(_AVX512_VNNI, "avx512_bf16", "+avx512bf16", "cooperlake", has_pair_products=True)
_AMX: Final = _extended(_AVX512_BF16, "amx", "+amx-tile,+amx-bf16", "sapphirerapids", has_matrix_tiles=True)
_AMX_INT8: Final = _extended(_AMX, "amx_int8", "+amx-int8", "sapphirerapids", has_byte_tiles=True)
_NEON: Final = Target("neon", "aarch64", "+neon,+fp-armv8", "neoverse-n1", vector_bytes=16, registers=32, fma=True)
_NEON_DOTPROD: Final = _extended(_NEON, "neon_dotprod", "+dotprod", "neoverse-n1", has_byte_products=True)

_BEST_FIRST: Final = (
    *(_AMX_INT8, _AMX, _AVX512_BF16, _AVX512_VNNI, _AVX512, _AVX_VNNI, _AVX2, _SSE2),
    *(_NEON_DOTPROD, _NEON),
)

INSTRUCTION_SETS: Final = {each.name: each for each in _BEST_FIRST}
"""The instruction sets by name, the best of an architecture first, with the triple of no system.

`runtime/engines/choice.py` lists the names too.
"""


LLVM_SYSTEMS: Final = {
    "linux": "unknown-linux-gnu",
    "darwin": "apple-darwin-elf",
    "win32": "pc-windows-msvc-elf",
}
"""System and object format by Python's name of the system; objects are ELF on all of them.

Each system keeps its own calling convention.
"""


def target(name: str, system: str = sys.platform) -> Target:
    """Return the target of an instruction set, with caches of ordinary size; raise UsageError if there is none."""
    if name not in INSTRUCTION_SETS:
        raise UsageError(f"there is no instruction set {name!r}; there are {', '.join(INSTRUCTION_SETS)}")
    found = INSTRUCTION_SETS[name]
    return replace(found, triple=f"{found.triple}-{LLVM_SYSTEMS.get(system, LLVM_SYSTEMS['linux'])}")


NOMINAL_TARGET: Final = target("avx512_bf16")
"""The target whose lanes, tiles and prices set the order of additions on all targets with a fused multiply-add."""
