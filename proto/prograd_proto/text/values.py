"""Types, shapes and attributes, written and read."""

from collections.abc import Sequence
from math import nan, prod
from typing import Final

from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import ITEM_BYTES
from prograd_proto.elements import pack, unpack
from prograd_proto.errors import ProgramError
from prograd_proto.text.words import DTYPES, LIFESPANS, Line, enumerator, name, quoted, real, tensor

NUMBERS: Final = {word: number for number, word in DTYPES.items()}
MAX_READABLE_ELEMENTS: Final = 16
"""Upper bound on the elements of a small tensor that is written as numbers; larger ones are written as bytes."""


def dim(message: pb.Dim) -> str:
    """Return an extent as text: a number, a symbol, or `?` if it is neither."""
    match message.WhichOneof("extent"):
        case "size":
            return str(message.size)
        case "symbol":
            return name(message.symbol)
        case _:
            return "?"


def shape(message: pb.Shape) -> str:
    """Return the extents with commas, without brackets."""
    return ", ".join(map(dim, message.dims))


def dtype(number: int) -> str:
    """Return a dtype's name, or `#` and the number if there is no name."""
    return DTYPES.get(number) or f"#{number}"


def type_of_tensor(desc: pb.TensorDesc | pb.StateDesc) -> str:
    """Return a type as text, `float32[batch, 10]`, without brackets if there is no shape."""
    return f"{dtype(desc.dtype)}[{shape(desc.shape)}]" if desc.HasField("shape") else dtype(desc.dtype)


def typed(desc: pb.TensorDesc) -> str:
    """Return a tensor at its definition: name, type, the tensor whose gradient it is, and its declared lifespan."""
    gradient = f" gradient of {tensor(desc.gradient_of)}" if desc.gradient_of else ""
    lasting = f" lasting {enumerator('lifespan', desc.lifespan, LIFESPANS)}" if desc.lifespan else ""
    return f"{tensor(desc.name)}: {type_of_tensor(desc)}{gradient}{lasting}"


def attribute(desc: pb.AttrDesc) -> str:  # noqa: C901 - one case per kind of attribute, nothing else
    """Return `name=value`; the notation of the value determines its kind."""
    head = f"{name(desc.name)}="
    match desc.WhichOneof("value"):
        case "bool_value":
            return head + str(desc.bool_value).lower()
        case "int_value":
            return head + str(desc.int_value)
        case "float_value":
            return head + real(desc.float_value)
        case "string_value":
            return head + quoted(desc.string_value)
        case "dtype_value":
            return head + dtype(desc.dtype_value)
        case "shape_value":
            return f"{head}({shape(desc.shape_value)})"
        case "ints_value":
            return head + sequence("ints", [str(v) for v in desc.ints_value.values])
        case "floats_value":
            return head + sequence("floats", [real(v) for v in desc.floats_value.values])
        case "strings_value":
            return head + sequence("strings", [quoted(v) for v in desc.strings_value.values])
        case "tensor_value":
            return head + small_tensor(desc.tensor_value)
        case _:
            return head + "?"


def sequence(kind: str, items: Sequence[str]) -> str:
    """Return items in brackets; an empty list names its kind."""
    return f"[{', '.join(items)}]" if items else f"{kind}[]"


def small_tensor(message: pb.SmallTensor) -> str:
    """Return type and elements; bytes if elements are many or would not read back to the same bits."""
    word = DTYPES.get(message.dtype, "")
    head = f"{dtype(message.dtype)}[{', '.join(map(str, message.shape))}]"
    count = prod(message.shape)
    if word in ITEM_BYTES and 0 <= count <= MAX_READABLE_ELEMENTS and len(message.data) == count * ITEM_BYTES[word]:
        values = unpack(word, message.data)
        # A bool that is neither 0 nor 1, or a NaN with a sign or other bits, comes back as another byte.
        if pack(word, [nan if v != v else v for v in values]) == message.data:
            return f"{head} {{{', '.join(element(word, v) for v in values)}}}"
    return f"{head} 0x{message.data.hex()}"


def element(dtype: str, value: float) -> str:
    """Return one element; a short float has as few digits as distinguish it from its neighbours."""
    if dtype == "bool":
        return "true" if value else "false"
    if dtype not in MIN_DIGITS or value != value:
        return repr(value)
    texts = (f"{value:.{digits}g}" for digits in range(MIN_DIGITS[dtype], 10))
    return next(text for text in texts if packs_alike(dtype, float(text), value))


