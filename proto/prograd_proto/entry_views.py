"""Entries for prompts and notebooks: feeds, fetches and compiled sizes; and the spellings of imported names.

An import stores each name that it replaced as a text of the model: the key `name x_y` has the text `x/y`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from prograd_proto import program_pb2 as pb
from prograd_proto.spelling import closest_and_all
from prograd_proto.tensor_types import TensorType, type_of

T = TypeVar("T")

SPELLING_KEY: Final = "name "
"""Start of the keys of replaced names, before the name in the program."""

STRINGS_KEY: Final = "strings"
"""Key of the text with the strings of an imported model by their codes, as a list in JSON."""


@dataclass(frozen=True)
class EntryView:
    """One entry: feeds and their types by name, the names of fetches, and the sizes of every binding by symbol."""

    name: str
    feeds: dict[str, TensorType]
    fetches: tuple[str, ...]
    sizes: tuple[dict[str, int], ...]

    def __repr__(self) -> str:
        fed = ", ".join(f"{name} {type}" for name, type in self.feeds.items())
        sizes = " or ".join(_shown(sizes) for sizes in self.sizes if sizes)
        return (
            f"<Entry {self.name!r}: feeds {fed or 'none'}; fetches {', '.join(self.fetches) or 'none'}"
            f"{f'; {sizes}' if sizes else ''}>"
        )


class Entries(Mapping[str, EntryView]):
    """The entries of a program by name, in their order."""

    def __init__(self, program: pb.ProgramDesc) -> None:
        self._views = {entry.name: _view(program, entry) for entry in program.entries}

    def __repr__(self) -> str:
        return "\n".join(["entries", *(f"  {view!r}" for view in self._views.values())])

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._views)

    def __getitem__(self, name: str) -> EntryView:
        if name not in self._views:
            raise KeyError(f"there is no entry {name!r}{closest_and_all(name, self._views)}")
        return self._views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)


def _view(program: pb.ProgramDesc, entry: pb.EntryDesc) -> EntryView:
    block = program.blocks[entry.source_block]
    types = {tensor.name: type_of(tensor) for tensor in block.tensors}
    feeds = {p.feed: types[p.tensor] for p in block.parameters if p.WhichOneof("source") == "feed"}
    sizes = tuple({dim.symbol: dim.size for dim in binding.dims} for binding in entry.bindings)
    return EntryView(entry.name, feeds, tuple(fetch.name for fetch in block.fetches), sizes)


def _shown(sizes: Mapping[str, int]) -> str:
    return " ".join(f"{symbol}={size}" for symbol, size in sizes.items())


class SpelledNames:
    """The names of a program's feeds and fetches by the spellings of the file that it was imported from."""

    def __init__(self, program: pb.ProgramDesc) -> None:
        """Read the texts of the model. A spelling that several have, or that is a name of the program, is left out."""
        self._own: dict[str, str] = {}
        named = {
            each.key.removeprefix(SPELLING_KEY): each.text
            for each in program.model
            if each.key.startswith(SPELLING_KEY)
        }
        if not named:
            return
        known = {p.feed for block in program.blocks for p in block.parameters if p.HasField("feed")}
        known |= {fetch.name for block in program.blocks for fetch in block.fetches}
        found = {name: text for name, text in named.items() if name in known and text not in known}
        counts = Counter(found.values())
        self._own = {text: name for name, text in found.items() if counts[text] == 1}

    def own(self, name: str) -> str:
        """Return the name in the program for a spelling of the file, any other name as it is."""
        return self._own.get(name, name)

    def keys(self, given: Mapping[str, T]) -> Mapping[str, T]:
        """Return a mapping with the names of the program as keys; raise ValueError if two keys are of one name."""
        if not self._own or self._own.keys().isdisjoint(given):
            return given
        made: dict[str, T] = {}
        for name, value in given.items():
            own = self.own(name)
            if own in made:
                spelled = next((text for text, known in self._own.items() if known == own), own)
                raise ValueError(f"{own!r} is given twice, also as {spelled!r}; give it by one name")
            made[own] = value
        return made

    def __bool__(self) -> bool:
        """Return True if an import replaced a name."""
        return bool(self._own)


NO_NAMES: Final = SpelledNames(pb.ProgramDesc())
"""The names of a program that was not imported."""
