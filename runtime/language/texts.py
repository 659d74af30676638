"""New texts of a language model, piece by piece."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition
from typing import Final, Literal

from runtime.errors import DataError
from runtime.language.choices import Choices
from runtime.language.model import LanguageModel, files_of, language_model
from runtime.language.template import Message, Template
from runtime.language.tokenizer import Pieces, Tokenizer, stop_code
from runtime.language.writer import Writer
from runtime.runs.session import Session
from runtime.runs.untrained import warn_if_untrained

Ending = Literal["stop", "length"]
"""Why a text ends: the model or a stop text ended it, or it has the codes that were asked for or fit."""

MOST_NEW: Final = 1 << 30
"""A number of codes that no text has."""


@dataclass
class Answer:
    """A text that is written: its codes so far, and why it ended.

    Attributes:
        prompt: the number of codes of the prompt.
        codes: the codes that were written.
        ending: why the text ended; None as long as it is written.
    """

    prompt: int
    codes: list[int] = field(default_factory=list[int])
    ending: Ending | None = None


class Texts:
    """The texts of a session: tokenizer, template and the rows in which texts are written.

    Attributes:
        model: what the program says of its language model.
        tokenizer: its tokenizer.
        writer: writes codes.
    """

    def __init__(self, session: Session, beside: Path, folder: Path | None = None) -> None:
        """Read the tokenizer beside the program, or in `folder`.

        Raises UsageError for a program without a language model or a missing package, DataError for another tokenizer,
        ResourceLimit if the memory does not suffice.
        """
        self.model: LanguageModel = language_model(session.program)
        files = files_of(self.model, beside, folder)
        self._where = str(beside / self.model.folder if folder is None else folder)
        self.tokenizer = Tokenizer(files["tokenizer.json"], f"{self._where}/tokenizer.json")
        if self.tokenizer.size > self.model.vocabulary:
            raise DataError(
                f"{self._where}: the tokenizer has {self.tokenizer.size} codes, the model {self.model.vocabulary}"
            )
        self._files = files
        self._template: Template | None = None
        stop = stop_code(files, self.tokenizer)
        self.stops = frozenset([*self.model.stops, *([] if stop is None else [stop])])
        self.writer = Writer(session)
        warn_if_untrained(session, "next")
        self._held: list[list[int]] = [[] for _ in range(self.model.texts)]
        self._free = [*range(self.model.texts)][::-1]
        self._changed = Condition()

    def codes_of(self, prompt: str | Sequence[Message]) -> list[int]:
        """Return the codes of a text, or of a conversation with the beginning of an answer."""
        if isinstance(prompt, str):
            codes = self.tokenizer.codes(prompt, special=True)
            if not codes:
                raise DataError("the text is empty: give at least one word")
            return codes
        if self._template is None:
            self._template = Template(self._files, self._where)
        return self.tokenizer.codes(self._template.text(prompt, answer=True))

    def require_room(self, codes: Sequence[int]) -> None:
        """Raise DataError for a prompt behind which there is no room for a code."""
        if len(codes) >= self.model.positions:
            raise DataError(
                f"the prompt has {len(codes)} codes, and the program was compiled for texts of {self.model.positions}, "
                "answer included: compiler import lm --positions"
            )

    @contextmanager
    def row(self) -> Generator[int]:
        """Lend a row to one text; wait until one is free."""
        with self._changed:
            self._changed.wait_for(lambda: self._free)
            row = self._free.pop()
        try:
            yield row
        finally:
            with self._changed:
                self._free.append(row)
                self._changed.notify()

    def written(
        self,
        codes: Sequence[int],
        choices: Choices,
        *,
        most: int = MOST_NEW,
        stop: Sequence[str] = (),
        row: int = 0,
        keep: bool = False,
    ) -> tuple[Answer, Iterator[str]]:
        """Return an answer, and the pieces of its text; each is written when it is asked for.

        Args:
            codes: the codes of the prompt.
            choices: how codes are chosen.
            most: the number of codes that are written at most.
            stop: texts that end the text, and are not part of it.
            row: the row to write in.
            keep: True if the keys and values of the codes that the row already has are used again, as a conversation
                does. The text then depends, in its last digits, on how they came there.

        Raises DataError for a prompt that there is no room for.
        """
        self.require_room(codes)
        answer = Answer(len(codes))
        return answer, self._pieces(answer, list(codes), choices, most, _Stops(stop), row, keep)

    def _pieces(
        self, answer: Answer, codes: list[int], choices: Choices, most: int, stops: _Stops, row: int, keep: bool
    ) -> Generator[str]:
        kept = _common(self._held[row], codes) if keep else 0
        kept = min(kept, len(codes) - 1)
        self.writer.begin(row, choices, codes[:kept])
        self._held[row] = codes
        pieces = Pieces(self.tokenizer)
        code = self.writer.read(row, codes[kept:]) if most else -1
        while True:
            if most and code in self.stops:
                answer.ending = "stop"
                break
            if len(answer.codes) >= most:
                answer.ending = "length"
                break
            answer.codes.append(code)
            yield from stops.passed(pieces.add(code))
            if stops.found or not self.writer.room(row):
                answer.ending = "stop" if stops.found else "length"
                break
            self._held[row].append(code)
            code = self.writer.next_of(row, code)
        if not stops.found:
            yield from stops.passed(pieces.rest())
            yield from stops.rest()


class _Stops:
    """Holds back the end of a text as long as it may be the beginning of a stop text."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = [text for text in texts if text]
        self._held = ""
        self.found = False

    def passed(self, piece: str) -> Iterator[str]:
        """Yield what cannot be part of a stop text, up to one that is found."""
        self._held += piece
        if self.found or not self._held:
            return
        ends = [at for text in self._texts if (at := self._held.find(text)) >= 0]
        if ends:
            self.found = True
            told, self._held = self._held[: min(ends)], ""
        else:
            hold = max(
                (n for text in self._texts for n in range(len(text)) if self._held.endswith(text[:n])), default=0
            )
            told, self._held = self._held[: len(self._held) - hold], self._held[len(self._held) - hold :]
        if told:
            yield told

    def rest(self) -> Iterator[str]:
        """Yield what was held back, as the text has ended."""
        if self._held:
            yield self._held


def _common(some: Sequence[int], others: Sequence[int]) -> int:
    """Return the number of codes with which both begin."""
    for number, (one, other) in enumerate(zip(some, others, strict=False)):
        if one != other:
            return number
    return min(len(some), len(others))
