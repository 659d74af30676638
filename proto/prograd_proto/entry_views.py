"""Entries for prompts and notebooks: feeds, fetches and compiled sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prograd_proto import program_pb2 as pb
from prograd_proto.spelling import closest_and_all
from prograd_proto.tensor_types import TensorType, type_of


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
