"""The verb `compiler ops`: the operators, a line each, or the whole reference."""

from __future__ import annotations

import argparse
from inspect import cleandoc, signature
from textwrap import indent

from compiler.errors import UsageError
from registry.errors import OpError
from registry.op import OPS, find_op
from registry.other_names import OTHER_NAMES
from registry.signature import without_annotations
from registry.table import SPELLED
from runtime.command_line.streams import put


def ops(options: argparse.Namespace) -> None:
    """List every operator, or show the ones that are named."""
    if options.markdown:
        from compiler.reference import reference

        put(reference().removesuffix("\n"))
        return
    if options.names:
        put("\n\n".join(map(_whole, options.names)))
        return
    put("\n".join(map(_line, sorted([*OPS, *SPELLED]))))


def _whole(name: str) -> str:
    """Return a line about an operator, its call with defaults, and its documentation."""
    line = _line(name)
    called = f"ops.{name}{without_annotations(signature(SPELLED[name]))}" if name in SPELLED else repr(find_op(name))
    more = cleandoc((SPELLED[name] if name in SPELLED else find_op(name)).__doc__ or "").partition("\n")[2].strip()
    return "\n".join([line, indent(called, "  "), *([indent(more, "  ")] if more else [])])


def _line(name: str) -> str:
    if name in SPELLED:
        return f"{name}({', '.join(signature(SPELLED[name]).parameters)}): {_first_line(SPELLED[name].__doc__)}"
    if name in OTHER_NAMES:
        raise UsageError(f"there is no operator {name!r}; write {OTHER_NAMES[name]}")
    try:
        op = find_op(name)
    except OpError as error:
        raise UsageError(str(error)) from None
    return f"{op.name}({', '.join((*op.signature.inputs, *op.signature.parameters))}): {_first_line(op.__doc__)}"


def _first_line(doc: str | None) -> str:
    return (doc or "").strip().partition("\n")[0]
