"""What code may be made of: an instruction set, its vector registers, and the caches of this CPU.

Four instruction sets instead of a list of CPUs: code for one is the same on every machine that has it, and so are its
bits. LLVM is told exactly these features, so it never emits an instruction that was not looked for. The sizes of this
CPU's caches decide how operands are blocked, which changes the time and no bit. A decision that sets the order of
additions reads `NOMINAL_L1_BYTES` and `NOMINAL_L2_BYTES` instead, which are the same everywhere.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

from runtime.engines.engine import Unavailable
from runtime.errors import UsageError

LINE: Final = 64
"""Bytes of a line of a cache, on nearly all CPUs."""

NOMINAL_L1_BYTES: Final = 48 << 10
NOMINAL_L2_BYTES: Final = 2 << 20
"""Assumed sizes of the first-level and second-level data caches, for decisions that set the order of additions.

They are the same on every machine, so that bits are too: other values give other bits.
"""


@dataclass(frozen=True)
class Target:
    """An instruction set and the machine around it.

    Attributes:
        name: of the instruction set.
        triple: architecture, system and object format, as LLVM spells them.
        features: as LLVM spells them; what is not named is not used.
        tune: a CPU of this kind, whose latencies order the instructions.
        vector_bytes: of a vector register.
        registers: how many vector registers there are.
        fma: whether a multiply-add is one instruction that rounds once.
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
        """How many elements of so many bits a register holds."""
        return self.vector_bytes * 8 // bits


V3: Final = "+avx,+avx2,+f16c,+fma"

INSTRUCTION_SETS: Final = {
    "avx512": ("x86_64", f"{V3},+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl", "skylake-avx512", 64, 32, True),
    "avx2": ("x86_64", V3, "haswell", 32, 16, True),
    "sse2": ("x86_64", "+sse2", "nehalem", 16, 16, False),
    "neon": ("aarch64", "+neon,+fp-armv8", "neoverse-n1", 16, 32, True),
}
"""By name: architecture, LLVM's features and tuning, bytes and number of vector registers, whether there is an FMA."""

NEEDS: Final = {
    "avx512": ("AVX512F", "AVX512BW", "AVX512CD", "AVX512DQ", "AVX512VL", "AVX2", "FMA3", "F16C"),
    "avx2": ("AVX2", "FMA3", "F16C"),
    "sse2": ("SSE2",),
    "neon": ("ASIMD",),
}
"""NumPy's names of what a CPU and its system must have, best instruction set first."""

SYSTEMS: Final = {
    "linux": "unknown-linux-gnu",
    "darwin": "apple-darwin-elf",
    "win32": "pc-windows-msvc-elf",
}
"""By Python's name of the system; objects are ELF on all of them, with the calling convention of each."""


@cache
def this_machine(instructions: str = "") -> Target:
    """The target of this machine with these instructions, or its best one; raises Unavailable if there is none."""
    found = instruction_sets()
    if instructions and found and instructions not in found:
        raise Unavailable(
            f"this CPU cannot run native code for {instructions}; it has {', '.join(found)}", "no_code_for_this_cpu"
        )
    if not found:
        cpu = platform.machine() or "unknown"
        raise Unavailable(f"the native engine has no code for this CPU, {cpu}", "no_code_for_this_cpu")
    return replace(target(instructions or found[0]), **caches(Path("/sys/devices/system/cpu/cpu0/cache")))


def instruction_sets() -> list[str]:
    """Those that this machine can run, the best first."""
    return usable(cpu_features(), platform.machine())


def target(name: str, system: str = sys.platform) -> Target:
    """The target of an instruction set by name, with caches of ordinary size; raises UsageError if there is none."""
    if name not in INSTRUCTION_SETS:
        raise UsageError(f"there is no instruction set {name!r}; there are {', '.join(INSTRUCTION_SETS)}")
    architecture, features, tune, vector_bytes, registers, fma = INSTRUCTION_SETS[name]
    return Target(
        name, f"{architecture}-{SYSTEMS.get(system, SYSTEMS['linux'])}", features, tune, vector_bytes, registers, fma
    )


def usable(features: Mapping[str, bool], machine: str) -> list[str]:
    """The instruction sets that a CPU with these features can run, the best first."""
    architecture = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine.lower(), machine.lower())
    return [
        name
        for name, needs in NEEDS.items()
        if INSTRUCTION_SETS[name][0] == architecture and all(features.get(need) for need in needs)
    ]


def cpu_features() -> Mapping[str, bool]:
    """What this CPU has and its system saves, as NumPy found when it was imported."""
    return getattr(import_module("numpy._core._multiarray_umath"), "__cpu_features__", {})  # as numpy.show_runtime()


def caches(folder: Path) -> dict[str, int]:
    """Return the sizes of data caches that Linux lists in this folder, by attribute of Target; {} elsewhere."""
    sizes: dict[str, int] = {}
    for index in sorted(folder.glob("index*")):
        try:
            level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
            if kind != "Instruction" and level == "2" and size.endswith("K"):
                sizes["l2_bytes"] = int(size[:-1]) << 10
        except (OSError, ValueError):
            continue
    return sizes
