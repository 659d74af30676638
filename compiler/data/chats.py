"""Texts for a language model as rows of codes: conversations, prompts with completions, and plain texts.

1. A line of JSON has `messages`, or `prompt` and `completion`, or `text`. A file .txt is one text.
2. A conversation becomes text by the template of the model. What an assistant says is trained. The text up to a turn
   must begin with the text of the turns before it, and only the added part counts. A completion counts, and a plain
   text counts whole.
3. The label of a position is the code behind it, or -100 where that does not count, and at the end of a text.
4. Rows have one length. A plain text goes on in further rows; conversations are cut. Together, texts share rows: the
   first row with room takes the next one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import numpy as np

from compiler.data.options import PackOptions
from compiler.data.texts import read_lines
from runtime.dtypes import Array
from runtime.errors import DataError, UsageError
from runtime.language.model import IGNORED, ROWS_KEY, read_files
from runtime.language.template import Template, require_conversation
from runtime.language.tokenizer import HALF, Tokenizer, is_unicode, stop_code
from runtime.philox import permutation
from runtime.rows.encoding.csv_rows import read_regular, text_of

KINDS: Final = (("messages",), ("prompt", "completion"), ("text",))
"""The keys of each kind of line."""

OPEN_ROWS: Final = 256
"""The number of newest rows that are searched for space."""


@dataclass(frozen=True)
class ChatOptions:
    """How texts become rows.

    Attributes:
        folder: the folder of the model, with tokenizer.json and the template.
        length: codes in a row.
        together: True if texts share rows.
        split: shares of the texts by name; the rest is for training.
        seed: the seed of the assignment to splits.
    """

    folder: Path
    length: int
    together: bool = False
    split: Mapping[str, float] = field(default_factory=dict[str, float])
    seed: int = 0


class Text(NamedTuple):
    """The codes of a text, or of a part of it, and which of them count.

    `goes_on` is True for a text that further rows go on with; `behind` is the label of the last position.
    """

    codes: list[int]
    counts: list[bool]
    goes_on: bool
    behind: int = IGNORED


class Rows(NamedTuple):
    """Rows of codes, the row numbers of each split, the header, and the number of texts that were cut."""

    arrays: dict[str, Array]
    splits: dict[str, Array]
    metadata: dict[str, str]
    texts: int
    cut: int


def packed_chats(source: Path, options: ChatOptions) -> Rows:
    """Return the rows of a file of texts.

    Raises UsageError for a share or a length that no rows have, DataError for a file or a text that cannot be read.
    """
    if options.length < 2:
        raise UsageError(f"length={options.length}: a row has at least 2 codes, one and that behind it")
    files = read_files(options.folder)
    tokenizer = Tokenizer(files["tokenizer.json"], str(options.folder / "tokenizer.json"))
    encode = _Encoder(tokenizer, files, str(options.folder))
    texts = [encode.text(where, given) for where, given in given_texts(source)]
    if not texts:
        raise DataError(f"{source}: there are no texts")
    parts = parts_of(options, len(texts))
    arrays, counts, cut = list[dict[str, Array]](), dict[str, int](), 0
    for name, numbers in parts.items():
        pieces = [piece for number in numbers for piece in _cut(texts[number], options.length)]
        cut += sum(not texts[n].goes_on and len(texts[n].codes) > options.length for n in numbers)
        rows = _together(pieces, options.length) if options.together else [[piece] for piece in pieces]
        if not rows:
            raise DataError(f"{source}: no text of the split {name!r} has two codes")
        arrays.append(_arrays(rows, options.length))
        counts[name] = len(rows)
    joined = {key: np.concatenate([each[key] for each in arrays]) for key in arrays[0]}
    if not options.together:
        joined = {key: joined[key] for key in ("codes", "labels")}
    if not (joined["labels"] != IGNORED).any():
        raise DataError(f"{source}: nothing in the texts counts: no turn is an assistant's")
    first = joined["codes"][0]
    about = about_rows(options, files, tokenizer, first[first != 0], together=options.together)
    return Rows(joined, one_after_another(counts), about, len(texts), cut)


def one_after_another(counts: Mapping[str, int]) -> dict[str, Array]:
    """Return the row numbers of splits of these sizes, whose rows lie one after the other."""
    ends = np.cumsum([0, *counts.values()])
    return {name: np.arange(*span) for name, span in zip(counts, pairwise(ends), strict=True)}


def about_rows(
    options: ChatOptions, files: Mapping[str, str], tokenizer: Tokenizer, first: Array, **more: object
) -> dict[str, str]:
    """Return the header of a file of rows: a description of the texts, with the codes of the first row as text."""
    about = {
        "files": {name: sha256(text.encode()).hexdigest() for name, text in files.items()},
        "length": options.length,
        "codes": tokenizer.size,
        "first": tokenizer.text(first.tolist(), special=True)[:2000],
        **more,
    }
    return {ROWS_KEY: json.dumps(about, sort_keys=True, ensure_ascii=False, separators=(",", ":"))}


class _Encoder:
    """Makes codes of texts."""

    def __init__(self, tokenizer: Tokenizer, files: Mapping[str, str], where: str) -> None:
        self._tokenizer, self._files, self._where = tokenizer, files, where
        self._stop = stop_code(files, tokenizer)
        self._template: Template | None = None

    def text(self, where: str, given: Mapping[str, Any]) -> Text:
        """Return the codes of a line of JSON; `where` is its place, for errors."""
        kinds = [names[0] for names in KINDS if not given.keys().isdisjoint(names)]
        if len(kinds) > 1:
            raise DataError(
                f"{where}: there is {kinds[0]}, and {kinds[1]} too; a line has one of them, so leave one out"
            )
        if "messages" in given:
            return self._conversation(where, require_conversation(given["messages"], where))
        if "prompt" in given or "completion" in given:
            prompt, completion = (is_text(where, name, given.get(name)) for name in ("prompt", "completion"))
            return self._ended(prompt + completion, len(prompt), goes_on=False)
        if "text" in given:
            return self._ended(is_text(where, "text", given["text"]), 0, goes_on=True)
        raise DataError(f"{where}: there is neither messages nor text, nor prompt and completion")

    def _conversation(self, where: str, turns: list[dict[str, str]]) -> Text:
        if self._template is None:
            self._template = Template(self._files, self._where)
        spans: list[tuple[int, int]] = []
        whole = self._template.text(turns)
        for number, turn in enumerate(turns):
            if turn["role"] != "assistant":
                continue
            before = self._template.text(turns[:number], answer=True) if number else ""
            after = self._template.text(turns[: number + 1])
            if not (after.startswith(before) and whole.startswith(after)):
                raise DataError(
                    f"{where}: the template writes the turns before turn {number + 1} in another way than with it, so "
                    "what the assistant says cannot be told from the rest"
                )
            spans.append((len(before), len(after)))
        codes, counts = self._counted(whole, spans)
        return Text(codes, counts, goes_on=False)

    def _ended(self, text: str, start: int, *, goes_on: bool) -> Text:
        """Return a text whose codes count from character `start` on, with the codes that begin and end a text."""
        codes, counts = self._counted(text, [(start, len(text))])
        special = self._tokenizer.codes(text, special=True)
        if len(special) > len(codes) and special[1 : len(codes) + 1] == codes:
            codes, counts = [special[0], *codes], [False, *counts]
        if self._stop is not None and codes[-1:] != [self._stop]:
            codes, counts = [*codes, self._stop], [*counts, True]
        return Text(codes, counts, goes_on)

    def _counted(self, text: str, spans: Sequence[tuple[int, int]]) -> tuple[list[int], list[bool]]:
        """Return the codes of a text, and which of them have a character within the spans.

        Tokenizers that trim ranges give a code of spaces only an empty range, at the end of its spaces.
        """
        codes, ranges = self._tokenizer.spans(text)
        return codes, [
            any((at < stop or at == end == stop) and end > start for start, stop in spans) for at, end in ranges
        ]


def given_texts(source: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the place and the content of each text of a file."""
    if source.suffix == ".txt":
        yield str(source), {"text": text_of(source, read_regular(source, "the text"))}
        return
    if source.suffix not in (".jsonl", ".json"):
        raise UsageError(f"{source}: conversations and texts are lines of JSON, .jsonl, or a text, .txt")
    table = read_lines(source)
    for line, text in zip(table.lines, table.columns["text"], strict=True):
        where = f"{source}, line {line}"
        try:
            given = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: this is no JSON: {str(error)[:80]}") from None
        if not isinstance(given, dict):
            raise DataError(f"{where}: this is no JSON object, as {{'messages': [...]}} is")
        if "\\ud" in text.lower() and not is_unicode(json.dumps(given, ensure_ascii=False)):
            raise DataError(f"{where}: {HALF}")
        yield where, cast(Mapping[str, Any], given)


