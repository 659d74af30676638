"""The machines that libraries are built for: their triples, instruction sets and C compilers."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from runtime.codegen.machine import INSTRUCTION_SETS, Target
from runtime.engines.native.cpu import instruction_sets, this_machine
from runtime.errors import UsageError


class Machine(NamedTuple):
    """A kind of machine.

    Attributes:
        triple: architecture, system and object format, as LLVM spells them.
        sets: names of its instruction sets; the first is the default.
        compilers: C compilers that may be installed for it, by command; none where there are no shared libraries.
        has_files: True if its system has files.
        has_threads: True if several threads can share a step.
        word_bytes: size of an address.
    """

    triple: str
    sets: tuple[str, ...]
    compilers: tuple[str, ...]
    has_files: bool = True
    has_threads: bool = True
    word_bytes: int = 8


MACHINES: Final = {
    "x86_64-linux": Machine(
        "x86_64-unknown-linux-gnu",
        ("avx2", "avx512", "avx512_vnni", "avx512_bf16", "sse2"),
        ("x86_64-linux-gnu-gcc", "cc"),
    ),
    "aarch64-linux": Machine("aarch64-unknown-linux-gnu", ("neon", "neon_dotprod"), ("aarch64-linux-gnu-gcc", "cc")),
    "aarch64-android": Machine(
        "aarch64-unknown-linux-android", ("neon", "neon_dotprod"), ("aarch64-linux-android-clang",)
    ),
    "riscv64-linux": Machine("riscv64-unknown-linux-gnu", ("rv64gc",), ("riscv64-linux-gnu-gcc", "cc")),
    "armv7-linux": Machine(
        "armv7-unknown-linux-gnueabihf",
        ("vfpv4",),
        ("arm-linux-gnueabihf-gcc", "cc"),
        has_threads=False,
        word_bytes=4,
    ),
    "cortex-m7": Machine("thumbv7em-none-eabihf", ("m7",), (), False, False, 4),
    "cortex-m4": Machine("thumbv7em-none-eabihf", ("m4",), (), False, False, 4),
    "wasm32": Machine("wasm32-unknown-unknown", ("simd128",), (), False, False, 4),
}
"""The machines by the name that a user gives."""


_SETS: Final = {
    each.name: each
    for each in (
        Target("rv64gc", "", "+m,+a,+f,+d,+c", "sifive-u74", vector_bytes=8, registers=16, fma=True),
        Target("vfpv4", "", "+vfp4,-neon", "cortex-a7", vector_bytes=8, registers=16, fma=True),
        Target("m7", "", "+fp-armv8d16", "cortex-m7", vector_bytes=8, registers=16, fma=True),
        Target("m4", "", "+vfp4d16sp", "cortex-m4", vector_bytes=8, registers=16, fma=True),
        Target("simd128", "", "+simd128,+bulk-memory", "generic", vector_bytes=16, registers=16, fma=False),
    )
}
"""Instruction sets that no machine of the engine has.

Those with a fused multiply-add have the bits of `native.avx2`, the others those of `native.sse2`.
"""

BOARD_L2_BYTES: Final = 64 << 10
"""Assumed second-level cache of a board, which has none: scratch of kernels stays small."""


def machine_of(name: str) -> Machine:
    """Return a machine by name; raise UsageError for a name that there is not."""
    if name not in MACHINES:
        raise UsageError(f"--target {name}: no such machine; there are {', '.join(MACHINES)}")
    return MACHINES[name]


def target_of(name: str, machine: Machine, instructions: str, *, is_compact: bool = False) -> Target:
    """Return the target of one of a machine's instruction sets, by default of its first.

    Code for browsers and boards is always compact.

    Raises UsageError for a set that the machine lacks.
    """
    chosen = instructions or machine.sets[0]
    if chosen not in machine.sets:
        raise UsageError(f"--cpu {chosen}: {name} has {', '.join(machine.sets)}")
    found = replace((INSTRUCTION_SETS | _SETS)[chosen], triple=machine.triple, is_compact=is_compact)
    return found if machine.has_files else replace(found, l2_bytes=BOARD_L2_BYTES, is_compact=True)


def targets_of(name: str, machine: Machine, instructions: str, *, is_compact: bool) -> list[Target]:
    """Return the targets of instruction sets that commas separate, the best first; see `target_of`."""
    order = [*INSTRUCTION_SETS]
    targets = [target_of(name, machine, one, is_compact=is_compact) for one in instructions.split(",")]
    found = {target.name: target for target in targets}
    return sorted(found.values(), key=lambda target: order.index(target.name) if target.name in order else 0)


def own_machine() -> tuple[str, str]:
    """Return the name of the machine that runs this, and its best instruction set that libraries have.

    Raises Unavailable where the native engine has no code.
    """
    found = this_machine()
    name = {"x86_64": "x86_64-linux", "aarch64": "aarch64-linux"}[found.architecture]
    return name, next(each for each in instruction_sets() if each in MACHINES[name].sets)
