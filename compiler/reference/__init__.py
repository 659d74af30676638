"""The operator reference, generated from the registry: `compiler ops --markdown > docs/ops.md`.

operand_types  the dtypes of an operator's operands and results
passes         the page about passes, generated from their tables
frameworks     the pages about operators of other frameworks, generated from the tables of front ends and exporters
"""

from __future__ import annotations

import dis
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby
from textwrap import fill
from typing import Any, cast

from compiler.reference.operand_types import DTYPES, DtypeRule, DtypeRules, dtype_rules
from prograd_proto.plugins import namespace_of
from registry import OPS, STATE, Op
from registry.op import rule_names
from registry.signature import AttributeSpec
from registry.table import SPELLED

HEAD = """\
# Operators

Made by `compiler ops --markdown > docs/ops.md`; the declarations in `registry/ops/` are the place to edit. In Python
they are `compiler.ops.<name>`.

* Before the star stand tensors: an `Operand` is a tensor or a Python number, `Value | None` may be left out, `= STATE`
  is the program's state of that name unless another tensor is given. After the star stand attributes, after the arrow
  the names of the outputs.
* An `Axis` is one axis or a tuple of them, `Numbers` are a number for each axis or one for all, and a `Ratio` is a
  float. A `Pair` is (vertical, horizontal), or one number for both, as in `window=2`. `Edges` are (top, left, bottom,
  right), or (vertical, horizontal), or one number for all four. One number also stands for all elements of another
  tuple that has a default, and for a shape.
  Where a file has another name for an attribute, the text says so.
* *Types* are the dtypes that inputs, attributes and outputs may have, and which of them have the same, found by asking
  the operator's own inference; where another value of an attribute allows fewer, the text says so. Nothing is promoted:
  a Python number takes the dtype of the tensor beside it, and `cast` converts tensors.
* *Gradient* names the inputs into which a gradient flows if they are float32 or float64. To compute it, the rule names
  only the tensors after *from*: nothing else stays alive for the backward pass, and of some only the shape is wanted.
* *Checked to order n*: the tests hold the gradient, the gradient's gradient and so on, n times, to central differences
  in float64, on every differentiable sample of the operator.
* What is *spelled with other operators* is a function that appends them: it has no kernel, a file has the others in
  its place, and gradients go through those. The arrow points to what it gives.
* Versions are 1 unless said otherwise.
"""


CHECKED_ORDER = 3
"""Highest order of derivatives that the tests compare with differences, unless a sample has another one."""

LINE_CHARACTERS = 160
"""Longest line of the reference."""

Entry = Op[..., Any] | Callable[..., Any]
"""An operator, or a function composed of operators."""


def reference() -> str:
    """Return the reference as Markdown: operators by family, each followed by functions composed of them."""
    entries: list[Entry] = sorted([*OPS.values(), *SPELLED.values()], key=_family)
    families = [(family, list(group)) for family, group in groupby(entries, key=_family)]
    contents = [
        _wrapped(f"* [{family}](#{family}) ({len(group)}): {', '.join(f'`{_name(entry)}`' for entry in group)}", "  ")
        for family, group in families
    ]
    sections = [line for family, group in families for line in _section(family, group)]
    return "\n".join([HEAD, *_counts(len(families)), *contents, *sections]) + "\n"


def _counts(families: int) -> Iterator[str]:
    differentiable = sum(op.gradient_rule is not None for op in OPS.values())
    yield f"{len(OPS)} operators and {len(SPELLED)} functions that are spelled with them, in {families} families."
    yield f"{differentiable} of the operators have a gradient, which is checked to order {CHECKED_ORDER}."
    yield ""


def _section(family: str, entries: list[Entry]) -> Iterator[str]:
    yield from ("", f"## {family}", "", _prose(sys.modules[_module(entries[0])].__doc__))
    for entry in entries:
        call = _wrapped(re.sub(r"(?<!,) ", "\0", f"    {signature(entry)}"), " " * 8)
        yield from ("", f"### `{_name(entry)}`", "", call, "", _prose(entry.__doc__), "")
        remarks = _remarks(OPS[entry.name]) if isinstance(entry, Op) else ["*Spelled with other operators.*"]
        yield _wrapped(" ".join(remarks))


def signature(entry: Entry) -> str:
    """Return the call of an operator with the names of its outputs, or that of a function with its result."""
    return _op_signature(OPS[entry.name]) if isinstance(entry, Op) else _function_signature(entry)


def _op_signature(op: Op[..., Any]) -> str:
    inputs = [_input(op, position) for position in range(len(op.signature.inputs))]
    attributes = [_attribute(op, spec.parameter, spec) for spec in op.signature.attributes.values()]
    star = ["*"] if attributes and not op.signature.variadic else []
    outputs = ", ".join(op.signature.outputs) + (" ..." if op.signature.variadic_outputs else "")
    return f"{op.name}({', '.join([*inputs, *star, *attributes])}) -> {outputs}"


def _function_signature(function: Callable[..., Any]) -> str:
    shown: list[str] = []
    star = False
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            name, star = f"*{name}", True
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            shown.append("*")
            star = True
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        shown.append(f"{name}: {parameter.annotation}{default}")
    return f"{function.__name__}({', '.join(shown)}) -> {function.__annotations__['return']}"


def _remarks(op: Op[..., Any]) -> Iterator[str]:
    rules = dtype_rules(op)
    if rules is not None:
        yield f"*Types*: {'; '.join(_types(op, rules))}."
    yield _gradient(op)
    closed = [name for name in op.signature.outputs if name in op.no_gradient]
    if closed:
        yield f"No loss may depend on {_names(closed)}."
    if op.inference_rule is not None:
        yield "Has another form outside training."
    if op.random:
        yield "Draws random numbers from a stream of its own."
    if op.version != 1:
        yield f"Version {op.version}."
    for name, spec in op.signature.attributes.items():
        if name != spec.parameter:
            yield f"Files call `{spec.parameter}` `{name}`."


