"""The run of a template of Jinja within limits: no attribute of Python's, a bound on its time and on what it writes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from threading import get_ident
from time import monotonic
from typing import Any, Final, NoReturn

from runtime.extras import extra
from runtime.memory.limit import resident

Fail = Callable[[str, "int | None"], NoReturn]
"""Raises the error of a template: what is wrong, and the line, if it is known."""

MOST_SECONDS: Final = 5.0
"""Time that a template may take for a conversation."""

MOST_CHARACTERS: Final = 1 << 24
"""Characters that it may write."""

MOST_BYTES: Final = 1 << 28
"""Memory that it may take, 256 MiB, where the system tells."""

MOST_POWER: Final = 64
"""The largest exponent."""

_WIDENING: Final = frozenset(("center", "expandtabs", "format", "format_map", "ljust", "rjust", "zfill"))
"""Methods of texts that pad to any width."""


class _TooLong(BaseException):
    """The template takes too long; no `except Exception` in Jinja catches it."""


class _TooLarge(BaseException):
    """The template takes too much memory."""


class _Refused(Exception):
    """The message that a template raises by `raise_exception`."""


@cache
def _room() -> Any:
    """Return Jinja's sandbox without the ways to make a text of any size at once."""
    jinja2 = extra("jinja2", "lm", "a chat template")
    sandbox = extra("jinja2.sandbox", "lm", "a chat template").ImmutableSandboxedEnvironment
    nodes, extension = extra("jinja2.nodes", "lm", "a chat template"), extra("jinja2.ext", "lm", "a chat template")

    class Room(sandbox):  # a class of Jinja's
        """A sandbox whose products, powers and remainders are of numbers."""

        intercepted_binops = frozenset(("*", "**", "%"))

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            """Return True for an attribute that a template may read."""
            return super().is_safe_attribute(obj, attr, value) and not (isinstance(obj, str) and attr in _WIDENING)

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            """Compute a product, a power or a remainder."""
            if not all(isinstance(each, int | float) and abs(each) < MOST_CHARACTERS for each in (left, right)):
                raise _Refused(f"{operator} is for numbers below {MOST_CHARACTERS}")
            if operator == "**" and right > MOST_POWER:
                raise _Refused(f"a power above {MOST_POWER}")
            return super().call_binop(context, operator, left, right)

    class Generation(extension.Extension):  # another
        """The tag `generation`, with which templates mark the words of an assistant; it changes no text."""

        tags = frozenset(("generation",))

        def parse(self, parser: Any) -> Any:
            """Return the body of the tag as it is."""
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return nodes.CallBlock(self.call_method("same"), [], [], body).set_lineno(line)

        def same(self, caller: Callable[[], str]) -> str:
            """Return the body."""
            return caller()

    room = Room(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation])
    for name in ("center", "format", "indent", "wordwrap"):
        del room.filters[name]
    room.filters["tojson"] = _as_json
    room.globals["raise_exception"] = _refuse
    room.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return room, jinja2


def compiled(text: str, fail: Fail) -> Any:
    """Return a compiled template; call `fail` for an invalid template."""
    room, jinja2 = _room()
    try:
        return room.from_string(text)
    except jinja2.TemplateSyntaxError as error:
        fail(str(error.message), error.lineno)
    except (jinja2.TemplateError, RecursionError, MemoryError, ValueError) as error:
        fail(str(error) or type(error).__name__, None)


def rendered(template: Any, given: Mapping[str, Any], fail: Fail) -> str:
    """Return what a template writes; call `fail` if it refuses, fails, writes too much or takes too long."""
    failures = (_room()[1].TemplateError, RecursionError, MemoryError)
    parts: list[str] = []
    size = 0
    try:
        with _limited():
            for part in template.generate(**given):
                parts.append(part)
                size += len(part)
                if size > MOST_CHARACTERS:
                    fail(f"it writes more than {MOST_CHARACTERS} characters", None)
    except _TooLong:
        fail(f"it takes longer than {MOST_SECONDS:g} s", None)
    except _TooLarge:
        fail(f"it takes more than {MOST_BYTES >> 20} MiB", None)
    except _Refused as error:
        fail(f"it refuses the conversation: {error}", None)
    except failures as error:
        fail(f"it fails: {str(error) or type(error).__name__}", _line(error))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        fail(f"it fails: {type(error).__name__}: {error}", _line(error))
    return "".join(parts)


@contextmanager
def _limited() -> Generator[None]:
    """Raise _TooLong or _TooLarge in this thread once a template has taken its share: a trace looks at each line."""
    end, before, thread = monotonic() + MOST_SECONDS, sys.gettrace(), get_ident()
    most = resident() + MOST_BYTES

    def look(frame: Any, event: str, argument: Any) -> Any:
        if get_ident() == thread:
            if monotonic() > end:
                raise _TooLong
            if frame.f_code.co_filename == "<template>" and resident() > most:
                raise _TooLarge
        return look

    sys.settrace(look)
    try:
        yield
    finally:
        sys.settrace(before)


def _refuse(message: str) -> NoReturn:
    raise _Refused(str(message))


def _as_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **rest: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)


def _line(error: BaseException) -> int | None:
    """Return the line of the template at which an error was raised."""
    trace, line = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