def is_text(where: str, name: str, given: object) -> str:
    """Return a text of a line of JSON; raise DataError for any other value."""
    if not isinstance(given, str):
        raise DataError(f"{where}: {name} is no text")
    return given


def parts_of(options: ChatOptions, count: int) -> dict[str, list[int]]:
    """Return the numbers of the texts of each split, in order; texts that no share takes belong to `train`."""
    total = sum(options.split.values())
    if total > 1 + 1e-9 or any(share <= 0 for share in options.split.values()):
        raise UsageError("split: shares are above 0, and together at most 1")
    if not options.split:
        return {"train": list(range(count))}
    order, start, parts = permutation(options.seed, 0, count).tolist(), 0, dict[str, list[int]]()
    shares = dict(options.split) if "train" in options.split else {**options.split, "train": 1 - total}
    for number, (name, share) in enumerate(shares.items()):
        size = count - start if number == len(shares) - 1 and total <= 1 else round(share * count)
        if "train" in options.split and number == len(shares) - 1:
            size = min(round(share * count), count - start)
        parts[name] = sorted(order[start : start + size])
        start += size
        if not parts[name]:
            raise UsageError(f"split: the share {share:g} of {count} texts for {name!r} is none")
    return {"train": parts["train"], **parts}


def _cut(text: Text, length: int) -> Iterator[Text]:
    """Yield the parts of a text that are rows, each of two codes or more; only a plain text has several.

    The last position of a part has the first code of the next part as its label, so a part of one code is left out.
    """
    starts = range(0, len(text.codes), length) if text.goes_on else (0,)
    for start in starts:
        end = start + length
        codes = text.codes[start:end]
        is_followed = text.goes_on and end < len(text.codes) and text.counts[end]
        if len(codes) > 1:
            yield Text(codes, text.counts[start:end], text.goes_on, text.codes[end] if is_followed else IGNORED)


