"""The target of code: an instruction set, its vector registers, and the caches of this CPU.

There are four instruction sets instead of a list of CPUs: code for one is the same on every machine that has it, and so
are its bits. LLVM gets exactly these features, so it never emits an instruction that was not checked for. The sizes of
this CPU's caches decide how operands are blocked, which changes the time and no bit. A decision that sets the order of
additions reads `NOMINAL_L1_BYTES` and `NOMINAL_L2_BYTES` instead, which are the same everywhere.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final

from runtime.errors import UsageError

CACHE_LINE_BYTES: Final = 64
"""Size of a cache line on nearly all CPUs."""

NOMINAL_L1_BYTES: Final = 48 << 10
NOMINAL_L2_BYTES: Final = 2 << 20
"""Assumed sizes of the first-level and second-level data caches, for decisions that set the order of additions.

They are the same on every machine, so that bits are too: other values give other bits.
"""

NOMINAL_LANES: Final = 16
"""Assumed lanes of a vector, for decisions that set the order of additions on every instruction set."""


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
        l2_bytes: size of the second-level cache of this CPU; no bit of a result may depend on it.
    """

    name: str
    triple: str
    features: str
    tune: str
    vector_bytes: int
    registers: int
    fma: bool
    l2_bytes: int = 512 << 10

    def lanes(self, bits: int = 32) -> int:
        """Return the number of elements of `bits` bits in a vector register."""
        return self.vector_bytes * 8 // bits


V3: Final = "+avx,+avx2,+f16c,+fma"

INSTRUCTION_SETS: Final = {
    "avx512": ("x86_64", f"{V3},+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl", "skylake-avx512", 64, 32, True),
    "avx2": ("x86_64", V3, "haswell", 32, 16, True),
    "sse2": ("x86_64", "+sse2", "nehalem", 16, 16, False),
    "neon": ("aarch64", "+neon,+fp-armv8", "neoverse-n1", 16, 32, True),
}
"""Architecture, LLVM's features and tuning, bytes and number of vector registers, and presence of an FMA, by name."""


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
    architecture, features, tune, vector_bytes, registers, fma = INSTRUCTION_SETS[name]
    return Target(
        name,
        f"{architecture}-{LLVM_SYSTEMS.get(system, LLVM_SYSTEMS['linux'])}",
        features,
        tune,
        vector_bytes,
        registers,
        fma,
    )
