"""This machine: the instruction sets that its CPU and system support, and the sizes of its caches."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path

from runtime.codegen.machine import INSTRUCTION_SETS, Target, target
from runtime.engines.engine import Unavailable
from runtime.engines.native.amx import linux_features, refused_tiles


@cache
def this_machine(instructions: str = "") -> Target:
    """Return this machine's target, with these or its best instructions; raise Unavailable if it has none."""
    found = instruction_sets()
    if instructions and found and instructions not in found:
        raise Unavailable(
            f"this CPU cannot run native code for {instructions}; it has {', '.join(found)}", "no_code_for_this_cpu"
        )
    if not found:
        cpu = platform.machine() or "unknown"
        raise Unavailable(f"the native engine has no code for this CPU, {cpu}", "no_code_for_this_cpu")
    chosen = target(instructions or found[0])
    if chosen.has_matrix_tiles and (why := refused_tiles()):
        if instructions:
            raise Unavailable(f"{why}; use the engine 'native'", "no_code_for_this_cpu")
        chosen = next(each for each in map(target, found) if not each.has_matrix_tiles)  # it has the same bits
    return replace(chosen, **caches(Path("/sys/devices/system/cpu/cpu0/cache")))


def target_of(instructions: str) -> Target:
    """Return the target of these instructions on this machine, or with ordinary caches if it lacks them.

    Raises Unavailable if none are named, and this machine has none that code is made for.
    """
    if instructions and instructions not in instruction_sets():
        return target(instructions)
    return this_machine(instructions)


def instruction_sets() -> list[str]:
    """Return the instruction sets that this machine can run, the best first."""
    return usable(cpu_features(), platform.machine())


def usable(features: Mapping[str, bool], machine: str) -> list[str]:
    """Return the instruction sets that a CPU with these features can run, the best first.

    On `INTEL`, the instruction for pairs takes longer than the two multiply-adds that have its bits.
    """
    architecture = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine.lower(), machine.lower())
    found = [
        name
        for name, each in INSTRUCTION_SETS.items()
        if each.architecture == architecture and all(features.get(feature) for feature in each.required)
    ]
    if features.get("INTEL") and "avx512_bf16" in found:
        found.remove("avx512_bf16")
        found.insert(found.index("avx512_vnni") + 1, "avx512_bf16")
    return found


def cpu_features() -> Mapping[str, bool]:
    """Return the features of CPU and system that NumPy found when it was imported, those of AMX, and `INTEL`."""
    features = getattr(import_module("numpy._core._multiarray_umath"), "__cpu_features__", {})  # numpy.show_runtime()
    return {**features, **linux_features(), **({"INTEL": True} if "GenuineIntel" in platform.processor() else {})}


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
