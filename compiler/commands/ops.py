"""`compiler ops`: the operators, a line each, or the whole reference."""

from __future__ import annotations

import argparse
from inspect import signature

from compiler.errors import UsageError
from registry.errors import OpError
from registry.op import OPS, find_op
from registry.spelled import SPELLED
from runtime.command_line.streams import put


def ops(options: argparse.Namespace) -> None:
    """List every operator, or show the ones that are named."""
    if options.markdown:
        from compiler.reference import reference

        put(reference().removesuffix("\n"))
        return
    put("\n".join(map(_line, options.names or sorted([*OPS, *SPELLED]))))


def _line(name: str) -> str:
    if name in SPELLED:
        return f"{name}({', '.join(signature(SPELLED[name]).parameters)}): {_first_line(SPELLED[name].__doc__)}"
    try:
        op = find_op(name)
    except OpError as error:
        raise UsageError(str(error)) from None
    return f"{op.name}({', '.join((*op.signature.inputs, *op.signature.attributes))}): {_first_line(op.__doc__)}"


def _first_line(doc: str | None) -> str:
    return (doc or "").strip().partition("\n")[0]
