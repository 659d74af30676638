"""All groups as one object: equal kernel steps of equal groups are one function, called with other addresses.

A function takes the table of addresses of its group, the first work item and the one after the last, and the number of
the thread: `void group(table, start, stop, thread)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from runtime.codegen.groups.group_kernel import GroupKernel
from runtime.codegen.ir import INT64, Module, pointer
from runtime.codegen.kernels.steps import Write
from runtime.codegen.machine import Target
from runtime.codegen.rules import CustomKernel, KernelSteps

MODULE_BYTES: Final = 1 << 20
"""Size of the text of a module after which the next group begins a new one.

LLVM takes up to 24 bytes for each byte of text and a second for a MiB of it. Therefore this size bounds the memory of
compilation, and the time until a time limit takes effect.
"""


class Known:
    """Functions that are written already.

    Attributes:
        kernels: names of functions by the key of their kernel.
        texts: names by text, because kernels with different keys may have equal functions.
    """

    def __init__(self) -> None:
        self.kernels: dict[str, list[str]] = {}
        self.texts: dict[str, str] = {}


class CodeSource(NamedTuple):
    """The code of a step before compilation.

    Attributes:
        modules: the functions, in modules that are written on demand.
        functions: names of functions by group kernel and kernel step; complete after the last module.
    """

    modules: Iterator[Module]
    functions: list[list[str]]


def emit(
    target: Target,
    kernels: Sequence[GroupKernel],
    steps: Sequence[KernelSteps],
    module_bytes: float = MODULE_BYTES,
    *,
    prefix: str = "",
    known: Known | None = None,
) -> CodeSource:
    """Write the functions of `kernels`, whose kernel steps are `steps`, in modules of about `module_bytes` of text.

    A `prefix` begins their names in the object. `known` has the functions that steps of one library share: these are
    not written again, and new ones are added to it.
    """
    functions: list[list[str]] = []
    known = Known() if known is None else known
    return CodeSource(_modules(target, kernels, steps, module_bytes, functions, prefix, known), functions)


def _modules(
    target: Target,
    kernels: Sequence[GroupKernel],
    kernel_steps: Sequence[KernelSteps],
    module_bytes: float,
    functions: list[list[str]],
    prefix: str,
    known: Known,
) -> Iterator[Module]:
    own_loops = any(isinstance(node.rule, CustomKernel) for kernel in kernels for node in kernel.group.nodes)
    module = Module(target, has_plain_loops=not own_loops, prefix=prefix)
    for kernel, steps in zip(kernels, kernel_steps, strict=True):
        key = kernel.key
        if key not in known.kernels:
            if module.nbytes >= module_bytes:
                yield module
                module = Module(target, has_plain_loops=not own_loops, prefix=prefix)
            known.kernels[key] = _functions(module, f"group_{len(known.kernels)}", kernel, steps, known.texts)
        functions.append(known.kernels[key])
    yield module


def _functions(module: Module, name: str, kernel: GroupKernel, steps: KernelSteps, known: dict[str, str]) -> list[str]:
    written: dict[Write, str] = {}
    for kernel_step in steps.all:
        if kernel_step.write in written:
            continue
        own = f"{name}_{len(written)}"
        f = module.function(own, [pointer(INT64), INT64, INT64, INT64])
        kernel_step.write(kernel.context(f, steps), f.arguments[1], f.arguments[2])
        f.end()
        written[kernel_step.write] = module.reuse(own, known)
    return [written[kernel_step.write] for kernel_step in steps.all]
