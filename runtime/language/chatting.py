"""Answers of a run in Python: one text at a time, with the tokenizer and the caches of the first call."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from weakref import WeakKeyDictionary

from runtime.language.choices import choices_of
from runtime.language.template import Message
from runtime.language.texts import MOST_NEW, Texts
from runtime.runs.session import Session

_texts: WeakKeyDictionary[Session, dict[Path | None, Texts]] = WeakKeyDictionary()
"""The texts of each run that wrote one, by the folder of the tokenizer."""

_lock = Lock()


def chat(
    session: Session,
    prompt: str | Sequence[Message],
    beside: Path,
    folder: Path | None,
    *,
    most: int | None,
    stop: Sequence[str],
    choices: Mapping[str, float],
) -> Iterator[str]:
    """Return the pieces of an answer; see `Run.chat`. Errors of the arguments are raised at once."""
    with _lock:
        kept = _texts.setdefault(session, {})
        if folder not in kept:
            session.states.require()
            kept[folder] = Texts(session, beside, folder)
        texts = kept[folder]
    chosen = choices_of(choices, texts.model.defaults)
    codes = texts.codes_of(prompt)
    limit = MOST_NEW if most is None else most
    texts.require_room(codes)

    def pieces() -> Generator[str]:
        with texts.row() as row:
            yield from texts.written(codes, chosen, most=limit, stop=stop, row=row)[1]

    return pieces()
