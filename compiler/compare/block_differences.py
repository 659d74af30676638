"""Differences of two blocks, one sentence a line.

Ops are compared by their definition and their operands, not by the names of their tensors. Names and ids depend on the
order in which a program was built, so changed ones are only counted. Types are listed only if they do not follow from
the types of operands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from compiler.compare.field_differences import changed, short
from compiler.compare.matched_ops import matched_ops, moved
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks.control import BLOCKS
from prograd_proto.text.values import attribute, type_of_tensor
from prograd_proto.text.words import LIFESPANS, OVERS, STAGES, enumerator, name, tensor
from prograd_proto.text.writing import source

Blocks = tuple[Sequence[pb.BlockDesc], Sequence[pb.BlockDesc]]
"""The blocks of two programs, to which ops refer by number."""


def block_differences(a: pb.BlockDesc, b: pb.BlockDesc, blocks: Blocks) -> Iterator[str]:
    """Return the lines, first about inputs, then about ops in their order, then about outputs.

    The blocks inside ops are compared in the same way, and their numbers are ignored; `blocks` has the blocks of both
    programs.
    """
    pair = _Pair(a, b, matched_ops(a.ops, b.ops), blocks)
    yield from _parameters(a, b)
    yield from _ops(pair)
    yield from _order(pair)
    yield from _names(pair)
    yield from _ends(pair)


@dataclass(frozen=True)
class _Pair:
    """Two blocks, and the correspondence of their ops."""

    a: pb.BlockDesc
    b: pb.BlockDesc
    ops: list[tuple[int, int]]
    blocks: Blocks

    def renamed(self) -> dict[str, str]:
        """Return the names in `b` of the tensors of `a` that have a counterpart."""
        sources = {_source(p): p.tensor for p in self.b.parameters}
        now = {p.tensor: sources[_source(p)] for p in self.a.parameters if _source(p) in sources}
        for i, j in self.ops:
            now.update(zip(self.a.ops[i].outputs, self.b.ops[j].outputs, strict=False))
        return now


def _parameters(a: pb.BlockDesc, b: pb.BlockDesc) -> Iterator[str]:
    types_a, types_b = ({t.name: t for t in block.tensors} for block in (a, b))
    by_source = {_source(p): p for p in b.parameters}
    for p in a.parameters:
        other = by_source.pop(_source(p), None)
        if other is None:
            yield f"{_from(p)} is no longer read"
            continue
        yield from changed(f"{_from(p)}:", _typed(types_a, p.tensor), _typed(types_b, other.tensor))
        yield from changed(f"{_from(p)}: its tensor", tensor(p.tensor), tensor(other.tensor))
        yield from changed(f"{_from(p)}: declared lifespan", *_lifespans(types_a, types_b, p.tensor, other.tensor))
    yield from (f"{_from(p)} is read" for p in by_source.values())


def _ops(pair: _Pair) -> Iterator[str]:
    """Return the removed, new and changed ops, in the order of the first block, new ones at their position."""
    partner = dict(pair.ops)
    new = set(range(len(pair.b.ops))) - set(partner.values())
    compare = _Comparison(pair)
    j = 0
    for i, op in enumerate(pair.a.ops):
        while j in new:
            yield f"{_op(pair.b.ops[j])} is new, at position {j + 1}"
            new.discard(j)
            j += 1
        if i not in partner:
            yield f"{_op(op)} is gone, from position {i + 1}"
            continue
        j = partner[i] + 1
        yield from compare.lines(op, pair.b.ops[partner[i]])
    yield from (f"{_op(pair.b.ops[j])} is new, at position {j + 1}" for j in sorted(new))


class _Comparison:
    """Comparison of matched ops."""

    def __init__(self, pair: _Pair) -> None:
        self._now, self._blocks = pair.renamed(), pair.blocks
        self._ids = {pair.a.ops[i].id: pair.b.ops[j].id for i, j in pair.ops}
        self._types_a, self._types_b = ({t.name: t for t in block.tensors} for block in (pair.a, pair.b))

    def lines(self, a: pb.OpDesc, b: pb.OpDesc) -> Iterator[str]:
        """Return the differences of an op, except for names."""
        what = f"{_op(a)}:"
        yield from changed(f"{what} type", name(a.type), name(b.type))
        yield from _attributes(what, a, b)
        reads = [self._now.get(each, each) for each in a.inputs]
        yield from changed(f"{what} reads", _listed(reads), _listed(b.inputs))
        yield from changed(f"{what} stage", enumerator("stage", a.stage, STAGES), enumerator("stage", b.stage, STAGES))
        of = self._ids.get(a.gradient_of, a.gradient_of)
        yield from changed(f"{what} helps to differentiate", _helped(of), _helped(b.gradient_of))
        again = self._ids.get(a.recompute_of, a.recompute_of)
        yield from changed(f"{what} repeats", _helped(again), _helped(b.recompute_of))
        yield from changed(f"{what} random stream", a.random_stream, b.random_stream)
        yield from changed(f"{what} blocks", len(a.blocks), len(b.blocks))
        yield from self._inside(what, a, b)
        yield from changed(f"{what} outputs", len(a.outputs), len(b.outputs))
        yield from self._tensors(what, a, b)

    def _inside(self, what: str, a: pb.OpDesc, b: pb.OpDesc) -> Iterator[str]:
        names = BLOCKS.get(a.type, ())
        for i, (one, other) in enumerate(zip(a.blocks, b.blocks, strict=False)):
            where = names[i] if i < len(names) else f"block {i}"
            inner = block_differences(self._blocks[0][one], self._blocks[1][other], self._blocks)
            yield from (f"{what} in its {where}: {line}" for line in inner)

    def _tensors(self, what: str, a: pb.OpDesc, b: pb.OpDesc) -> Iterator[str]:
        follows = [_typed(self._types_a, x) for x in a.inputs] != [_typed(self._types_b, x) for x in b.inputs]
        for old, new in zip(a.outputs, b.outputs, strict=False):
            if not follows:
                yield from changed(f"{what} gives", _typed(self._types_a, old), _typed(self._types_b, new))
            yield from changed(f"{what} declared lifespan", *_lifespans(self._types_a, self._types_b, old, new))
            before, after = _gradient(self._types_a, old), _gradient(self._types_b, new)
            before = self._now.get(before, before)
            yield from changed(
                f"{what} is the gradient of", _listed([before] * bool(before)), _listed([after] * bool(after))
            )


def _attributes(what: str, a: pb.OpDesc, b: pb.OpDesc) -> Iterator[str]:
    before, after = ({each.name: attribute(each) for each in op.attributes} for op in (a, b))
    for key in dict.fromkeys([*before, *after]):
        yield from changed(f"{what} attribute", before.get(key, f"no {name(key)}"), after.get(key, f"no {name(key)}"))
    if before.keys() == after.keys():
        yield from changed(f"{what} attributes, in order:", *(", ".join(map(name, each)) for each in (before, after)))


def _order(pair: _Pair) -> Iterator[str]:
    for i, j in moved(pair.ops):
        yield f"{_op(pair.a.ops[i])} moved from position {i + 1} to {j + 1}"


def _names(pair: _Pair) -> Iterator[str]:
    both = [(pair.a.ops[i], pair.b.ops[j]) for i, j in pair.ops]
    others = sum((a.id, *a.outputs) != (b.id, *b.outputs) for a, b in both)
    if others:
        yield f"{others} of {len(both)} ops have other ids or names"


def _ends(pair: _Pair) -> Iterator[str]:
    now = pair.renamed()
    updates_a = {u.state: tensor(now.get(u.tensor, u.tensor)) for u in pair.a.updates}
    updates_b = {u.state: tensor(u.tensor) for u in pair.b.updates}
    yield from _ends_of("update of", updates_a, updates_b)
    fetches_a = {f.name: f"{tensor(now.get(f.tensor, f.tensor))}{_over(f)}" for f in pair.a.fetches}
    fetches_b = {f.name: f"{tensor(f.tensor)}{_over(f)}" for f in pair.b.fetches}
    yield from _ends_of("fetch", fetches_a, fetches_b)
    yield from changed("results:", _listed([now.get(r, r) for r in pair.a.results]), _listed(pair.b.results))


def _ends_of(what: str, a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[str]:
    for key in dict.fromkeys([*a, *b]):
        yield from changed(f"{what} {name(key)}:", a.get(key, "none"), b.get(key, "none"))
    if set(a) == set(b):
        yield from changed(f"{what}, in order:", ", ".join(map(name, a)), ", ".join(map(name, b)))


def _op(op: pb.OpDesc) -> str:
    return f"op {op.id} {name(op.type)}"


def _source(parameter: pb.ParameterDesc) -> str:
    return source(parameter) or parameter.tensor


def _from(parameter: pb.ParameterDesc) -> str:
    return source(parameter).removeprefix(" <- ") or tensor(parameter.tensor)


def _typed(types: Mapping[str, pb.TensorDesc], key: str) -> str:
    return type_of_tensor(types[key]) if key in types else "nothing"


def _lifespans(a: Mapping[str, pb.TensorDesc], b: Mapping[str, pb.TensorDesc], old: str, new: str) -> tuple[str, str]:
    numbers = [types[key].lifespan if key in types else 0 for types, key in ((a, old), (b, new))]
    before, after = (enumerator("lifespan", number, LIFESPANS) if number else "none" for number in numbers)
    return before, after


def _gradient(types: Mapping[str, pb.TensorDesc], key: str) -> str:
    return types[key].gradient_of if key in types else ""


def _listed(names: Sequence[str] | Mapping[str, str]) -> str:
    return short(", ".join(map(tensor, names)) or "nothing")


def _helped(number: int) -> str:
    return f"op {number}" if number else "no op"


def _over(fetch: pb.FetchDesc) -> str:
    return f", {enumerator('over', fetch.over, OVERS)}" if fetch.over else ""
