"""Scopes: prefixes of the names of states and tensors that are made within them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager

from compiler.build.declarations import require_name
from prograd_proto import program_pb2 as pb
from prograd_proto.tensor_types import type_of
from registry import Block, OpError

_KINDS = {
    pb.STATE_KIND_PARAMETER: "a parameter",
    pb.STATE_KIND_BUFFER: "a buffer",
    pb.STATE_KIND_SLOT: "a slot of an optimizer",
    pb.STATE_KIND_COUNTER: "a counter",
}


class Scopes:
    """The open scopes of a program."""

    def __init__(self) -> None:
        self._prefix = ""
        self._reuse = False

    def named(self, name: str) -> str:
        """Return the full name of a state: the open scopes and its own name, with dots."""
        return f"{self._prefix}{name}" if name else name

    def entered(self, block: Block, name: str, *, reuse: bool) -> AbstractContextManager[None]:
        """Return a context with one more scope for states and ops; raise OpError for an invalid prefix.

        An empty name adds no prefix, which is useful with `reuse` only.
        """
        if name or not reuse:
            require_name(f"scope {name!r}", name)
        return self._entered(block, name, reuse)

    def has(
        self, what: str, state: pb.StateDesc | None, kind: pb.StateKind, dtype: str, shape: Sequence[object]
    ) -> bool:
        """Return True if a requested state exists and is reused; raise OpError if it has another type."""
        if not self._reuse or state is None:
            return False
        there, asked = type_of(state), f"{dtype}[{', '.join(map(str, shape))}]"
        if (state.kind, there.dtype, there.shape) != (kind, dtype, tuple(shape)):
            raise OpError(f"{what}: it is there as {_KINDS[state.kind]} {there}, and used again as {asked}")
        return True

    @contextmanager
    def _entered(self, block: Block, name: str, reuse: bool) -> Generator[None]:
        before = self._prefix, self._reuse
        self._prefix, self._reuse = f"{self._prefix}{name}{'.' if name else ''}", self._reuse or reuse
        block.prefix = self._prefix
        try:
            yield
        finally:
            self._prefix, self._reuse = before
            block.prefix = self._prefix
