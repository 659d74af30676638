"""Symbols of several inputs that stand for one size, although the file gives it several names.

Exporters give the sizes of each input names of their own. Where a node of the model needs two of them to be equal, as
the numbers of rows of two inputs that are added, the import takes them for one symbol. Feeds of unequal sizes are
refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

Shapes = Mapping[str, Sequence[int | str]]
"""Shapes by the names of inputs; an extent is a number or a symbol."""


def equalities(shapes: Shapes) -> Iterator[dict[str, str]]:
    """Yield candidates, as the symbol that replaces each other one: first for axis 0, then for all axes."""
    last = dict[str, str]()
    for axes in (1, max(map(len, shapes.values()), default=0)):
        same = dict[str, str]()
        for axis in range(axes):
            symbols = [shape[axis] for shape in shapes.values() if axis < len(shape)]
            names = list(dict.fromkeys(same.get(each, each) for each in symbols if isinstance(each, str)))
            same.update((each, names[0]) for each in names[1:] if each not in same.values())
        if same and same != last:
            last = same
            yield same


def told(same: Mapping[str, str]) -> str:
    """Return a sentence about symbols that are one."""
    pairs = ", ".join(f"{other!r} is {symbol!r}" for other, symbol in same.items())
    return (
        f"inputs have sizes of several names that nodes need to be equal: {pairs}; feeds of unequal sizes are refused"
    )
