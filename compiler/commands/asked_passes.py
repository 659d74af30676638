"""Command-line options about passes: `--without`, `--option`, `--dump-after`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from compiler.errors import CompileError, UsageError
from compiler.passes.pass_options import option_from_text
from compiler.passes.pass_table import Pass, PassTable
from compiler.passes.run_passes import AfterPass
from prograd_proto import program_pb2 as pb
from prograd_proto.spelling import closest
from prograd_proto.text import to_text
from runtime.command_line.streams import put


def asked_passes(table: PassTable, without: Sequence[str], options: Sequence[str]) -> PassTable:
    """Return the table without the passes of these names, and with options given as `pass.option=value`.

    Raises UsageError for an unknown pass or option, a value of another type, or a pass that cannot be left out.
    """
    for text in options:
        try:
            table = _with_option(table, text)
        except CompileError as error:
            raise UsageError(f"--option {text}: {error}") from None
    for name in without:
        try:
            table = table.without(name)
        except CompileError as error:
            raise UsageError(f"--without {name}: {error}") from None
    return table


def dumper(name: str, passes: Iterable[Pass]) -> AfterPass:
    """Return a callback that prints the program after the named pass; raise UsageError if it does not run."""
    known = [each.name for each in passes]
    if name not in known:
        raise UsageError(
            f"--dump-after {name}: no such pass runs{closest(name, known)}; those that do are {', '.join(known)}"
        )

    def dump(done: str, program: pb.ProgramDesc) -> None:
        if done == name:
            put(to_text(program).removesuffix("\n"))

    return dump


def _with_option(table: PassTable, text: str) -> PassTable:
    where, equals, value = text.partition("=")
    name, dot, key = where.partition(".")
    if not (equals and dot):
        raise CompileError("write pass.option=value, as in merge_identical.most_tried=0")
    [chosen] = table.only(name)
    option = chosen.options.get(key)
    given = value if option is None else option_from_text(name, option, value)
    return table.with_settings({name: {key: given}})
