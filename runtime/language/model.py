"""The description of a language model in a program and in its rows, and the files of its tokenizer.

The text is part of a file that anybody may have written, so nothing of it is trusted: sizes are compared with the
entries, and files are read only if they have the hashes that the program names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from json import loads
from pathlib import Path
from typing import Any, Final, cast

from prograd_proto import program_pb2 as pb
from prograd_proto.regular_files import open_regular
from runtime.errors import DataError, UsageError
from runtime.language.gguf import is_gguf, read_gguf
from runtime.language.gguf_tokenizer import texts_of

KEY: Final = "language_model"
"""The key of a program's text about its model, JSON that the import writes."""

ENCODER_KEY: Final = "text_encoder"
"""The key of a program's text about an encoder of texts, JSON that the import writes."""

ROWS_KEY: Final = "language_rows"
"""The key of the header of a file of rows that says how texts became rows, as JSON."""

IGNORED: Final = -100
"""The label of a position that no loss counts, as in PyTorch."""

MOST_BYTES: Final = 1 << 26
"""Upper bound on a file of a tokenizer, 64 MiB."""

FILES: Final = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
"""The files of a tokenizer that are read."""


@dataclass(frozen=True)
class LanguageModel:
    """The description of a language model in a program.

    Attributes:
        family: the `model_type` of its config.
        folder: its folder, from that of the program.
        files: the SHA-256 of each of its files that the program was made with.
        vocabulary: the number of codes.
        layers: the number of layers.
        groups: the number of heads of keys.
        head_size: the size of a head.
        positions: the codes of a text, the prompt included.
        texts: the number of texts that are written at a time.
        chunk: the codes that a step of `read` takes.
        stops: codes that end a text.
        defaults: temperature and the like, as the model's folder has them.
        changes: keys of the config that are other than in the folder.
    """

    family: str
    folder: str
    files: Mapping[str, str]
    vocabulary: int
    layers: int
    groups: int
    head_size: int
    positions: int
    texts: int
    chunk: int
    stops: tuple[int, ...]
    defaults: Mapping[str, float]
    changes: Mapping[str, int]

    @property
    def cache_shape(self) -> tuple[int, ...]:
        """The shape of the keys, and of the values, of all texts."""
        return self.layers, self.texts, self.groups, self.positions, self.head_size


def language_model(program: pb.ProgramDesc) -> LanguageModel:
    """Return the description of a program's language model; raise UsageError for a program without one."""
    text = next((each.text for each in program.model if each.key == KEY), None)
    if text is None:
        raise UsageError("the program is no language model; compiler import lm, or prograd.from_lm, makes one")
    try:
        return _parsed(loads(text))
    except (ValueError, RecursionError, KeyError, TypeError):
        raise DataError("what the program says of its language model is damaged; import the model again") from None


def _parsed(given: Any) -> LanguageModel:
    sizes = {
        name: _size(given[name])
        for name in ("vocabulary", "layers", "groups", "head_size", "positions", "texts", "chunk")
    }
    files = cast(dict[str, str], given["files"])
    if not all(name in FILES and len(digest) == 64 for name, digest in files.items()):
        raise ValueError(files)
    defaults = {str(name): float(value) for name, value in given["defaults"].items()}
    if not all(isinstance(given[name], str) for name in ("family", "folder")):
        raise TypeError(given["folder"])
    return LanguageModel(
        family=given["family"],
        folder=given["folder"],
        files=files,
        stops=tuple(int(code) for code in given["stops"]),
        defaults=defaults,
        changes={str(name): _size(value) for name, value in given.get("config", {}).items()},
        **sizes,
    )


def _size(given: Any) -> int:
    if type(given) is not int or not 1 <= given < 1 << 31:
        raise ValueError(given)
    return given


def files_of(model: LanguageModel, beside: Path, given: Path | None = None) -> dict[str, str]:
    """Return the files of the model's tokenizer as texts; those of another folder if one is given.

    Raises DataError if a file is missing or is not the one that the program was made with.
    """
    folder = beside / model.folder if given is None else given
    if "tokenizer.json" not in model.files:
        raise DataError(f"{folder}: the model was imported without tokenizer.json, so it takes no text")
    found: dict[str, str] = {}
    inside = texts_of(read_gguf(folder)) if is_gguf(folder) else None
    for name, digest in model.files.items():
        hint = "" if given is not None else "; --tokenizer FOLDER names its folder"
        raw = read_file(folder / name, hint=hint) if inside is None else inside.get(name, "").encode()
        if sha256(raw).hexdigest() != digest:
            raise DataError(
                f"{folder / name}: this is not the file that the program was made with, whose SHA-256 is {digest[:12]}…"
            )
        found[name] = decoded(folder / name, raw)
    return found


def read_files(folder: Path) -> dict[str, str]:
    """Return the files of a tokenizer in a folder, or in a GGUF file, as texts; raise DataError if it has none."""
    if is_gguf(folder):
        return texts_of(read_gguf(folder))
    found: dict[str, str] = {}
    for name in FILES:
        if name == FILES[0] or (folder / name).is_file():
            found[name] = decoded(folder / name, read_file(folder / name))
    return found


def read_file(path: Path, hint: str = "", most: int = MOST_BYTES) -> bytes:
    """Return the bytes of a file; raise DataError if it cannot be read or is too large."""
    try:
        with open_regular(path) as stream:
            raw = stream.read(most + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DataError(f"{path}: {reason}{hint}") from None
    if len(raw) > most:
        raise DataError(f"{path}: the file has more than {most} bytes, too many for such a file")
    return raw


def decoded(path: Path, raw: bytes) -> str:
    """Return bytes as text; raise DataError if they are no UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{path}: the file is no UTF-8") from None
