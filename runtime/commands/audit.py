"""The verb `audit`: repeat a part of an attested run, and name the first step that differs.

1. The statement is read; its chain, and its signature if a key is given, must be whole.
2. The files that the run read are compared with the hashes in the statement.
3. The states at the start of the interval, from the beginning of the run or from a checkpoint, must have the hash that
   the chain has there.
4. The steps of the interval are made again. The metrics of each are compared by their digests, the states by the links.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from prograd_proto.files import load
from prograd_proto.identity import program_sha256
from runtime.command_line.ending import EXIT_DONE, EXIT_FAILED
from runtime.command_line.results import put_result
from runtime.commands.arrays.feeds import read_feeds
from runtime.commands.loaded import loaded_run
from runtime.commands.replay import ask_the_same
from runtime.commands.reports.attest import input_paths
from runtime.errors import UsageError
from runtime.memory.limit import MemoryLimit
from runtime.runs.checkpoints.checkpoint_folder import CheckpointFolder
from runtime.runs.course import MAX_STEPS_AT_ONCE
from runtime.runs.events import Event, StepEnd
from runtime.runs.evidence.chain import DIGITS, Chain, Link, step_digest
from runtime.runs.evidence.envelope import require_signed
from runtime.runs.evidence.inputs import difference
from runtime.runs.evidence.statement import Statement, read_statement
from runtime.runs.overtime import Overtime
from runtime.runs.run import Run

Fields = list[tuple[str, object]]


class Asked(NamedTuple):
    """The part of a run that is repeated.

    Attributes:
        first: the link where it begins.
        last: the link where it ends.
        checkpoint: the states at its beginning; None for the start of the run.
        is_to_end: True if it ends where the run did.
    """

    first: Link
    last: Link
    checkpoint: Path | None
    is_to_end: bool


def audit(options: argparse.Namespace) -> int:
    """Repeat the interval; return 0 if files, states and steps are those of the statement, and else 1."""
    found = read_statement(options.attest)
    if options.key is not None:
        require_signed(options.attest, found.raw, found.signatures, options.key)
    elif found.signatures:
        options.say(
            f"{options.attest}: the signature by the key {found.signatures[0].key[:16]}... is not checked; give --key"
        )
    statement = found.statement
    options.recorded = options.attest
    ask_the_same(options, statement.record)
    asked = _asked(options, statement)
    failures = list(_other_files(options, statement))
    fields: Fields = [("entry", statement.record.entry), ("interval", f"{asked.first.step}:{asked.last.step}")]
    if not failures:
        failure, here = _repeated(options, statement, asked)
        failures += [failure] if failure else []
        fields.append(("state_sha256", here))
    for failure in failures:
        options.say(failure)
    put_result(options, "FAILED" if failures else "OK", fields)
    return EXIT_FAILED if failures else EXIT_DONE


def _asked(options: argparse.Namespace, statement: Statement) -> Asked:
    """Return the links of the interval; raise UsageError if the chain, or the folder of checkpoints, lacks them."""
    links = {link.step: link for link in statement.links}
    begin, end = statement.links[0].step, statement.links[-1].step
    first, last = options.interval or (begin, end)
    for step in (first, last):
        if step not in links:
            near = [*(s for s in links if s < step)][-1:] + [*(s for s in links if s > step)][:1]
            there = " and ".join(map(str, near))
            raise UsageError(f"--interval {first}:{last}: the chain has no link at step {step}, but at {there}")
    checkpoint = None
    if first:
        checkpoint = _checkpoint(options.checkpoint, first)
    return Asked(links[first], links[last], checkpoint, is_to_end=last == end)


def _checkpoint(folder: Path | None, step: int) -> Path:
    if folder is None:
        raise UsageError(f"the interval begins after step {step}, with its checkpoint; give --checkpoint DIR")
    path = CheckpointFolder(folder).at(step)
    if not path.exists():
        there = [str(each) for each in CheckpointFolder(folder).steps()]
        some = f"those of steps {', '.join(there[:8])}{', …' if len(there) > 8 else ''}" if there else "none"
        raise UsageError(f"{folder}: there is no checkpoint of step {step}, but {some}")
    return path


def _other_files(options: argparse.Namespace, statement: Statement) -> Iterator[str]:
    """Yield a sentence for each file that is not the one that the run read."""
    program = load(options.program)
    found = program_sha256(program)
    if found != statement.record.program_sha256:
        yield (
            f"this is another program: its program_sha256 is {found}, the statement's is "
            f"{statement.record.program_sha256}"
        )
        return
    known = {file.role: file for file in statement.inputs}
    for role, path in input_paths(options, program):
        sentence = difference(path, known[role]) if role in known and role != "program" else ""
        if sentence:
            yield sentence


def _repeated(options: argparse.Namespace, statement: Statement, asked: Asked) -> tuple[str, str]:
    """Make the steps of the interval; return a sentence about the first difference, if any, and the states' hash."""
    memory = MemoryLimit(options.max_memory, of_process=True, threads=options.threads)
    feeds = read_feeds(options.feed, memory) or None
    with ExitStack() as stack:
        overtime = stack.enter_context(Overtime(options.max_time, options.say))
        run = loaded_run(options, memory=memory)
        stack.callback(run.close)
        run.session.stepper.overtime = overtime
        if asked.checkpoint is not None:
            run.resume(asked.checkpoint)
        elif options.load:
            run.load(options.load)
        here = run.states.sha256()
        if here != asked.first.state_sha256:
            return _other_start(asked, here), here
        events = run.events(
            between=overtime.check,
            entry=statement.record.entry,
            steps=statement.record.steps or None,
            data=feeds or options.split,
            shuffle=False if feeds else None,
            ahead=MAX_STEPS_AT_ONCE,
            pauses=statement.every,
        )
        stack.callback(events.close)
        failure = _first_difference(run, statement, asked, events)
        return failure, run.states.sha256()


