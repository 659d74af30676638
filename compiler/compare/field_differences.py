"""Differences of two messages or values, one sentence a line: `w: trainable: true -> false`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, TypeVar

from prograd_proto.text.words import quoted, real

M = TypeVar("M")
Message = Any
Field = Any
"""A FieldDescriptor; protobuf has two classes of that name."""

LONGEST = 100
"""Upper bound on the characters of a value; a longer one is truncated."""


def changed(what: str, a: object, b: object) -> Iterator[str]:
    """Return `what a -> b`, if the two differ."""
    if a != b:
        yield f"{what} {short(str(a))} -> {short(str(b))}"


def short(text: str) -> str:
    """Return the text, or its beginning and its length."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 40]}… ({len(text)} letters)"


def field_differences(what: str, a: Message, b: Message, skip: Collection[str] = ()) -> Iterator[str]:
    """Return every field that differs; messages and lists in it are compared whole."""
    for field in a.DESCRIPTOR.fields:
        if field.name not in skip:
            yield from changed(f"{what}{field.name.replace('_', ' ')}:", _value(a, field), _value(b, field))


def by_key(
    what: str,
    a: Iterable[M],
    b: Iterable[M],
    key: Callable[[M], str],
    lines: Callable[[M, M], Iterator[str]] | None = None,
) -> Iterator[str]:
    """Return the removed and new items of two lists by key, the lines of the common ones, and the order.

    By default the lines are the fields that differ.
    """
    before, after = ({key(item): item for item in items} for items in (a, b))
    for word in dict.fromkeys([*before, *after]):
        if word not in after:
            yield f"{what} {word} is gone"
        elif word not in before:
            yield f"{what} {word} is new"
        elif lines:
            yield from lines(before[word], after[word])
        else:
            yield from field_differences(f"{what} {word}: ", before[word], after[word])
    both = [[word for word in words if word in before and word in after] for words in (before, after)]
    yield from changed(f"{what}s, in order:", ", ".join(both[0]), ", ".join(both[1]))


def _value(message: Message, field: Field) -> str:
    value: Any = getattr(message, field.name)
    if hasattr(value, "append"):  # older protobufs have another name for a repeated field
        return f"[{', '.join(_item(item, field) for item in value)}]"
    return "none" if field.has_presence and not message.HasField(field.name) else _item(value, field)


def _item(value: Any, field: Field) -> str:
    if hasattr(value, "ListFields"):
        return ", ".join(f"{f.name} {_value(value, f)}" for f, _ in value.ListFields()) or "empty"
    if field.enum_type is not None and value in field.enum_type.values_by_number:
        return field.enum_type.values_by_number[value].name.removeprefix(_prefix(field)).lower()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, str):
        return quoted(value)
    return real(value) if isinstance(value, float) else str(value)


def _prefix(field: Field) -> str:
    """Return the common prefix of the enumerators of a field, `STATE_KIND_`."""
    return "".join(f"_{c}" if c.isupper() else c for c in field.enum_type.name).lstrip("_").upper() + "_"
