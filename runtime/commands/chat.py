"""The verb `chat`: a conversation with a language model, or texts that it goes on with, on the terminal."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from time import perf_counter

from runtime.command_line.ending import EXIT_DONE
from runtime.command_line.results import put_result
from runtime.command_line.streams import is_terminal, put, put_part
from runtime.commands.loaded import run_with_states
from runtime.commands.settings import chosen_settings
from runtime.errors import DataError, UsageError
from runtime.language.choices import Choices, choices_of
from runtime.language.texts import MOST_NEW, Answer, Texts
from runtime.memory.limit import peak_rss
from runtime.runs.run import Run


def chat(options: argparse.Namespace) -> int:
    """Answer each line of stdin, or the message of the options; write the texts as they come."""
    _require_words(options)
    start = perf_counter()
    chosen, options.settings = chosen_settings(options.settings), []
    draws, options.seed = options.seed, None  # of the texts, and not of the program
    run = run_with_states(options)
    try:
        run.states.require()
        texts = Texts(run.session, Path(options.program).parent, options.tokenizer)
        given = chosen | ({} if draws is None else {"seed": draws})
        choices = choices_of(given, texts.model.defaults)
        codes = _talk(options, run, texts, choices)
    finally:
        run.close()
    fields = [("codes", codes), ("wall", f"{perf_counter() - start:.3f}"), ("rss", peak_rss())]
    put_result(options, "OK", fields)
    return EXIT_DONE


def _require_words(options: argparse.Namespace) -> None:
    """Raise UsageError for options that would have no effect."""
    if options.message is not None and not options.message.strip():
        raise UsageError("--message: the text is empty: give at least one word")
    if "" in options.stop:
        raise UsageError("--stop: the text is empty: give at least one character")
    if options.plain and options.system is not None:
        raise UsageError("--system begins a conversation, and --plain goes on with a text: leave one of them out")


def _talk(options: argparse.Namespace, run: Run, texts: Texts, choices: Choices) -> int:
    """Write all answers, and return the number of their codes."""
    turns = [] if options.system is None else [{"role": "system", "content": options.system}]
    count = 0
    while (message := _message(options, first=not count and len(turns) < 2)) is not None:
        if not message.strip():
            continue
        turns.append({"role": "user", "content": message})
        codes = texts.codes_of(message if options.plain else turns)
        answer, said = _written(texts, codes, choices, options)
        count += len(answer.codes)
        turns.append({"role": "assistant", "content": said})
        if answer.ending == "length" and not options.quiet:
            options.say("the text was cut here: it has as many codes as there is room for, or as --most allows")
        if options.message is not None:
            break
        options.interrupts.check()
    return count


def _written(texts: Texts, codes: list[int], choices: Choices, options: argparse.Namespace) -> tuple[Answer, str]:
    """Write a text as it comes, and return it."""
    answer, pieces = texts.written(
        codes, choices, most=options.most or MOST_NEW, stop=options.stop, keep=not options.plain
    )
    said: list[str] = []
    for piece in pieces:
        said.append(piece)
        put_part(piece)
        options.interrupts.check()
    put("")
    return answer, "".join(said)


def _message(options: argparse.Namespace, *, first: bool) -> str | None:
    """Return what the user says next; None at the end."""
    if options.message is not None:
        return options.message
    if is_terminal(sys.stdin):
        put_part("> ")
    try:
        line = sys.stdin.readline() if sys.stdin is not None else ""  # pyright: ignore[reportUnnecessaryComparison]: None without stdin
    except UnicodeDecodeError:
        raise DataError("stdin: the message is no UTF-8") from None
    return line.rstrip("\n") if line else None
