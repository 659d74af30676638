"""The command `compiler`: looks at, checks, compiles, upgrades and plans programs; results on stdout."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from compiler.errors import DataError, LimitError, UsageError
from prograd_proto import PluginError, ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.byte_sizes import byte_size
from prograd_proto.files import load, save
from prograd_proto.identity import program_sha256
from prograd_proto.os_errors import is_full, os_sentence
from prograd_proto.printable import result_line, sentence, use_escapes_on_output
from prograd_proto.text import block_to_text, to_text

if TYPE_CHECKING:
    from compiler.build.last_batch import Sizes

EXIT_DONE, EXIT_USAGE, EXIT_PROGRAM, EXIT_DATA, EXIT_RESOURCE, EXIT_BUG, EXIT_INTERRUPTED = 0, 2, 3, 4, 6, 70, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    use_escapes_on_output()
    parser = _parser()
    words = sys.argv[1:] if arguments is None else arguments
    if any("\0" in word for word in words):
        parser.error("an argument has the letter NUL, which no name of a file has")
    options = parser.parse_args(words)
    try:
        if options.plugin:
            from compiler.build.plugins import use_plugin

            for name in options.plugin:
                use_plugin(name)
        return options.verb_function(options) or EXIT_DONE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        return _failed(options, *_told(error))
    return EXIT_DONE


def show(options: argparse.Namespace) -> None:
    """Print a program, or the training-time form of one entry, as text; or a view of how an entry runs.

    A view is of one entry, the one that the program runs unless --entry names another, with its first sizes unless
    --bind asks for others.
    """
    from compiler.commands.chosen_entry import chosen_binding, chosen_entry
    from compiler.commands.show import show_views
    from compiler.commands.well_formed import well_formed

    if show_views(options):
        return
    if options.entry is None:  # the text form is of any message, so that one sees what is wrong with it
        print(to_text(load(options.program)), end="")
        return
    program = well_formed(options.program)
    number = chosen_entry(options.program, program, options.entry).source_block
    if options.bound:
        number = chosen_binding(options.program, program, options.entry, options.bind)[1].block
    print(block_to_text(program, number), end="")


def check(options: argparse.Namespace) -> None:
    """Load a program, verify every rule of a well-formed one and every plan, and say what it is."""
    from compiler.commands.well_formed import well_formed
    from runtime.step import check_plans
    from runtime.target import TARGET

    program = well_formed(options.program)
    try:
        check_plans(program, TARGET)
    except ProgramError as error:
        raise ProgramError(f"{options.program}: {error}") from None
    ops = sum(len(block.ops) for block in program.blocks)
    names = ",".join(entry.name for entry in program.entries)
    fields = [("ops", ops), ("states", len(program.states)), ("entries", names)]
    print(result_line("OK", [*fields, ("program_sha256", program_sha256(program))]))


def compile_(options: argparse.Namespace) -> None:
    """Compile a program file or its text form anew, with other sizes or a look at what a pass did."""
    from compiler.build.compiled import compile_program
    from compiler.commands.asked_passes import asked_passes, dumper
    from compiler.commands.well_formed import well_formed
    from compiler.passes.pipeline import PASSES

    program = well_formed(options.program)
    passes = asked_passes(PASSES, options.without, options.option)
    after = dumper(options.dump_after, passes) if options.dump_after else None
    try:
        compiled = compile_program(program, _sizes(options.bind, program, options.program), after, passes=passes)
    except ProgramError as error:
        raise ProgramError(f"{options.program}: {error}") from None
    if options.output is not None:
        files = list(compiled.desc.files)
        save(compiled.desc, options.output, force=options.force)
        _note_files(options.output, files)
    print(f"OK program_sha256={compiled.sha256}")


def upgrade(options: argparse.Namespace) -> None:
    """Say what a program of an older prograd becomes: its format, its operators, its memory plans.

    It is written only with -o or --in-place. Every verb reads older programs as well, by the same upgrades. Where there
    is nothing to do, the file stays the same to the byte.
    """
    from compiler.commands.upgrade import upgrade_file

    upgrade_file(options)


def passes(options: argparse.Namespace) -> None:
    """Print the passes of `compile` and of `plan` in their order: what each requires of the program, and why.

    A name, `compile` or `plan`, prints only that table.
    """
    from compiler.commands.passes import passes

    passes(options)


def freeze(options: argparse.Namespace) -> None:
    """Write a program in which the parameters that match no longer train: without their gradients, updates and slots.

    The file keeps what thawing needs, so thawing gives back the program that was, with the same hash.
    """
    from compiler.commands.freeze import write_frozen

    write_frozen(options, trainable=False)


def thaw(options: argparse.Namespace) -> None:
    """Write a program in which frozen parameters that match train again."""
    from compiler.commands.freeze import write_frozen

    write_frozen(options, trainable=True)


def diff(options: argparse.Namespace) -> int:
    """Say what changed from one program to another: one line for each change, grouped by what it belongs to.

    The exit code is 0 if they are equal and 1 if they differ. The user's lines are not compared.
    """
    from compiler.commands.diff import show_differences

    return show_differences(options)


def plan(options: argparse.Namespace) -> None:
    """Plan the memory of every entry with care, and say how much it is, who makes the peak and when updates happen.

    With a budget, values are computed again instead of being kept until every arena is small enough, and with --spill
    they may wait in a file instead. For several threads, arenas may take half as much again, or what a budget has left,
    where more ops run at once then. None of it changes a bit of a result. The program is written only with -o or
    --in-place.
    """
    from compiler.commands.plan import plan_file

    plan_file(options)


def place(options: argparse.Namespace) -> None:
    """Give each buffer of a table an offset, so that those alive together are apart and the arena is small.

    The table is CSV with the columns id, lower, upper and size: a buffer of `size` bytes is needed from `lower` until
    before `upper`. The table that comes out has the column offset as well; a line about the arena goes to stderr.
    """
    from compiler.commands.place import place_buffers

    place_buffers(options)


def ops(options: argparse.Namespace) -> None:
    """List every operator, or show the ones that are named."""
    from inspect import signature

    from registry.op import OPS, find_op
    from registry.spelled import SPELLED

    if options.markdown:
        from compiler.reference import reference

        print(reference(), end="")
        return
    for name in options.names or sorted([*OPS, *SPELLED]):
        if name in SPELLED:
            print(f"{name}({', '.join(signature(SPELLED[name]).parameters)}): {_first_line(SPELLED[name].__doc__)}")
            continue
        op = find_op(name)
        print(f"{op.name}({', '.join((*op.signature.inputs, *op.signature.attributes))}): {_first_line(op.__doc__)}")


def _sizes(given: Sequence[str], program: pb.ProgramDesc, path: str) -> Sizes:
    """The sizes the file was compiled with, replaced by those given as symbol=size, and that of the last batch."""
    from compiler.build.last_batch import sizes_of, with_last_batch
    from compiler.commands.chosen_entry import several_sizes_given

    sizes = sizes_of(program) | several_sizes_given(given)
    folder = Path(path).parent
    return with_last_batch(program, sizes, folder) if (folder / program.data.file).is_file() else sizes


def _note_files(output: str, files: Sequence[pb.FileDesc]) -> None:
    for file in files:
        if not (Path(output).parent / file.path).exists():
            print(sentence(f"note: {output} reads {file.path}, which must lie beside it"), file=sys.stderr)


def _first_line(doc: str | None) -> str:
    return (doc or "").strip().partition("\n")[0]


def _told(error: Exception) -> tuple[str, int]:
    """The sentence and the code of an error."""
    match error:
        case ProgramError():
            return str(error), _exit_code(error)
        case MemoryError():
            return "there is not enough memory", EXIT_RESOURCE
        case OSError():  # what the system says of a file is nobody's fault here
            return os_sentence(error), EXIT_RESOURCE if is_full(error) else EXIT_DATA
        case _:
            return f"a fault of prograd itself, {type(error).__name__}: {error}; see --traceback", EXIT_BUG


def _exit_code(error: ProgramError) -> int:
    """By what is behind the error: a file in the way is a matter of usage, a full disk one of resources."""
    if isinstance(error, DataError):
        return EXIT_DATA
    if isinstance(error, LimitError):
        return EXIT_RESOURCE
    cause = error.__cause__
    if isinstance(error, PluginError | UsageError) or isinstance(cause, FileExistsError):
        return EXIT_USAGE
    full = isinstance(cause, OSError) and is_full(cause)
    return EXIT_RESOURCE if full else EXIT_PROGRAM


def _failed(options: argparse.Namespace, text: str, code: int) -> int:
    if options.traceback:
        raise
    print(f"compiler: {sentence(text)}", file=sys.stderr)
    return code


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"compiler: {sentence(message)}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="compiler", description="Looks at, checks and compiles program files.", allow_abbrev=False)
    parser.add_argument("--traceback", action="store_true", help="show where in the code an error arose")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)

    verb = _verb(verbs, "show", show, "print a program as text", "compiler show digits.pb --entry train --bound")
    verb.add_argument("program")
    verb.add_argument("--entry", help="only the block of this entry")
    verb.add_argument("--bound", action="store_true", help="with --entry: with sizes instead of symbols")
    verb.add_argument(
        "--bind", action="append", default=[], metavar="SYMBOL=SIZE", help="the sizes that run, as in batch=1"
    )
    verb.add_argument("--memory", action="store_true", help="every buffer, how long it lives, and who makes the peak")
    verb.add_argument("--sort", choices=("offset", "bytes", "time"), help="with --memory: the buffers; else by offset")
    verb.add_argument("--order", action="store_true", help="of every forward op, when it and what belongs to it runs")
    verb.add_argument("--html", metavar="FILE", help="write a picture of the arena over time as a page")
    verb.add_argument("--svg", metavar="FILE", help="write that picture alone")
    verb.add_argument("--force", action="store_true", help="replace the picture's file if it exists")

    verb = _verb(verbs, "check", check, "verify every rule of a well-formed program", "compiler check digits.pb")
    verb.add_argument("program")

    verb = _verb(
        verbs,
        "compile",
        compile_,
        "compile a program or its text form anew",
        "compiler compile digits.pb --bind batch=64 -o digits64.pb",
    )
    verb.add_argument("program", help="a program file, or its text form ending in .txt")
    verb.add_argument(
        "--bind",
        action="append",
        default=[],
        metavar="SYMBOL=SIZE",
        help="the size of a symbol; as batch=32,5 with a last training step of 5 rows",
    )
    verb.add_argument("-o", "--output", help="the program file to write")
    verb.add_argument("--force", action="store_true", help="replace the output file if it exists")
    verb.add_argument("--dump-after", metavar="PASS", help="print the program as this pass leaves it")
    verb.add_argument("--without", action="append", default=[], metavar="PASS", help="leave this pass out")
    verb.add_argument(
        "--option", action="append", default=[], metavar="PASS.NAME=VALUE", help="of a pass; see compiler passes"
    )

    verb = _verb(
        verbs, "upgrade", upgrade, "write an older program as this prograd does", "compiler upgrade old.pb -o new.pb"
    )
    verb.add_argument("program")
    where = verb.add_mutually_exclusive_group()
    where.add_argument("-o", "--output", help="the program file to write")
    where.add_argument("--in-place", action="store_true", help="write to the program's own file")
    verb.add_argument("--force", action="store_true", help="replace the output file if it exists")

    verb = _verb(verbs, "diff", diff, "say what changed between two programs", "compiler diff old.pb new.pb")
    verb.add_argument("old")
    verb.add_argument("new")

    for name, function, summary in (
        ("freeze", freeze, "let parameters train no longer"),
        ("thaw", thaw, "let frozen parameters train"),
    ):
        verb = _verb(verbs, name, function, summary, f"compiler {name} digits.pb --states 'hidden.*' -o other.pb")
        verb.add_argument("program")
        verb.add_argument("--states", action="append", required=True, metavar="PATTERN", help="names, as in 'hidden.*'")
        verb.add_argument("-o", "--output", required=True, help="the program file to write")
        verb.add_argument("--force", action="store_true", help="replace the output file if it exists")

    verb = _verb(
        verbs,
        "plan",
        plan,
        "plan memory with care, within a budget, or for threads",
        "compiler plan digits.pb --budget 800KiB -o small.pb\n  compiler plan digits.pb --threads 2 -o roomy.pb\n"
        "  compiler plan digits.pb --budget 600KiB --spill -o small.pb    # runtime execute small.pb --spill /var/tmp",
    )
    verb.add_argument("program")
    verb.add_argument("--budget", type=_bytes, metavar="SIZE", help="of each arena, as in 800KiB or 1000000")
    verb.add_argument("--spill", action="store_true", help="let values wait in a file to keep the budget")
    verb.add_argument("--seconds", type=_seconds, default=60.0, metavar="S", help="look for a way so long; else 60")
    verb.add_argument("--threads", type=_at_least(1), default=1, metavar="N", help="give these room; else for one")
    verb.add_argument("--dump-after", metavar="PASS", help="print the program as this pass leaves it")
    where = verb.add_mutually_exclusive_group()
    where.add_argument("-o", "--output", help="the program file to write")
    where.add_argument("--in-place", action="store_true", help="write to the program's own file")
    verb.add_argument("--force", action="store_true", help="replace the output file if it exists")

    verb = _verb(
        verbs, "place", place, "give buffers their offsets in one arena", "compiler place buffers.csv -o placed.csv"
    )
    verb.add_argument("buffers", help="a CSV file with the columns id, lower, upper, size")
    verb.add_argument("--capacity", type=_at_least(0), metavar="BYTES", help="an arena of so many bytes will do")
    verb.add_argument("--alignment", type=_at_least(1), default=1, metavar="BYTES", help="of every offset; else 1")
    verb.add_argument("--seconds", type=_seconds, default=60.0, metavar="S", help="end the search after these; else 60")
    verb.add_argument("-o", "--output", help="the CSV file to write, instead of stdout")
    verb.add_argument("--force", action="store_true", help="replace the output file if it exists")

    verb = _verb(verbs, "passes", passes, "list the passes, with the reasons for their order", "compiler passes plan")
    verb.add_argument("tables", nargs="*", metavar="TABLE", help="compile or plan; else both")
    verb.add_argument("--json", action="store_true", help="print one JSON object instead of words")
    verb.add_argument("--markdown", action="store_true", help="the page docs/passes.md")

    verb = _verb(verbs, "ops", ops, "list the operators", "compiler ops conv2d matmul")
    verb.add_argument("names", nargs="*", help="only these")
    verb.add_argument("--markdown", action="store_true", help="the whole reference, as in docs/ops.md")
    return parser


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) <= 18 and int(text) >= least):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more, of at most 18 digits")
        return int(text)

    return number


def _bytes(text: str) -> int:
    try:
        return byte_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 0 or more")
    return seconds


def _verb(
    verbs: argparse._SubParsersAction[_Parser],  # pyright: ignore[reportPrivateUsage]: argparse names its type so
    name: str,
    function: Callable[[argparse.Namespace], int | None],
    summary: str,
    example: str,
) -> argparse.ArgumentParser:
    verb = verbs.add_parser(
        name,
        help=summary,
        description=f"{(function.__doc__ or '').strip()}",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    verb.add_argument(
        "--plugin", action="append", default=[], metavar="NAME", help="use the operators of an installed package"
    )
    verb.set_defaults(verb_function=function)
    return verb


if __name__ == "__main__":
    sys.exit(main())
