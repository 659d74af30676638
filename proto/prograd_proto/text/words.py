"""Tokens of the text form: names, strings, numbers and enumerators, and the line that they are read from."""

import json
import re
import struct
from collections.abc import Iterator
from typing import Any, Final

from prograd_proto import program_pb2 as pb
from prograd_proto.errors import ProgramError
from prograd_proto.printable import printable

BARE: Final = re.compile(r"[A-Za-z_./][A-Za-z0-9_./-]*")
PLACE: Final = re.compile(r"[A-Za-z_./][A-Za-z0-9_./-]*:[0-9]+")
TOKEN: Final = re.compile(
    r"""%?"(?:[^"\\]|\\.)*"             # a string, or a tensor of an odd name
    |   %[A-Za-z_./][A-Za-z0-9_./-]*    # a tensor
    |   0x[0-9a-f]*                     # bytes
    |   -?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?|-inf
    |   [A-Za-z_./][A-Za-z0-9_./-]*(?::[0-9]+)?
    |   <-
    |   \S""",
    re.VERBOSE,
)
NAN: Final = struct.pack(">d", float("nan"))

Words = dict[int, str]
"""Words of enumerators by number; the unspecified one, number 0, has no word."""

DTYPES: Final[Words] = {n: name.removeprefix("D_TYPE_").lower() for name, n in pb.DType.items() if n}
KINDS: Final[Words] = {n: name.removeprefix("STATE_KIND_").lower() for name, n in pb.StateKind.items() if n}
LIFESPANS: Final[Words] = {n: name.removeprefix("LIFESPAN_").lower() for name, n in pb.Lifespan.items() if n}
STAGES: Final[Words] = {n: name.removeprefix("STAGE_").lower() for name, n in pb.Stage.items() if n}
OVERS: Final[Words] = {n: name.removeprefix("OVER_").lower() for name, n in pb.Over.items() if n}
FORMATS: Final[Words] = {n: name.removeprefix("DATA_FORMAT_").lower() for name, n in pb.DataFormat.items() if n}
REMAINDERS: Final[Words] = {n: name.removeprefix("REMAINDER_").lower() for name, n in pb.Remainder.items() if n}
BFLOAT16_ORDERS: Final[Words] = {
    n: f"by_{name.removeprefix('BFLOAT16_ORDER_').lower()}" for name, n in pb.Bfloat16Order.items() if n
}
DIRECTIONS: Final[Words] = {n: name.removeprefix("DIRECTION_").lower() for name, n in pb.Direction.items() if n}


def quoted(text: str) -> str:
    """Return a string in quotes, on one line; the escapes are JSON's."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{printable(escaped)}"'


def name(text: str) -> str:
    """Return a name, in quotes only if it needs them."""
    return text if BARE.fullmatch(text) else quoted(text)


def tensor(text: str) -> str:
    """Return a tensor's name, `_` for the absent one."""
    return f"%{name(text)}" if text else "_"


def place(text: str) -> str:
    """Return a line of the user's source, in quotes unless it looks like `train.py:31`."""
    return text if PLACE.fullmatch(text) else quoted(text)


def real(value: float) -> str:
    """Return a double as text that reads back to the same bits and is no integer."""
    if value == value:
        return repr(value)
    bits = struct.pack(">d", value)
    return "nan" if bits == NAN else f"nan0x{bits.hex()}"


def enumerator(field: str, number: int, words: Words) -> str:
    """Return a clause: the word for `number`, or the field and the number if there is none."""
    return words.get(number) or f"{field} #{number}"


class Line:
    """The words of one line and the reading position. Unexpected words raise ProgramError."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = TOKEN.findall(text)
        self._tokens.append("")  # the end of the line
        self._at = 0

    @property
    def next(self) -> str:
        """The next word, "" at the end."""
        return self._tokens[self._at]

    def take(self) -> str:
        """Read any word."""
        token = self._tokens[self._at]
        if token:
            self._at += 1
        return token

    def accept(self, word: str) -> bool:
        """Read `word` if it is next, and return True if it was."""
        if self._tokens[self._at] != word:
            return False
        self._at += 1
        return True

    def expect(self, *words: str) -> None:
        """Read exactly these words."""
        for word in words:
            if not self.accept(word):
                raise self.stands_instead_of(repr(word))

    def end(self) -> None:
        """Read the end of the line."""
        if self.next:
            raise self.stands_instead_of("the end of the line")

    def stands_instead_of(self, wanted: str) -> ProgramError:
        """Return the error for a next word that was not expected."""
        found = repr(self.next) if self.next else "the end of the line"
        return ProgramError(f"{found} stands where {wanted} belongs")

    def clauses(self) -> Iterator[str]:
        """Yield the first word of each further clause, to the end of the line."""
        while self.accept(","):
            yield self.take()
        self.end()

    def listed(self, closing: str) -> Iterator[None]:
        """Yield once for each item of a list that ends with `closing`, which is read too."""
        if self.accept(closing):
            return
        yield
        while self.accept(","):
            yield
        self.expect(closing)

    def name(self) -> str:
        """Read a name or a string."""
        token = self.next
        if token[:1] == '"':
            return self.string()
        if not BARE.fullmatch(token):
            raise self.stands_instead_of("a name")
        self._at += 1
        return token

    def string(self) -> str:
        """Read a string."""
        return unquoted(self.take())

    def tensor(self) -> str:
        """Read a tensor's name."""
        token = self.take()
        if token == "_":
            return ""
        if len(token) > 1 and token[0] == "%":
            return unquoted(token[1:]) if token[1] == '"' else token[1:]
        self._at -= bool(token)
        raise self.stands_instead_of("a tensor")

    def integer(self) -> int:
        """Read a whole number."""
        try:
            number = int(self.next)
        except ValueError:
            raise self.stands_instead_of("a whole number") from None
        self._at += 1
        return number

    def real(self) -> float:
        """Read a double."""
        token = self.next
        try:
            number = struct.unpack(">d", bytes.fromhex(token[5:]))[0] if token[:5] == "nan0x" else float(token)
        except (ValueError, struct.error):
            raise self.stands_instead_of("a number") from None
        self._at += 1
        return number

    def data(self) -> bytes:
        """Read bytes."""
        try:
            data = bytes.fromhex(self.next.removeprefix("0x") if self.next[:2] == "0x" else "-")
        except ValueError:
            raise self.stands_instead_of("a whole number of bytes, such as 0x01ff,") from None
        self._at += 1
        return data

    def enumerator(self, word: str, field: str, words: Words) -> Any:
        """Return the number of a clause that begins with `word`, as `enumerator` wrote it."""
        if word == field:
            self.expect("#")
            return self.integer()
        for number, known in words.items():
            if known == word:
                return number
        raise says_nothing(word)


def says_nothing(word: str) -> ProgramError:
    """Return the error for a missing clause of a line."""
    return ProgramError(f"{word!r} says nothing here" if word else "a clause is missing after the comma")


def unquoted(token: str) -> str:
    """Return the string that `quoted` wrote."""
    if token == '"':
        raise ProgramError("a string does not end on its line")
    try:
        text = json.loads(token)
        text.encode()
    except ValueError:  # JSON's and UTF-8's errors are both subclasses
        raise ProgramError(f"{token} is not a string") from None
    return text