def _together(texts: Sequence[Text], length: int) -> list[list[Text]]:
    """Return rows of several texts: each goes to the first row with room, of the newest `OPEN_ROWS`."""
    rows: list[list[Text]] = []
    room: list[int] = []
    for text in texts:
        size = len(text.codes)
        first = max(0, len(rows) - OPEN_ROWS)
        at = next((i for i in range(first, len(rows)) if room[i] >= size), len(rows))
        if at == len(rows):
            rows.append([])
            room.append(length)
        rows[at].append(text)
        room[at] -= size
    return rows


def _arrays(rows: Sequence[Sequence[Text]], length: int) -> dict[str, Array]:
    """Return the codes, labels, segments and positions of rows; segment 0 is padding."""
    shape = len(rows), length
    codes, segments, positions = (np.zeros(shape, np.int32) for _ in range(3))
    labels = np.full(shape, IGNORED, np.int32)
    for row, texts in enumerate(rows):
        at = 0
        for number, text in enumerate(texts, 1):
            here, size = slice(at, at + len(text.codes)), len(text.codes)
            codes[row, here], segments[row, here], positions[row, here] = text.codes, number, np.arange(size)
            following = np.where(text.counts[1:], text.codes[1:], IGNORED)
            labels[row, at : at + size] = [*following, text.behind]
            at += size
    return {"codes": codes, "labels": labels, "segments": segments, "positions": positions}


def chat_options(folder: str, length: int | None, options: PackOptions, *, together: bool) -> ChatOptions:
    """Return the options of packing for a model; raise UsageError for options of tables beside them."""
    if length is None:
        raise UsageError("--chat: --length names the codes of a row, as in --length 256")
    if any(options.named.values()) or options.of is not None or options.window is not None:
        raise UsageError("--chat: texts have no columns; give it with --length, --together, --split and --seed only")
    return ChatOptions(Path(folder), length, together, options.split, options.seed)
