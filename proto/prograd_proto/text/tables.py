"""Two tables of a program that its text inlines: tensors at their definitions, locations at ops."""

from collections.abc import Iterable, Iterator
from itertools import chain

from prograd_proto import program_pb2 as pb
from prograd_proto.errors import ProgramError
from prograd_proto.files import copy_of
from prograd_proto.text.values import typed
from prograd_proto.text.words import place, tensor

NAMES_A_LINE = 8


class Definitions:
    """The tensors of a block while its lines are written, each typed at its first definition."""

    def __init__(self, tensors: Iterable[pb.TensorDesc] = ()) -> None:
        self._tensors = list(tensors)
        self._left = {desc.name: desc for desc in self._tensors}
        self._order: list[str] = []
        self._are_distinct = len(self._left) == len(self._tensors)
        if not self._are_distinct:  # names are ambiguous then, so each tensor has a line of its own
            self._left.clear()

    def at(self, name: str) -> str:
        """Return the tensor at a definition, with its type if it is the first definition and there is one."""
        desc = self._left.pop(name, None)
        if desc is None:
            return tensor(name)
        self._order.append(name)
        return typed(desc)

    def rest(self) -> Iterator[str]:
        """Return lines, after the last definition, for undefined tensors and for a different order."""
        rest = list(self._left.values()) if self._are_distinct else self._tensors
        yield from (f"  tensor {typed(desc)}" for desc in rest)
        order = [desc.name for desc in self._tensors]
        if self._are_distinct and order != self._order + [desc.name for desc in rest]:
            for start in range(0, len(order), NAMES_A_LINE):
                yield f"  order {', '.join(map(tensor, order[start : start + NAMES_A_LINE]))}"


def reorder(block: pb.BlockDesc, names: list[str]) -> None:
    """Put the tensors of a block into the order of its text; raise ProgramError if it lists others."""
    descs = {desc.name: desc for desc in map(copy_of, block.tensors)}  # those in a block die with its list
    if sorted(names) != sorted(desc.name for desc in block.tensors) or len(descs) != len(names):
        raise ProgramError("the order lists each tensor of the block once; these are others")
    del block.tensors[:]
    block.tensors.extend(descs[name] for name in names)


class Locations:
    """The user's lines while a program is written."""

    def __init__(self, program: pb.ProgramDesc) -> None:
        self._locations = list(program.locations)
        self._first = {text: number for number, text in reversed([*enumerate(self._locations, 1)])}
        ops = chain((state.op for state in program.states), *(block.ops for block in program.blocks))
        met = list(dict.fromkeys(op.location for op in ops if op.location))
        self._are_in_order = met == list(range(1, len(self._locations) + 1)) == sorted(self._first.values())

    def word(self, number: int) -> str:
        """Return an op's location, its number if only that is unambiguous, or "" if it has none."""
        if not number:
            return ""
        text = self._locations[number - 1] if number <= len(self._locations) else None
        return place(text) if text is not None and self._first[text] == number else f"location #{number}"

    def lines(self) -> list[str]:
        """Return the whole table, or nothing if the ops mention all of it in its order."""
        return [] if self._are_in_order else [f"location {place(text)}" for text in self._locations]