def _other_start(asked: Asked, here: str) -> str:
    what = (
        "the initial states are not those" if asked.checkpoint is None else f"{asked.checkpoint}: this is not a state"
    )
    wanted = asked.first.state_sha256
    return f"{what} of the attested run: their hash is {here[:16]}..., the chain has {wanted[:16]}... at that step"


def _first_difference(run: Run, statement: Statement, asked: Asked, events: Iterator[Event]) -> str:
    """Return a sentence about the first step or link of the interval that differs; "" if none does."""
    begin = statement.links[0].step
    digests = "".join(link.steps for link in statement.links)
    links = {link.step: link for link in statement.links}
    chain = Chain(statement.every, run.sha256, run.states.sha256)
    chain.links.append(asked.first)  # the states have its hash
    for event in events:
        if isinstance(event, StepEnd):
            at = DIGITS * (event.step - 1 - begin)
            if digests[at : at + DIGITS] != step_digest(event.metrics):
                shown = ", ".join(f"{name}={value!r}" for name, value in event.metrics.items())
                return f"step {event.step} is the first that differs: here its metrics are {shown}"
        chain.take(event)
        made, then = chain.links[-1], links.get(chain.links[-1].step)
        if then is None or made.closes != then.closes or made.step == asked.first.step:
            continue
        if made.state_sha256 != then.state_sha256:
            before = chain.links[-2].step
            return (
                f"the states after step {made.step} differ, and the metrics up to there are equal: a step after "
                f"step {before} left other states"
            )
        if made.step == asked.last.step and not asked.is_to_end:
            return ""
    if chain.links[-1].step < asked.last.step:
        return f"the run ends after step {chain.links[-1].step}, and the attested one had {asked.last.step} steps"
    here, then = run.states.sha256(), statement.record.state_sha256
    return "" if here == then else f"the states at the end differ: their hash is {here[:16]}..., not {then[:16]}..."
