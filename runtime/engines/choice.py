"""The engines by name; each is imported when it is chosen.

To add one: a function here that imports it, a line in `ENGINES`, a word in `EngineName`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as the module typing has it: the command line reads the names before anything else is imported
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from prograd_proto import program_pb2 as pb
    from runtime.engines.engine import Engine, EngineOptions

    EngineName = Literal["reference", "native"]
    Make = Callable[[pb.ProgramDesc, EngineOptions], Engine]


def make_engine(name: str | None, program: pb.ProgramDesc, options: EngineOptions) -> Engine:
    """The engine of that name, or the first one if there is no name, for a checked program.

    Raises UsageError if there is no such engine or it does not have what is asked, Unavailable if it cannot run here.
    """
    name = name or next(iter(ENGINES))
    if name not in ENGINES:
        from prograd_proto.spelling import closest
        from runtime.errors import UsageError

        hint = closest(name, ENGINES) or f"; the engines are {', '.join(ENGINES)}"
        raise UsageError(f"there is no engine {name!r}{hint}")
    return ENGINES[name](program, options)


def _reference(program: pb.ProgramDesc, options: EngineOptions) -> Engine:
    """NumPy, one function per op."""
    from runtime.engines.reference.engine import ReferenceEngine

    return ReferenceEngine(program, options)


def _native(program: pb.ProgramDesc, options: EngineOptions) -> Engine:
    """Groups of ops as compiled functions."""
    from runtime.engines.native.engine import NativeEngine

    return NativeEngine(program, options)


ENGINES: dict[str, Make] = {"reference": _reference, "native": _native}
"""By name, what makes an engine; the first one is used unless another one is asked for."""
