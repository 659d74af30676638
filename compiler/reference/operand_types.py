"""The dtypes of an operator's operands and results, found by calling its inference with small operands.

1. Find one call that inference accepts: all operands of one small shape, or those of the operator's `example`; for
   each a dtype.
2. Try other dtypes: every combination for up to three operands; for more, change all operands of one dtype together,
   and one operand alone.
3. Derive a rule for each operand in turn: certain dtypes, the dtype of an earlier operand, or either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from prograd_proto import Attribute, TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import ITEM_BYTES, NUMBERS
from prograd_proto.tensor_types import Shape
from registry import Op, OpError

DTYPES = tuple(ITEM_BYTES)
PRODUCT = 3
"""Upper bound on the operands for which every combination of dtypes is tried."""

Dtypes = tuple[str, ...]


@dataclass(frozen=True)
class DtypeRule:
    """A rule for one dtype: it is one of a set, or equal to that of an earlier item.

    Attributes:
        name: of an input, an attribute or an output.
        among: dtypes that it may have; whatever the others are, if it is like none.
        like: the position of an earlier item whose dtype it has too, None if there is none.
        beside: dtypes of that earlier item beside which it may have one of `among`.
        unlike: those of them that it cannot have; it then has one of `among` or of `instead`.
        instead: further dtypes that it may have beside one of `unlike`.
    """

    name: str
    among: frozenset[str]
    like: int | None = None
    beside: frozenset[str] = frozenset()
    unlike: frozenset[str] = frozenset()
    instead: frozenset[str] = frozenset()

    def accepts(self, dtype: str, before: Dtypes) -> bool:
        """Return True if the item may have that dtype, after those."""
        if self.like is None:
            return dtype in self.among
        other = before[self.like]
        if other in self.unlike:
            return dtype in self.among or dtype in self.instead
        return dtype == other or (dtype in self.among and other in self.beside)


@dataclass(frozen=True)
class DtypeRules:
    """The dtypes of an operator: a rule for each operand, each dtype attribute and each output.

    Attributes:
        operands: of inputs, in order; a variadic one stands twice.
        attributes: of attributes that are a dtype or a tensor.
        outputs: of results, which follow from the operands and attributes.
    """

    operands: tuple[DtypeRule, ...]
    attributes: tuple[DtypeRule, ...]
    outputs: tuple[DtypeRule, ...]

    def accept(self, dtypes: Dtypes) -> bool:
        """Return True if operands and attributes may have these dtypes."""
        rules = (*self.operands, *self.attributes)
        return all(rule.accepts(dtypes[i], dtypes[:i]) for i, rule in enumerate(rules))


@dataclass(frozen=True)
class Call:
    """A call without dtypes: the shapes of operands, and attributes that are neither a dtype nor a tensor."""

    op: Op[..., Any]
    shapes: tuple[Shape, ...]
    attributes: dict[str, Attribute]

    @property
    def names(self) -> list[str]:
        """Return the names of items with a dtype to choose: operands, and attributes that are a dtype or a tensor."""
        return [*self.op.signature.flat_input_names(len(self.shapes)), *_dtype_attributes(self.op)]

    def outputs(self, dtypes: Dtypes) -> Dtypes | None:
        """Return the dtypes of the results, None if inference refuses the call."""
        count = len(self.shapes)
        inputs = [TensorType(dtype, shape) for dtype, shape in zip(dtypes[:count], self.shapes, strict=True)]
        kinds = self.op.signature.attributes
        chosen = {
            name: dtype if kinds[name].kind == "dtype" else _zero(dtype)
            for name, dtype in zip(_dtype_attributes(self.op), dtypes[count:], strict=True)
        }
        try:
            made = self.op.infer_types(list(inputs), self.attributes | chosen)
        except OpError:
            return None
        return tuple(type.dtype for type in made)


def dtype_rules(op: Op[..., Any]) -> DtypeRules | None:
    """Return the dtypes of an operator; None if no accepted call is found, or no rules fit."""
    for call in _calls(op):
        for start in _starts(len(call.names)):
            if call.outputs(start) is not None:
                return _rules(call, start)
    return None


def _rules(call: Call, start: Dtypes) -> DtypeRules | None:
    found = {dtypes: call.outputs(dtypes) for dtypes in dict.fromkeys(_tried(start))}
    accepted = {dtypes: outputs for dtypes, outputs in found.items() if outputs is not None}
    count, names = len(call.shapes), call.names
    rules = [_rule(name, i, list(accepted)) for i, name in enumerate(names)]
    every = [(*dtypes, *outputs) for dtypes, outputs in accepted.items()]
    suffixes = call.op.signature.outputs if not call.op.signature.variadic_outputs else call.op.signature.outputs[:1]
    outputs = tuple(_rule(name, len(names) + i, every) for i, name in enumerate(suffixes))
    rules = DtypeRules(tuple(rules[:count]), tuple(rules[count:]), outputs)
    return rules if all(rules.accept(dtypes) == (dtypes in accepted) for dtypes in found) else None


def _tried(start: Dtypes) -> Iterator[Dtypes]:
    """Yield dtypes to try, derived from accepted ones."""
    if len(start) <= PRODUCT:
        yield from product(DTYPES, repeat=len(start))
        return
    places = {dtype: [i for i, other in enumerate(start) if other == dtype] for dtype in start}
    for chosen in product(DTYPES, repeat=len(places)):
        together = list(start)
        for dtype, own in zip(chosen, places.values(), strict=True):
            for i in own:
                together[i] = dtype
        yield tuple(together)
        for i, dtype in product(range(len(start)), DTYPES):
            yield (*together[:i], dtype, *together[i + 1 :])


def _rule(name: str, place: int, accepted: list[Dtypes]) -> DtypeRule:
    """Return the rule that fits the accepted dtypes; an output's dtype may be that of any operand or attribute."""
    values = [frozenset(dtypes[i] for dtypes in accepted) for i in range(place + 1)]
    rules = [DtypeRule(name, values[place])]
    for other in range(place):
        if len(values[other]) > 1:
            apart = [dtypes for dtypes in accepted if dtypes[place] != dtypes[other]]
            own, beside = (frozenset(dtypes[i] for dtypes in apart) for i in (place, other))
            same = frozenset(dtypes[place] for dtypes in accepted if dtypes[place] == dtypes[other])
            unlike = beside - same
            usual = frozenset(dtypes[place] for dtypes in apart if dtypes[other] not in unlike) or own
            rules.append(DtypeRule(name, usual, other, beside, unlike, own - usual))
    return min(rules, key=lambda rule: len(rule.among | rule.instead))