def _types(op: Op[..., Any], rules: DtypeRules) -> Iterator[str]:
    """Return names with their dtypes, grouped if they have the same ones."""
    shown = [*rules.operands, *rules.attributes, *rules.outputs]
    names = [rule.name.partition("[")[0] for rule in shown]
    told: dict[str, dict[str, None]] = {}
    for i, rule in enumerate(shown):
        words = _dtype_words(rule, shown)
        if op.signature.variadic and i == len(rules.operands) - 1:
            told[f"{_dtype_words(shown[i - 1], shown)}{', all alike' if rule.like == i - 1 else ''}"] = {names[i]: None}
        elif not (op.signature.variadic and i == len(rules.operands) - 2):
            told.setdefault(words, {})[names[i]] = None
    return (f"{_names([*group])} {words}" for words, group in told.items())


def _dtype_words(rule: DtypeRule, rules: Sequence[DtypeRule]) -> str:
    if rule.like is None:
        return _either(rule.among)
    other = f"as `{rules[rule.like].name.partition('[')[0]}`"
    if not rule.among:
        return other
    if not rule.unlike and rule.beside < rules[rule.like].among:
        return f"{other}, or {_either(rule.among)} beside {_listed([d for d in DTYPES if d in rule.beside], 'and')}"
    if not rule.unlike:
        return f"{_either(rule.among)} or {other}"
    without = _listed([d for d in DTYPES if d in rule.unlike], "and")
    if rule.instead:
        return f"{_either(rule.among)} or {other}, but {_either(rule.among | rule.instead)} for {without}"
    return f"{other}, but {_either(rule.among)} for {without}"


def _either(dtypes: Collection[str]) -> str:
    """Return these dtypes as text, or "all but" the others if that is shorter."""
    without = [dtype for dtype in DTYPES if dtype not in dtypes]
    if len(without) > 2:
        return _listed([dtype for dtype in DTYPES if dtype in dtypes], "or")
    return f"any but {_listed(without, 'and')}" if without else "any"


def _listed(words: list[str], last: str) -> str:
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _gradient(op: Op[..., Any]) -> str:
    if not op.differentiable:
        return "*Gradient*: declared to have none."
    inputs = [name for name in op.signature.inputs if name not in op.no_gradient]
    if not inputs:
        return "*Gradient*: declared to stop here."
    if op.gradient_rule is None:
        return "*Gradient*: no rule yet."
    used = _used(op.gradient_rule)
    if not used:
        return "*Gradient*: 0 everywhere."
    inputs = [name for name in inputs if name not in _never(op, op.gradient_rule)]
    read = [name for name in used if name not in op.signature.attributes and name != "random_stream"]
    return f"*Gradient*: {_names(inputs)}, from {_names(read)}. {_checked(op)}"


def _checked(op: Op[..., Any]) -> str:
    layer = op.traits.checked_through
    return f"Checked to order {CHECKED_ORDER}." if not layer else f"Checked as the gradient of `{layer}`."


def _used(rule: Callable[..., Any]) -> list[str]:
    """Return the parameters that the body of a rule mentions; some rules need only some of their parameters."""
    loaded: list[Any] = [instruction.argval for instruction in dis.get_instructions(rule)]
    loaded += [name for names in loaded if isinstance(names, tuple) for name in cast("tuple[Any, ...]", names)]
    return [name for name in rule_names(rule) if name in loaded]


def _never(op: Op[..., Any], rule: Callable[..., Any]) -> set[str]:
    """Return the inputs whose gradient is None by the rule's annotation, such as indices."""
    returned = str(rule.__annotations__.get("return", ""))
    parts = returned.removeprefix("tuple[").removesuffix("]").split(", ")
    return {name for name, part in zip(op.signature.inputs, parts, strict=False) if part == "None"}


def _input(op: Op[..., Any], position: int) -> str:
    name = op.signature.inputs[position]
    annotation = op.declaration.__annotations__[name]
    if op.signature.variadic and position == len(op.signature.inputs) - 1:
        return f"*{name}: {annotation}"
    default = op.signature.defaults.get(name, op)
    if default is op:
        return f"{name}: {annotation}"
    return f"{name}: {annotation} = {'STATE' if default is STATE else default}"


def _attribute(op: Op[..., Any], name: str, spec: AttributeSpec) -> str:
    shown = f"{name}: {op.declaration.__annotations__[name]}"
    return shown if spec.required else f"{shown} = {spec.default!r}"


def _prose(doc: str | None) -> str:
    """Return a docstring as paragraphs of lines of at most `LINE_CHARACTERS`."""
    paragraphs = (doc or "").strip().split("\n\n")
    return "\n\n".join(_wrapped(" ".join(paragraph.split())) for paragraph in paragraphs)


def _wrapped(text: str, indent: str = "") -> str:
    """Return text as lines of at most `LINE_CHARACTERS`, of which none begins with a mark of Markdown."""
    joined = re.sub(r"(?<=\S) (?=[-+*=>#|~] |\d+[.)] )", "\0", text)
    lines = fill(joined, LINE_CHARACTERS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return lines.replace("\0", " ")


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _name(entry: Entry) -> str:
    return entry.name if isinstance(entry, Op) else entry.__name__


def _module(entry: Entry) -> str:
    return entry.declaration.__module__ if isinstance(entry, Op) else entry.__module__


def _family(entry: Entry) -> str:
    return namespace_of(_name(entry)) or _module(entry).rpartition(".")[2]
