"""The verb `serve`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from socket import socket
from time import perf_counter

from prograd_proto.printable import MAX_WORD_CHARACTERS, sentence
from prograd_proto.regular_files import open_lines
from runtime.command_line.ending import EXIT_DONE
from runtime.command_line.results import put_result
from runtime.commands.arrays.decoding import asked_columns
from runtime.commands.loaded import run_with_states
from runtime.errors import UsageError
from runtime.memory.limit import peak_rss
from runtime.runs.run import Run
from runtime.runs.untrained import warn_if_untrained
from runtime.serving.access import Access, read_token, require_token
from runtime.serving.endpoints import Endpoints
from runtime.serving.gate import Counts, Gate, Limits, require_library
from runtime.serving.predictor import Predictor
from runtime.serving.rare_warnings import rare_warnings
from runtime.serving.server import Stop, answer, listen


def serve(options: argparse.Namespace) -> int:
    """Answer requests for predictions over HTTP, until a signal or the end of the time."""
    start = perf_counter()
    require_library()
    token = read_token(options.token_file)
    require_token(options.host, token)
    run = run_with_states(options)
    if run.session.data.is_encoded:
        run.session.data.encoding()  # a damaged one is told now, and not in each answer
    if options.chat:
        return _serve_texts(options, run, token, start)
    entry = _entry(options, run)
    decode = run.session.named(asked_columns(options.decode))
    predictor = Predictor(run.session, entry, queue=options.queue, together=options.together, decode=decode)
    taken = listen(options.port, options.host)
    said, limits = _said(run, entry), Limits(options.max_body, options.answer_time)
    what = f"entry {entry!r} of {sentence(run.program.name, MAX_WORD_CHARACTERS)!r} is at {_url(options, taken)}"
    with taken, rare_warnings(), _log(options.access_log, options.say) as log:
        endpoints = Endpoints(predictor, limits, said, options.say, Access(token, log))
        counts = _answered(options, run, endpoints, taken, said, what)
    fields = [*vars(counts).items(), ("computed", predictor.computed), ("wall", f"{perf_counter() - start:.3f}")]
    put_result(options, "OK", [("entry", entry), *fields, ("rss", peak_rss())])
    return EXIT_DONE


def _serve_texts(options: argparse.Namespace, run: Run, token: bytes | None, start: float) -> int:
    """Answer requests for texts of a language model."""
    from runtime.language.texts import Texts  # few programs write texts
    from runtime.serving.texts import TextEndpoints

    run.states.require()
    texts = Texts(run.session, Path(options.program).parent, options.tokenizer)
    taken = listen(options.port, options.host)
    said, limits = _said(run, "next"), Limits(options.max_body, options.answer_time)
    what = f"texts of {sentence(run.program.name, MAX_WORD_CHARACTERS)!r} are at {_url(options, taken)}/v1"
    with taken, _log(options.access_log, options.say) as log:
        access = Access(token, log)
        endpoints = TextEndpoints(texts, limits, said, options.say, run.memory, access, queue=options.queue)
        counts = _answered(options, run, endpoints, taken, said, what)
    fields = [*vars(counts).items(), ("wall", f"{perf_counter() - start:.3f}"), ("rss", peak_rss())]
    put_result(options, "OK", fields)
    return EXIT_DONE


def _answered(
    options: argparse.Namespace, run: Run, endpoints: Gate, taken: socket, said: Mapping[str, object], what: str
) -> Counts:
    """Say what is where once requests are accepted, answer them to the end, and return their counts."""
    stop = Stop()

    def ready() -> None:
        options.interrupts.hold(stop.at_signal)
        put_result(options, "READY", [("url", _url(options, taken)), *said.items()])
        if not options.quiet:
            options.say(f"{what}; Ctrl-C ends it")

    done = answer(endpoints, taken, stop=stop, ready=ready, seconds=options.max_time)
    run.close()
    if not done.is_whole:
        options.interrupts.check()
    return done.counts


def _url(options: argparse.Namespace, taken: socket) -> str:
    host = f"[{options.host}]" if ":" in options.host else options.host
    return f"http://{host}:{taken.getsockname()[1]}"


@contextmanager
def _log(path: Path | None, say: Callable[[str], object]) -> Generator[Callable[[str], None] | None]:
    """Yield a function that appends a line to the log of requests; None without a log."""
    if path is None:
        yield None
        return
    try:
        file = open_lines(path, append=True)
    except OSError as error:
        raise UsageError(f"--access-log {path}: the log cannot be written: {error.strerror}") from None
    with file:

        def log(line: str) -> None:
            try:
                file.write(line + "\n")
            except OSError as error:  # a full disk must not end the answers
                say(f"warning: --access-log {path}: a line is lost: {error.strerror}")

        yield log


def _entry(options: argparse.Namespace, run: Run) -> str:
    """Return the requested entry, which must not train."""
    entry = options.entry or "predict"
    if run.session.trains(run.session.bindings(entry)[0]):
        raise UsageError(f"the entry {entry!r} trains, and no request may change the states; name another by --entry")
    warn_if_untrained(run.session, entry)
    return entry


def _said(run: Run, entry: str) -> dict[str, object]:
    """Return the description of the served entry."""
    engine = run.session.engine
    return {
        "program": run.program.name,
        "entry": entry,
        "program_sha256": run.sha256,
        "state_sha256": run.states.sha256(),
        "engine": engine.name,
    }
