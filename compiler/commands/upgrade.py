"""The verb `compiler upgrade`: rewrites a program of an older format or with older operators in the current one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from compiler.build.plugins import require_used
from compiler.commands.chosen_entry import binding_in_words
from compiler.errors import UsageError
from compiler.passes.verify import verify
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses
from prograd_proto.files import copy_of, parse, read, save, write
from prograd_proto.identity import program_sha256
from prograd_proto.printable import sentence
from prograd_proto.upgrades import upgrade as upgrade_message
from runtime.command_line.results import put_result
from runtime.command_line.streams import put


def upgrade(options: argparse.Namespace) -> None:
    """Upgrade, print the changes, and write the program if an output is given; without changes, the same bytes."""
    if options.force and options.output is None:
        raise UsageError("--force is for -o")
    try:
        raw = read(options.program)
        before = parse(raw)
        after = copy_of(before)
        upgrade_message(after)
        require_used(after)
        verify(BlockAnalyses(after))
    except ProgramError as error:
        raise ProgramError(f"{options.program}: {error}") from error.__cause__
    changes = list(changes_in_words(before, after))
    output = options.program if options.in_place else options.output
    if changes and output is not None:
        save(after, output, force=options.in_place or options.force)
    elif options.output is not None:
        write(raw, options.output, force=options.force)
    put("\n".join(map(sentence, changes or ["nothing to do: format and operators are those of today"])))
    put_result(options, "OK", [("changes", len(changes)), ("program_sha256", program_sha256(after))])


def changes_in_words(before: pb.ProgramDesc, after: pb.ProgramDesc) -> Iterator[str]:
    """Return a line for the format, for each changed or removed operator, and for each dropped plan."""
    if before.format_version != after.format_version:
        yield f"format: version {before.format_version} -> {after.format_version}"
    old, new = ({op.type: op.version for op in program.operators} for program in (before, after))
    for type in sorted(old.keys() | new.keys()):
        match old.get(type), new.get(type):
            case None, version:
                yield f"operator {type}: version {version}, which older ones became"
            case version, None:
                yield f"operator {type}: version {version} -> none, other operators do its work"
            case one, other if one != other:
                yield f"operator {type}: version {one} -> {other}"
            case _:
                pass
    yield from _plans_that_are_gone(before, after)


def _plans_that_are_gone(before: pb.ProgramDesc, after: pb.ProgramDesc) -> Iterator[str]:
    for entry, entry_after in zip(before.entries, after.entries, strict=False):
        for binding, binding_after in zip(entry.bindings, entry_after.bindings, strict=False):
            if binding.HasField("plan") and not binding_after.HasField("plan"):
                yield f"{binding_in_words(entry.name, binding)}: its memory plan is gone; compiler plan makes one"
