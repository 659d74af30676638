"""Functions of a module, their declarations, and the text of all of them."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.codegen.ir.function import Function
from runtime.codegen.ir.types import Type
from runtime.codegen.machine import Target


class Module:
    """Functions for one target, compiled together.

    Attributes:
        target: the target of the code.
        has_plain_loops: True if LLVM may analyse how its loops count addresses, see `jit.compiled`.
        prefix: beginning of the names of all functions in the object: libraries that a linker joins need one each.
    """

    def __init__(self, target: Target, *, has_plain_loops: bool = True, prefix: str = "") -> None:
        self.target, self.has_plain_loops, self.prefix = target, has_plain_loops, prefix
        self._declared: dict[str, None] = {}
        self._functions: list[str] = []

    def function(
        self, name: str, parameters: Sequence[Type], result: Type | None = None, *, public: bool = True
    ) -> Function:
        """Begin a function; only this module can call one that is not public."""
        return Function(self, name, parameters, result, public)

    def declare(self, line: str) -> None:
        """Declare a function that is called and not defined here: an intrinsic function of LLVM."""
        self._declared[line] = None

    def data(self, name: str, content: bytes) -> None:
        """Define constant bytes; a name must always stand for the same bytes."""
        text = "".join(f"\\{byte:02X}" for byte in content)
        self._declared[f'@{name} = private unnamed_addr constant [{len(content)} x i8] c"{text}", align 64'] = None

    def add(self, function: str) -> None:
        """Add the text of a finished function."""
        self._functions.append(function)

    def take(self, other: Module) -> None:
        """Add the declarations and functions of another module with the same prefix."""
        self._declared |= other._declared
        self._functions += other._functions

    @property
    def functions(self) -> Sequence[str]:
        """The texts of finished functions."""
        return tuple(self._functions)

    def replace(self, name: str, function: str) -> None:
        """Replace the text of the finished function whose name in the object this is."""
        [at] = [i for i, text in enumerate(self._functions) if f"@{name}(" in text.partition("\n")[0]]
        self._functions[at] = function

    def reuse(self, name: str, known: dict[str, str]) -> str:
        """Drop the last function, whose name this is, if it equals one of `known`; return the name that it then has.

        `known` has the names of functions by their text without it, and gets that of a new one.
        """
        text = self._functions[-1].replace(f"@{self.prefix}{name}(", "@(", 1)
        if known.setdefault(text, name) != name:
            self._functions.pop()
        return known[text]

    @property
    def nbytes(self) -> int:
        """The length of the functions as text."""
        return sum(map(len, self._functions))

    @property
    def text(self) -> str:
        """The whole module, as LLVM reads it."""
        width = self.target.vector_bytes * 8
        size = ""
        if self.target.is_compact:  # `minsize` makes calls of shifts of 128 bits on processors with wide vectors
            size = "minsize optsize " if self.target.architecture == "thumbv7em" else "optsize "
        attributes = f'nounwind {size}"tune-cpu"="{self.target.tune}" "prefer-vector-width"="{width}"'
        return "\n".join(
            [
                f'target triple = "{self.target.triple}"',
                *self._declared,
                *self._functions,
                f"attributes #0 = {{ {attributes} }}\n",
            ]
        )


def joined(modules: Sequence[Module], most_bytes: int) -> list[Module]:
    """Return the functions of modules for one target in few modules, each of up to `most_bytes` of text."""
    found: list[Module] = []
    for module in modules:
        last = found[-1] if found else None
        if last is None or last.has_plain_loops != module.has_plain_loops or last.nbytes + module.nbytes > most_bytes:
            found.append(module)
        else:
            last.take(module)
    return found
