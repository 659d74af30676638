"""The option --mpi: a verb as one of the processes that a launcher started.

Rank 0 prints the results and writes all files; the others print errors only. An error of one rank ends all of them,
with its exit code.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final

from prograd_proto.wording import words_of_a_command
from runtime.command_line.calling import call_verb
from runtime.command_line.ending import error_sentence, exit_code
from runtime.command_line.tables import Verb
from runtime.errors import OutOfTime, ResourceLimit, UsageError
from runtime.ranks.agree import agree, require_alike
from runtime.ranks.deal import shards_of_entry
from runtime.ranks.group import Group
from runtime.ranks.join import join, number_by_launcher
from runtime.ranks.watcher import watched
from runtime.rows.fingerprint import fingerprint
from runtime.rows.rows import Rows
from runtime.rows.tables.image_files import image_paths
from runtime.rows.tables.opened import opened
from runtime.runs.interrupts import Interrupted
from runtime.runs.run import Run

SECONDS_BEHIND: Final = 0.3
"""Seconds that other ranks wait before they report an error, because rank 0 often reports the same one."""

FORWARDING_SECONDS: Final = 0.2
"""Seconds between an error's sentence and the end of the job: launchers drop what they have not forwarded by then."""

_READ_BYTES: Final = 1 << 20
_OUT_OF_TIME: Final = 1
_SIGNALS: Final = 2


def as_rank(options: argparse.Namespace) -> int | None:
    """Call the verb as a rank, and return its exit code; an error ends all ranks."""
    timeout = options.collective_timeout
    watch = watched(options.say, f"rank {number_by_launcher()}", timeout)
    group = None
    try:
        with words_of_a_command(options.say.command):
            group = options.group = join(timeout, cuts_states=options.zero)
            watch.joined()
            if group.rank:
                _keep_quiet(options)
            code = call_verb(options)
            group.leave()
    except BaseException as error:
        if group is None:
            raise
        code = _failed(options, group, error)
    watch.done()
    return code


def agreed(options: argparse.Namespace, run: Run, group: Group, entry: str, *, trains: bool) -> None:
    """Raise UsageError unless all ranks make the same run, with a shard for each."""
    verb: Verb = options.verb
    asked = {option.flags[-1]: getattr(options, option.key) for option in verb.options if option.ranks == "equal"}
    agree(group, run.session, run.position.steps, asked)
    shards = shards_of_entry(run.program, entry)
    if trains and shards < group.size:
        has = f"{shards} shards" if shards else "no shards"
        raise UsageError(
            f"a step of the entry {entry!r} has {has}, and there are {group.size} processes; "
            f"compile the program with at least as many, as in compile(batch=..., shards={group.size})"
        )


def agree_on_rows(group: Group, rows: Rows) -> None:
    """Raise UsageError unless all ranks have the same rows."""
    require_alike(group, {"the rows": fingerprint(rows, shuffled=False)})


def agree_on_table(group: Group, table: Path) -> None:
    """Raise UsageError unless all ranks have the same table of new rows, or images of the same names."""
    digest = sha256()
    if table.is_dir():
        digest.update("\n".join(str(path.relative_to(table)) for path in image_paths(table)).encode())
    else:
        with opened(table) as stream:
            while read := stream.read(_READ_BYTES):
                digest.update(read)
    require_alike(group, {"the rows": digest.hexdigest()})


def between_ranks(group: Group, between: Callable[[], None]) -> Callable[[], None]:
    """Return a function that stops all ranks at one step, if `between` stops one of them."""

    def together() -> None:
        word, stop = 0, None
        try:
            between()
        except Interrupted as error:
            word, stop = _SIGNALS + error.number, error
        except ResourceLimit as error:
            word, stop = _OUT_OF_TIME, error
        word = group.largest(word)
        if word == _OUT_OF_TIME:
            group.is_stopped = True
            raise stop or OutOfTime("the run took its seconds")
        if word >= _SIGNALS:
            group.is_stopped = True
            raise Interrupted(word - _SIGNALS)

    return together


def _keep_quiet(options: argparse.Namespace) -> None:
    """Let rank 0 alone write files and print."""
    verb: Verb = options.verb
    for option in verb.options:
        if option.ranks == "first" or (option.ranks == "states" and not options.zero):
            setattr(options, option.key, option.initial)
    options.quiet, options.progress = True, "none"
    sys.stdout = open("/dev/null", "w")  # noqa: SIM115 - until the process ends


def _failed(options: argparse.Namespace, group: Group, error: BaseException) -> int:
    """Report an error, and end all ranks; return the exit code if all of them stop alike."""
    code = exit_code(error)
    if group.is_stopped and isinstance(error, Interrupted | OutOfTime):
        if not group.rank:
            options.say(error_sentence(error, code))
        group.leave()
        return code
    if group.rank:
        time.sleep(SECONDS_BEHIND)
    if options.traceback:
        traceback.print_exc()
    options.say(f"{group}: {error_sentence(error, code)}" if group.size > 1 else error_sentence(error, code))
    if group.size == 1:
        return code
    sys.stderr.flush()
    time.sleep(FORWARDING_SECONDS)
    group.abort(code or 70)
