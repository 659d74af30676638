"""Answers of a run in Python: one text at a time, with the tokenizer and the caches of the first call."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from threading import Lock
from typing import cast
from weakref import WeakKeyDictionary

from runtime.errors import UsageError
from runtime.language.choices import choices_of
from runtime.language.template import Message, require_conversation
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
    stop: str | Sequence[str],
    plain: bool,
    choices: Mapping[str, float],
) -> Iterator[str]:
    """Return the pieces of an answer; see `Run.chat`. Errors of the arguments are raised at once."""
    stops = _stops_of(stop)
    limit = _limit_of(most)
    asked = _asked(prompt, plain=plain)
    with _lock:
        kept = _texts.setdefault(session, {})
        if folder not in kept:
            session.states.require()
            kept[folder] = Texts(session, beside, folder)
        texts = kept[folder]
    chosen = choices_of(choices, texts.model.defaults)
    codes = texts.codes_of(asked)
    texts.require_room(codes)

    def pieces() -> Generator[str]:
        with texts.row() as row:
            yield from texts.written(codes, chosen, most=limit, stop=stops, row=row)[1]

    return pieces()


def _asked(prompt: str | Sequence[Message], *, plain: bool) -> str | Sequence[Message]:
    """Return a text that is gone on with, or a conversation; raise DataError for a turn that no template writes."""
    if isinstance(prompt, str):
        return prompt if plain else [{"role": "user", "content": prompt}]
    if plain:
        raise UsageError("chat: plain=True goes on with a text, and the prompt is a conversation; leave plain out")
    return require_conversation([dict(turn) for turn in prompt], "chat")


def _limit_of(most: object) -> int:
    """Return an upper bound on the codes of an answer."""
    if most is None:
        return MOST_NEW
    if isinstance(most, bool) or not isinstance(most, Integral) or most < 0:
        raise UsageError(f"chat: most={most!r} is not a whole number from 0 on")
    return int(most)


def _stops_of(stop: object) -> list[str]:
    """Return the texts that end an answer."""
    given = [stop] if isinstance(stop, str) else stop
    texts = [*cast(Sequence[object], given)] if isinstance(given, Sequence) else [given]
    stops = [text for text in texts if isinstance(text, str) and text]
    if len(stops) < len(texts):
        raise UsageError(f"chat: stop={stop!r} is neither a text nor a list of texts, each of a character or more")
    return stops
