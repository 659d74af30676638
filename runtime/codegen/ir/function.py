"""Instructions, memory, loops, branches and calls of one function.

    f = module.function("scale", [pointer(FLOAT32), pointer(FLOAT32)])
    x, y = f.arguments
    for i in f.range(0, 1000, 16):
        f.store(f.load(x, i, lanes=16) * 2.0, y, i)
    f.end()

The body of a loop runs once, while the IR is written. A loop between known bounds is tested at its bottom. A loop of
one iteration is written without a loop, and its index is a number.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from runtime.codegen.ir.halves import widened
from runtime.codegen.ir.loop import Endless, Loop, Repetition
from runtime.codegen.ir.types import BFLOAT16, INT32, INT64, MASK, UINT8, Type, number, pointer
from runtime.codegen.ir.value import Index, Operand, Value

if TYPE_CHECKING:
    from runtime.codegen.ir.module import Module


_PAUSES: Final = {
    "x86_64": ("llvm.x86.sse2.pause", "", ""),
    "aarch64": ("llvm.aarch64.hint", "i32", "i32 1"),
}
"""The intrinsic function of a waiting loop, its parameters and its arguments, for architectures that have one."""


class Function:
    """A function under construction."""

    def __init__(
        self, module: Module, name: str, parameters: Sequence[Type], result: Type | None, public: bool
    ) -> None:
        self.module, self.target, self.name, self.result = module, module.target, name, result
        self.parameters = list(parameters)
        self.arguments = [Value(f"%a{i}", type, self) for i, type in enumerate(parameters)]
        self._public = public
        self._lines: list[str] = []
        self._allocations: list[str] = []
        self._block = "entry"
        self._count = 0
        self._calls: list[int] = []
        self._lost: list[Value] = []
        self._last: list[str] = []

    # Writing.

    def emit(self, instruction: str, type: Type) -> Value:
        """Append an instruction with a result."""
        self._count += 1
        self._lines.append(f"  %v{self._count} = {instruction}")
        return Value(f"%v{self._count}", type, self)

    def line(self, instruction: str) -> None:
        """Append an instruction without a result."""
        self._lines.append(f"  {instruction}")

    def end(self, result: Value | None = None) -> None:
        """Append the return, and add the text to the module."""
        for line in self._calls if self._lost else ():
            self.put(line, "\n".join(f"  store ptr null, ptr {each.text}" for each in self._lost))
        self._lines += self._last
        self.line(f"ret {result.type} {result.text}" if result else "ret void")
        is_own = "hidden " if self.module.prefix else "dso_local "
        name = self.module.prefix + self.name
        head = f"define {is_own if self._public else 'internal '}{self.result or 'void'} @{name}"
        parameters = ", ".join(f"{type} %a{i}" for i, type in enumerate(self.parameters))
        body = "\n".join(filter(None, (*self._allocations, *self._lines)))
        self.module.add(f"{head}({parameters}) #0 {{\nentry:\n{body}\n}}\n")

    # Constants.

    def constant(self, type: Type, value: float) -> Value:
        """Return a number, in every lane."""
        return Value(number(type, value), type, self, value)

    def index(self, value: Index) -> Value:
        """Return a number of elements as a value."""
        return value if isinstance(value, Value) else self.constant(INT64, value)

    def splat(self, x: Value, lanes: int) -> Value:
        """Return a vector with a scalar in every lane."""
        type = x.type.of(lanes)
        if x.known is not None:
            return self.constant(type, x.known)
        one = self.emit(f"insertelement {type} poison, {x.type} {x.text}, i32 0", type)
        spread = f"shufflevector {type} {one.text}, {type} poison, <{lanes} x i32> zeroinitializer"
        return self.emit(spread, type)

    def data(self, name: str, content: bytes) -> Value:
        """Return the address of constant bytes; a name must always stand for the same bytes."""
        self.module.data(name, content)
        return Value(f"@{name}", pointer(UINT8), self)

    def counting(self, type: Type) -> Value:
        """Return the vector 0, 1, 2 and so on."""
        return self.constants(type, range(type.lanes))

    def constants(self, type: Type, values: Iterable[float]) -> Value:
        """Return a vector of numbers."""
        return Value(f"<{', '.join(f'{type.scalar} {number(type.of(0), value)}' for value in values)}>", type, self)

    # Arithmetic that depends on the target.

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """Return a * b + c, rounded once if the target has the instruction; LLVM would call a function otherwise."""
        if not self.target.fma:
            return a * b + c
        return self.intrinsic("fma", a.type, a, b, c)

    def intrinsic(self, name: str, type: Type, *operands: Value) -> Value:
        """Call an intrinsic function of LLVM, whose full name ends in the type of its result."""
        full = f"llvm.{name}.{type.suffix}"
        self.module.declare(f"declare {type} @{full}({', '.join(str(x.type) for x in operands)})")
        return self.emit(f"call {type} @{full}({_listed(operands)})", type)

    # Memory.

    def address(self, base: Value, offset: Operand) -> Value:
        """Return the address that is `offset` elements farther on."""
        at = offset if isinstance(offset, Value) else self.constant(INT64, offset)
        if at.known == 0:
            return base
        element = base.element
        return self.emit(f"getelementptr {element}, ptr {base.text}, {at.type} {at.text}", base.type)

    def read(self, base: Value, element: Type) -> Value:
        """Load an element of any type from an address of bytes."""
        return self.emit(f"load {element}, ptr {base.text}, align 1", element)

    def load(self, base: Value, at: Index = 0, lanes: int = 0, tail: Index | None = None) -> Value:
        """Load the element at `at`, or `lanes` elements from there on.

        With `tail`, only the first `tail` lanes are read; the others are 0.
        """
        element, address = base.element, base + at
        type, align = element.of(lanes), max(element.bits // 8, 1)
        if element.is_widened:
            return widened(self.load(self.cast(address, BFLOAT16), 0, lanes, tail))
        if tail is None or tail == lanes:
            return self.emit(f"load {type}, ptr {address.text}, align {align}", type)
        mask, name = self._first_lanes(tail, lanes), f"llvm.masked.load.{type.suffix}.p0"
        self.module.declare(f"declare {type} @{name}(ptr, i32, {mask.type}, {type})")
        zero = self.constant(type, 0)
        return self.emit(
            f"call {type} @{name}(ptr {address.text}, i32 {align}, {mask.type} {mask.text}, {type} {zero.text})", type
        )

    def store(self, x: Value, base: Value, at: Index = 0, tail: Index | None = None) -> None:
        """Store a value at `at`; with `tail`, only its first `tail` lanes.

        A tail of one lane is no masked store. For AVX-512, LLVM 22 folds a truncation into a store with a mask of one
        lane, and then writes that lane in its width before the truncation, up to seven bytes too many.
        """
        assert x.type.of(0) == base.element, f"{x.type} is stored at {base.element}"
        if tail == 1 and x.type.lanes > 1:
            x, tail = self.emit(f"extractelement {x.type} {x.text}, i64 0", x.type.of(0)), None
        address, align = base + at, max(x.type.bits // 8, 1)
        if tail is None or tail == x.type.lanes:
            self.line(f"store {x.type} {x.text}, ptr {address.text}, align {align}")
            return
        mask, name = self._first_lanes(tail, x.type.lanes), f"llvm.masked.store.{x.type.suffix}.p0"
        self.module.declare(f"declare void @{name}({x.type}, ptr, i32, {mask.type})")
        self.line(f"call void @{name}({x.type} {x.text}, ptr {address.text}, i32 {align}, {mask.type} {mask.text})")

    def prefetch(self, base: Value, at: Index, level: int = 1) -> None:
        """Prefetch a cache line into the cache of this level; any address is allowed, and nothing is read."""
        self.module.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.line(f"call void @llvm.prefetch.p0(ptr {(base + at).text}, i32 0, i32 {4 - level}, i32 1)")

    def local(self) -> Value:
        """Allocate a 64-bit word on the stack that begins at 0 and changes in an endless loop; call before any loop."""
        index = self.emit("alloca i64, align 8", pointer(INT64))
        self.store(self.index(0), index)
        return index

    def allocate(self, type: Type) -> Value:
        """Allocate a value on the stack, once for each call of the function."""
        self._count += 1
        self._allocations.append(f"  %v{self._count} = alloca {type}")
        return Value(f"%v{self._count}", pointer(type), self)

    def buffer(self, name: str, element: Type, count: int) -> Value:
        """Allocate elements on the stack, once for each call of the function and name; they begin a cache line."""
        line = f"  %{name} = alloca [{count} x {element}], align 64"
        if line not in self._allocations:
            self._allocations.append(line)
        return Value(f"%{name}", pointer(element), self)

    def cast(self, address: Value, element: Type) -> Value:
        """Return the same address, as one of elements of this type."""
        return Value(address.text, pointer(element), self)

    def address_at(self, table: Value, index: Index, element: Type) -> Value:
        """Return an address from a table of addresses, as one of elements of this type."""
        word = self.load(table, index)
        return self.emit(f"inttoptr {INT64} {word.text} to ptr", pointer(element))

    # Memory that several threads use.

    def atomic_add(self, at: Value, amount: Index) -> Value:
        """Add to a word atomically, and return its value before."""
        number = self.index(amount)
        return self.emit(f"atomicrmw add ptr {at.text}, i64 {number.text} seq_cst", INT64)

    def atomic_load(self, at: Value, *, in_order: bool = False) -> Value:
        """Load a word, and see all that was written before it was; `in_order`, also after all earlier stores."""
        order = "seq_cst" if in_order else "acquire"
        return self.emit(f"load atomic i64, ptr {at.text} {order}, align 8", INT64)

    def atomic_store(self, x: Index, at: Value) -> None:
        """Store a word after all earlier writes."""
        self.line(f"store atomic i64 {self.index(x).text}, ptr {at.text} seq_cst, align 8")

    def atomic_replace(self, at: Value, old: Value, new: Value) -> Value:
        """Store `new` atomically if the word is `old`; return True if it was."""
        replaced = f"cmpxchg ptr {at.text}, i64 {old.text}, i64 {new.text} seq_cst seq_cst"
        return self.emit(f"extractvalue {{i64, i1}} {self.emit(replaced, INT64).text}, 1", MASK)

    def pause(self) -> None:
        """Tell the core that this is a waiting loop."""
        hint = _PAUSES.get(self.target.architecture)
        if hint is not None:
            name, parameters, arguments = hint
            self.module.declare(f"declare void @{name}({parameters})")
            self.line(f"call void @{name}({arguments})")

    def call_at(self, address: Value, *arguments: Value) -> None:
        """Call the function at an address."""
        self.line(f"call void {address.text}({_listed(arguments)})")
        self._calls.append(self.reserve())

    def call_for_int(self, address: Value) -> Value:
        """Call the function at an address, which has no arguments and returns an `int` of C."""
        found = self.emit(f"call i32 {address.text}()", INT32)
        return self.emit(f"sext i32 {found.text} to i64", INT64)

    def system_call(self, address: Value, number: int, *arguments: Value) -> None:
        """Make the system call of this number by the function `syscall` of C, which has this address."""
        listed = ", ".join([f"i64 {number}", *(f"{value.type} {value.text}" for value in arguments)])
        self.emit(f"call i64 (i64, ...) {address.text}({listed})", INT64)

    def _first_lanes(self, count: Index, lanes: int) -> Value:
        if isinstance(count, int):
            return Value(f"<{', '.join(f'i1 {int(i < count)}' for i in range(lanes))}>", MASK.of(lanes), self)
        narrow = self.emit(f"trunc i64 {count.text} to i32", INT32)
        return self.counting(INT32.of(lanes)) < narrow

    # Control.

    def range(self, start: Index, stop: Index, step: int = 1) -> Iterator[Index]:
        """Iterate over indices without carried values: for i in f.range(0, n)."""
        for i, _ in self.loop(start, stop, step):
            yield i

    def loop(
        self, start: Index, stop: Index, step: int = 1, carry: Sequence[Value] = (), *, is_nonempty: bool = False
    ) -> Loop:
        """Return a loop that carries values, see `Loop`; `is_nonempty` promises at least one iteration."""
        return Loop(self, start, stop, step, carry, is_nonempty)

    def repeat(self, carry: Sequence[Value]) -> Repetition:
        """Return a loop that continues while a condition holds; see `Repetition`."""
        return Repetition(self, carry)

    @contextmanager
    def forever(self) -> Generator[Endless]:
        """Open a loop that ends where its body calls `endless.end_if(condition)`."""
        top, after = self.label(), self.label()
        self.line(f"br label %{top}")
        self.begin(top)
        yield Endless(self, after)
        self.line(f"br label %{top}")
        self.begin(after)

    @contextmanager
    def when(self, condition: Value) -> Generator[None]:
        """Run the code inside only if a scalar condition holds."""
        inside, after = self.label(), self.label()
        self.line(f"br i1 {condition.text}, label %{inside}, label %{after}")
        self.begin(inside)
        yield
        self.line(f"br label %{after}")
        self.begin(after)

    def call(self, name: str, *arguments: Value, result: Type | None = None) -> Value | None:
        """Call a function of this module."""
        text = f"call {result or 'void'} @{self.module.prefix}{name}({_listed(arguments)})"
        found = self.emit(text, result) if result is not None else None
        if result is None:
            self.line(text)
        self._calls.append(self.reserve())
        return found

    def lost_by_calls(self, name: str, last: str) -> Value:
        """Return memory for an address that is null when the function begins and after each call of another one.

        `last` is an instruction before the return.
        """
        at = Value(f"%{name}", pointer(UINT8), self)
        if not any(each.text == at.text for each in self._lost):
            self._lost.append(at)
            self._last.append(f"  {last}")
            self._allocations += [f"  {at.text} = alloca ptr, align 8", f"  store ptr null, ptr {at.text}"]
        return at

    def label(self) -> str:
        """Return a new label of a basic block."""
        self._count += 1
        return f"b{self._count}"

    def begin(self, block: str) -> str:
        """Start a basic block, and return the label of the one before."""
        self._lines.append(f"{block}:")
        before, self._block = self._block, block
        return before

    @property
    def size(self) -> int:
        """The number of lines that are written."""
        return len(self._lines)

    @property
    def block(self) -> str:
        """The label of the current basic block."""
        return self._block

    def reserve(self) -> int:
        """Reserve a line, which `put` writes later."""
        self._lines.append("")
        return len(self._lines) - 1

    def put(self, line: int, text: str) -> None:
        """Write a reserved line."""
        self._lines[line] = text


def _listed(values: Sequence[Value]) -> str:
    return ", ".join(f"{value.type} {value.text}" for value in values)