def _starts(count: int) -> Iterator[Dtypes]:
    """Yield one usual dtype for all operands, then a different one for one operand, then for two operands.

    Then each dtype for all operands.

    At last, all dtypes of the first and the last operand, with float32 between them.
    """
    usual: Dtypes = ("float32", "int64", "bool", "float64")
    for places in (places for size in range(3) for places in combinations(range(count), size)):
        for base, *others in product(usual, repeat=1 + len(places)):
            dtypes = [base] * count
            for place, dtype in zip(places, others, strict=True):
                dtypes[place] = dtype
            yield tuple(dtypes)
    yield from ((dtype,) * count for dtype in DTYPES)
    if count >= 2:
        yield from ((first, *["float32"] * (count - 2), last) for first, last in product(DTYPES, repeat=2))


def _calls(op: Op[..., Any]) -> Iterator[Call]:
    """Yield calls that inference may accept: the operator's example, or operands of one shape."""
    if op.traits.example is not None:
        yield Call(op, op.traits.example.shapes, _defaults(op) | op.traits.example.attributes)
        return
    count = len(op.signature.inputs) + op.signature.variadic
    for shape in SQUARES:
        required = {name: _guess(spec.kind, shape) for name, spec in op.signature.attributes.items() if spec.required}
        yield Call(op, (shape,) * count, _defaults(op) | required)


def _defaults(op: Op[..., Any]) -> dict[str, Attribute]:
    return {name: spec.default for name, spec in op.signature.attributes.items() if not spec.required}


def _dtype_attributes(op: Op[..., Any]) -> list[str]:
    return [name for name, spec in op.signature.attributes.items() if spec.kind in ("dtype", "tensor")]


def _guess(kind: str, shape: Shape) -> Attribute:
    """Return an attribute of that kind which is likely to be valid for operands of a shape."""
    guesses: dict[str, Attribute] = {"bool": False, "int": 1, "float": 1.0, "string": "", "dtype": "float32"}
    guesses |= {"shape": shape, "ints": (1,) * len(shape), "floats": (1.0,) * len(shape), "strings": ()}
    guesses["tensor"] = _zero("float32")
    return guesses[kind]


def _zero(dtype: str) -> pb.SmallTensor:
    return pb.SmallTensor(dtype=NUMBERS[dtype], data=bytes(ITEM_BYTES[dtype]))


SQUARES: tuple[Shape, ...] = ((2, 2), (), (2,), (2, 2, 2), (2, 2, 2, 2))
"""Common shapes of all operands of a call."""
