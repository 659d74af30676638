"""The option --attest: a statement about a training, with a chain of hashes through its steps.

With --checkpoint, the chain is also in `chain.json` in that folder, before each checkpoint is. So a resumed run goes on
with it, and `runtime audit` can begin at a checkpoint.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from prograd_proto import program_pb2 as pb
from prograd_proto.file_names import matching
from prograd_proto.regular_files import open_regular
from runtime.commands.reports.record import record_of
from runtime.errors import DataError, UsageError
from runtime.files.output import make_folder, write_output
from runtime.runs.events import Event
from runtime.runs.evidence.chain import Chain, from_json, to_json
from runtime.runs.evidence.envelope import Signer
from runtime.runs.evidence.inputs import InputFile, input_file
from runtime.runs.evidence.statement import MAX_BYTES, Statement, write_statement
from runtime.runs.metrics import Metrics
from runtime.runs.run import Run
from runtime.runs.run_record import file_sha256

CHAIN_FILE: Final = "chain.json"
DEFAULT_EVERY: Final = 100
"""Steps between two links, unless --chain says it."""


class Attestation:
    """The statement about a run, while the run goes on."""

    def __init__(self, options: argparse.Namespace, run: Run) -> None:
        """Begin or continue the chain; raise UsageError for an invalid key, DataError for a damaged chain."""
        self._options, self._run = options, run
        self._signer = None if options.sign is None else Signer(options.sign)
        self._inputs = list(_inputs(options, run))
        self._chain = Chain(options.chain or DEFAULT_EVERY, run.sha256, run.states.sha256)
        if run.position.steps:
            self._go_on(options.checkpoint)
        else:
            self._chain.begin(0)

    @property
    def every(self) -> int:
        """Steps between two links of the chain."""
        return self._chain.every

    def take(self, event: Event) -> None:
        """Add an event to the chain; the states are those after it."""
        self._chain.take(event)

    def keep(self) -> None:
        """Write the chain into the folder of checkpoints."""
        folder: Path = self._options.checkpoint
        make_folder(folder)
        chain = self._chain
        values = {"every": chain.every, "links": to_json(chain.links), "open": chain.open}
        write_output(folder / CHAIN_FILE, json.dumps(values, indent=1).encode() + b"\n", force=True)

    def write(self, fields: Mapping[str, object], metrics: Metrics) -> None:
        """Write the statement; `fields` are those of the result line."""
        options = self._options
        outputs = {} if options.save is None else {options.save.name: file_sha256(options.save)}
        shown = {name: repr(value) for name, value in metrics.items()}
        record = record_of(options, self._run, fields)
        statement = Statement(record, shown, self._inputs, outputs, self.every, self._chain.links)
        write_statement(options.attest, statement, self._signer, force=options.force)

    def _go_on(self, folder: Path | None) -> None:
        if folder is None:
            raise UsageError("--attest goes on with the chain in the folder of --checkpoint; give --checkpoint")
        path, chain = folder / CHAIN_FILE, self._chain
        try:
            with open_regular(path) as file:
                values = json.loads(file.read(MAX_BYTES))
            links, digests = from_json(values["links"], self._run.sha256), values["open"]
            every = int(values["every"])
        except OSError as error:
            raise DataError(
                f"{path}: the chain of the run cannot be read: {error.strerror or error}; "
                "--attest follows a run from its start"
            ) from None
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            why = f": {error}" if type(error) is ValueError else ""
            raise DataError(f"{path}: the chain of the run is damaged{why}") from None
        if self._options.chain not in (None, every):
            raise UsageError(f"--chain {self._options.chain}: the run has a link every {every} steps so far")
        chain.every = every
        try:
            chain.go_on(links, digests, self._run.position.steps)
        except DataError as error:
            raise DataError(f"{path}: {error}") from None


def _inputs(options: argparse.Namespace, run: Run) -> Iterator[InputFile]:
    """Yield the files that a run reads, with one name each."""
    taken: set[str] = set()
    for role, path in input_paths(options, run.program):
        name = path.name if role.startswith(("program", "--")) else role
        name = f"{role}={name}" if name in taken else name
        taken.add(name)
        yield input_file(path, role)._replace(name=name)


def input_paths(options: argparse.Namespace, program: pb.ProgramDesc) -> Iterator[tuple[str, Path]]:
    """Yield the role and the path of each file that a run reads."""
    path, beside = Path(options.program), [file.path for file in program.files]
    replaced = [] if options.data is None else matching(program.data.file, beside)
    yield "program", path
    yield from ((file, path.parent / file) for file in beside if file not in replaced)
    if options.data is not None:
        yield "--data", options.data
    if options.load is not None and not options.resume:
        yield "--load", options.load
    for text in options.feed:
        name, at, file = text.partition("=@")
        if at:
            yield f"--feed {name}", Path(file)
