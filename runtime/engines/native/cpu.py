"""What this machine is: the instruction sets that its CPU and system have, and the sizes of its caches."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

from runtime.codegen.machine import INSTRUCTION_SETS, Target, target
from runtime.engines.engine import Unavailable

REQUIRED_FEATURES: Final = {
    "avx512": ("AVX512F", "AVX512BW", "AVX512CD", "AVX512DQ", "AVX512VL", "AVX2", "FMA3", "F16C"),
    "avx2": ("AVX2", "FMA3", "F16C"),
    "sse2": ("SSE2",),
    "neon": ("ASIMD",),
}
"""NumPy's names of what a CPU and its system must have, best instruction set first."""


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


def usable(features: Mapping[str, bool], machine: str) -> list[str]:
    """The instruction sets that a CPU with these features can run, the best first."""
    architecture = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine.lower(), machine.lower())
    return [
        name
        for name, needs in REQUIRED_FEATURES.items()
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