MIN_DIGITS: Final = {"float32": 6, "float16": 3, "bfloat16": 2}
"""Decimal digits that distinguish all floats of the dtype."""


def packs_alike(dtype: str, a: float, b: float) -> bool:
    """Return True if two doubles are the same element."""
    try:
        return pack(dtype, [a]) == pack(dtype, [b])
    except OverflowError:  # the largest one, rounded to few digits, is out of range
        return False


def read_dim(line: Line, message: pb.Dim) -> None:
    """Read an extent."""
    if line.accept("?"):
        return
    if line.next[:1] in "-0123456789":
        message.size = line.integer()
    else:
        message.symbol = line.name()


def read_dtype(line: Line) -> int:
    """Read a dtype."""
    if line.accept("#"):
        return line.integer()
    if line.next not in NUMBERS:
        raise line.stands_instead_of("a dtype")
    return NUMBERS[line.take()]


def read_type(line: Line, desc: pb.TensorDesc | pb.StateDesc) -> None:
    """Read dtype and shape."""
    desc.dtype = read_dtype(line)  # pyright: ignore[reportAttributeAccessIssue]: any number may be in the field
    if line.accept("["):
        desc.shape.SetInParent()
        for _ in line.listed("]"):
            read_dim(line, desc.shape.dims.add())


def read_typed(line: Line, desc: pb.TensorDesc) -> None:
    """Read what follows a tensor's name at its definition."""
    read_type(line, desc)
    if line.accept("gradient"):
        line.expect("of")
        desc.gradient_of = line.tensor()
    if line.accept("lasting"):
        desc.lifespan = line.enumerator(line.take(), "lifespan", LIFESPANS)


def read_attribute(line: Line, desc: pb.AttrDesc) -> None:  # noqa: C901 - one case per way to write a value
    """Read `name=value`."""
    desc.name = line.name()
    line.expect("=")
    match line.next[:1]:
        case '"':
            desc.string_value = line.string()
        case "?":
            line.take()
        case "(":
            line.take()
            desc.shape_value.SetInParent()
            for _ in line.listed(")"):
                read_dim(line, desc.shape_value.dims.add())
        case "[":
            line.take()
            read_sequence(line, desc)
        case _ if line.next in ("true", "false"):
            desc.bool_value = line.take() == "true"
        case _ if line.next in ("ints", "floats", "strings"):
            getattr(desc, f"{line.take()}_value").SetInParent()
            line.expect("[", "]")
        case _ if line.next in NUMBERS or line.next == "#":
            read_dtype_or_tensor(line, desc)
        case _ if line.next.removeprefix("-").isdecimal():
            desc.int_value = line.integer()
        case _:
            desc.float_value = line.real()


def read_sequence(line: Line, desc: pb.AttrDesc) -> None:
    """Read a non-empty list after its bracket; its first item determines its kind."""
    if line.next[:1] == '"':
        desc.strings_value.values.extend(line.string() for _ in line.listed("]"))
    elif line.next.removeprefix("-").isdecimal():
        desc.ints_value.values.extend(line.integer() for _ in line.listed("]"))
    else:
        desc.floats_value.values.extend(line.real() for _ in line.listed("]"))


def read_dtype_or_tensor(line: Line, desc: pb.AttrDesc) -> None:
    """Read a dtype, or a small tensor, which begins with its dtype."""
    number = read_dtype(line)
    if not line.accept("["):
        desc.dtype_value = number  # pyright: ignore[reportAttributeAccessIssue]: any number may be in the field
        return
    message = desc.tensor_value
    message.SetInParent()
    message.dtype = number  # pyright: ignore[reportAttributeAccessIssue]: any number may be in the field
    message.shape.extend(line.integer() for _ in line.listed("]"))
    message.data = read_elements(line, DTYPES.get(number, "")) if line.accept("{") else line.data()


def read_elements(line: Line, dtype: str) -> bytes:
    """Return the elements of a small tensor, after their brace, as its bytes."""
    match dtype:
        case "bool":
            values = [read_bool(line) for _ in line.listed("}")]
        case "float32" | "float64" | "float16" | "bfloat16":
            values = [line.real() for _ in line.listed("}")]
        case "int32" | "int64" | "uint8":
            values = [line.integer() for _ in line.listed("}")]
        case _:
            raise ProgramError("elements are written for a known dtype only; write the bytes, beginning with 0x")
    return pack(dtype, values)


def read_bool(line: Line) -> bool:
    """Read true or false."""
    if line.next not in ("true", "false"):
        raise line.stands_instead_of("true or false")
    return line.take() == "true"
