"""The option --record: the inputs, results and machine of a run, in a JSON file that `runtime replay` reads."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from prograd_proto.states import trains
from runtime.runs.machine import this_machine
from runtime.runs.run import Run
from runtime.runs.run_record import RunRecord, file_sha256, write_record


def record(options: argparse.Namespace, run: Run, fields: Mapping[str, object]) -> None:
    """Write the record of a finished run; `fields` are those of its result line."""
    write_record(options.record, record_of(options, run, fields), force=options.force)


def record_of(options: argparse.Namespace, run: Run, fields: Mapping[str, object]) -> RunRecord:
    """Return the record of a finished run; `fields` are those of its result line."""
    entry = str(fields["entry"])
    trained = trains(run.program, run.session.bindings(entry)[0].block)
    return RunRecord(
        program_sha256=run.sha256,
        entry=entry,
        seed=int(run.states.arrays["seed"]),
        steps=int(run.states.arrays["total_steps"]) if trained else 0,
        split=options.split or "",
        data="" if options.data is None else file_sha256(options.data),
        load="" if options.load is None or options.resume else file_sha256(options.load),
        feeds=dict(_fed(text) for text in options.feed),
        resumed=bool(options.resume),
        engine=run.session.engine.name,
        settings={name: repr(number) for name, number in run.settings.items()},
        state_sha256=str(fields["state_sha256"]),
        machine=this_machine(run.session.engine.instructions),
    )


def _fed(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, "@" + file_sha256(Path(value[1:])) if value.startswith("@") else value
