"""Conditions and loops: functions of the user, called once while the program is built, become blocks of an op.

A function may use any tensor of the program: what lies outside of it becomes an operand of the op. It calls operators
and layers as usual. It cannot update a state: what an iteration changes is a carry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from prograd_proto import TensorType
from prograd_proto.blocks.control import COND, INDEX, MAX_TRIPS, PREDICATE, SAVES, SCAN, WHILE
from registry.block import Block
from registry.control.bodies import append_control, declare_arguments, drop_unused
from registry.control.structure import form_of, leaves, replaced, same_form
from registry.errors import Located, OpError
from registry.operator import OPS
from registry.value import Value

Save = Literal["all", "carries"]


def cond(predicate: Value, if_true: Callable[..., Any], if_false: Callable[..., Any], *operands: Any) -> Any:
    """Return `if_true(*operands)` if the predicate is true, else `if_false(*operands)`; only one of them is computed.

    Args:
        predicate: a bool of rank 0. No gradient flows through it.
        if_true: a function that returns a tensor or a tuple of tensors.
        if_false: a function whose results have the same types.
        *operands: arguments of both; the functions may also use other tensors of the program.

    Returns:
        The results of one function. In the gradient, tensors that only the other one uses get zeros.
    """
    _require_tensor("cond", "predicate", predicate, "; call one of the functions instead")
    block = predicate.block.root.active
    with Located(block.line):
        if predicate.type != PREDICATE:
            raise OpError(f"cond: the predicate is {predicate.type}, not {PREDICATE}; compare, as in ops.sum(x) > 0")
        names = "the function for true of cond", "the function for false of cond"
        one, other = (_branch(block, w, f, operands) for w, f in zip(names, (if_true, if_false), strict=True))
        return _joined(block, predicate, one, other)


def scan(
    step: Callable[[Any, Any], Any],
    first: Any,
    xs: Any = (),
    *,
    length: int | None = None,
    reverse: bool = False,
    save: Save = "all",
) -> tuple[Any, Any]:
    """Return the last carry of a loop over rows, and the rows that its steps give.

    Args:
        step: a function `step(carry, x) -> (carry, y)`. Each of the three is a tensor or a tuple of tensors; y may be
            None. The next carry has the types of the carry.
        first: the first carry; () for none.
        xs: the tensors whose rows, along axis 0, the steps read.
        length: the number of steps, if there are no rows to read.
        reverse: True to begin with the last row; row i of the result belongs to row i of `xs`.
        save: what a step leaves for the gradient: "all" tensors that it reads, or the "carries", from which the
            gradient computes the step again.

    Returns:
        The last carry, in the form of `first`, and for each y its rows of all steps on axis 0.
    """
    return _scan("scan", step, first, xs, length, reverse, save)


def map(function: Callable[[Any], Any], xs: Any, *, save: Save = "all") -> Any:
    """Return the results of a function for each row of `xs` along axis 0, stacked on axis 0.

    Args:
        function: a function of a row of each tensor in `xs` that returns a tensor or a tuple of tensors.
        xs: a tensor or a tuple of tensors with as many rows.
        save: what a row leaves for the gradient, as for `scan`.
    """
    return _scan("map", lambda _, x: ((), function(x)), (), xs, None, False, save)[1]


def while_loop(
    condition: Callable[..., Any],
    body: Callable[..., Any],
    *carries: Any,
    max_trips: int | None = None,
    save: Save = "all",
) -> tuple[Any, Value]:
    """Return the carries after a loop that goes on while a condition holds, and the number of its trips.

    Args:
        condition: a function of the carries that returns a bool of rank 0.
        body: a function of the carries that returns the next ones, of the same types.
        *carries: the first carries, each a tensor or a tuple of tensors.
        max_trips: a bound of the trips, at which the loop ends; the gradient needs one.
        save: what a trip leaves for the gradient, as for `scan`.

    Returns:
        The last carries, a single one by itself and several as a tuple, and the number of trips, an int64 of rank 0.
    """
    values = leaves("while_loop: a carry", carries)
    if not values:
        raise OpError("while_loop: it has no carries, so its condition would never change")
    block = values[0].block.root.active
    with Located(block.line):
        if max_trips is not None and (isinstance(max_trips, bool) or not 1 <= max_trips <= MAX_TRIPS):
            raise OpError(f"while_loop: max_trips={max_trips!r} is no whole number from 1 to {MAX_TRIPS}")
        _require_save("while_loop", save)
        return _while(block, condition, body, carries, max_trips or 0, save)


class _Counter:
    """The number of the iteration, in the blocks of one loop: a carry that exists if a block asks for it."""

    def __init__(self) -> None:
        self.names: dict[Block, str] = {}

    def __call__(self, body: Block) -> Value:
        if body not in self.names:
            self.names[body] = body.argument("iteration", INDEX).name
        return body.value(self.names[body])


def _branch(block: Block, what: str, function: Callable[..., Any], operands: Sequence[Any]) -> tuple[Block, Any]:
    with block.inside(what) as body:
        return body, function(*replaced(operands, lambda x: body.taken(x) if isinstance(x, Value) else x))


def _joined(block: Block, predicate: Value, one: tuple[Block, Any], other: tuple[Block, Any]) -> Any:
    """Append the op of two branches and return its results in their form."""
    (body, result), (other_body, other_result) = one, other
    if form_of(result) != form_of(other_result):
        raise OpError("cond: the two functions return tuples of different forms; both return the same")
    pairs = list(zip(_flat(result), _flat(other_result), strict=True))
    given = [_given("cond: a result", body, x, y) for x, y in pairs]
    others = [_given("cond: a result", other_body, y, x) for x, y in pairs]
    for x, y in zip(given, others, strict=True):
        if x.type != y.type:
            raise OpError(f"cond: the function for true returns {x.type}, the one for false {y.type}; cast one of them")
    outside: dict[str, Value] = {}
    for branch, results in ((body, given), (other_body, others)):
        branch.desc.results.extend(x.name for x in results)
        drop_unused(branch)
        outside.update((outer.name, outer) for outer in branch.captured.values())
    number = {name: i for i, name in enumerate(outside)}
    for branch in (body, other_body):
        for name, outer in branch.captured.items():
            declare_arguments(branch, [name], number[outer.name])
    operands = [block.taken(predicate), *outside.values()]
    return same_form(result, append_control(block, COND, operands, {}, [body.desc, other_body.desc]))


def _flat(tree: Any) -> list[Any]:
    return [leaf for part in tree for leaf in _flat(part)] if isinstance(tree, tuple | list) else [tree]  # pyright: ignore[reportUnknownVariableType]: checked here


def _given(what: str, body: Block, result: Any, like: Any) -> Value:
    """Return a result as a tensor of a block; a number becomes a constant of the type of a tensor of rank 0."""
    if isinstance(result, int | float) and not isinstance(result, bool) and isinstance(like, Value) and like.rank == 0:
        return body.constant(like.dtype, float(result))
    [value] = leaves(what, result)
    return body.taken(value)


def _scan(
    name: str, step: Callable[[Any, Any], Any], first: Any, xs: Any, length: int | None, reverse: bool, save: Save
) -> tuple[Any, Any]:
    xs = () if xs is None else xs
    begins, read = leaves(f"{name}: the first carry", first), leaves(f"{name}: a tensor of xs", xs)
    if not begins and not read:
        raise OpError(f"{name}: it has neither a carry nor rows to read")
    block = (begins or read)[0].block.root.active
    with Located(block.line):
        _require_save(name, save)
        extent = _length(name, read, length)
        begins, read = [block.taken(x) for x in begins], [block.taken(x) for x in read]
        counter = _Counter()
        with block.inside(f"the function of {name}") as body:
            body.counter = lambda: counter(body)
            carries = [body.argument(f"carry_{j}", x.type) for j, x in enumerate(begins)]
            rows = [body.argument(f"x_{k}", TensorType(x.dtype, x.shape[1:])) for k, x in enumerate(read)]
            after, ys = _pair(name, step(same_form(first, carries), same_form(xs, rows)))
            new = _next_carries(name, body, after, first, carries)
            given = [body.taken(y) for y in leaves(f"{name}: a y", () if ys is None else ys)]
            if body in counter.names:
                new.append(OPS["add"](counter(body), 1))
        if body in counter.names:
            begins = [*begins, block.constant("int64", 0)]
            carries = [*carries, counter(body)]
        if not new and not given:
            raise OpError(f"{name}: its function returns no tensor")
        body.desc.results.extend(x.name for x in (*new, *given))
        drop_unused(body)
        declare_arguments(body, [*(x.name for x in (*carries, *rows)), *body.captured])
        attributes = {
            "carries": len(begins),
            "rows": len(read),
            "length": (extent,),
            "counted": False,
            "reverse": bool(reverse),
            "save": save,
        }
        made = append_control(block, SCAN, [*begins, *read, *body.captured.values()], attributes, [body.desc])
        last, stacks = made[: len(begins)], made[len(begins) :]
        return same_form(first, last), None if ys is None else same_form(ys, stacks)


def _while(
    block: Block,
    condition: Callable[..., Any],
    body: Callable[..., Any],
    carries: tuple[Any, ...],
    most: int,
    save: Save,
) -> tuple[Any, Value]:
    begins = [block.taken(x) for x in leaves("while_loop: a carry", carries)]
    counter = _Counter()
    with block.inside("the condition of while_loop") as test:
        test.counter = lambda: counter(test)
        tested = [test.argument(f"carry_{j}", x.type) for j, x in enumerate(begins)]
        going = condition(*same_form(carries, tested))
        _require_tensor("while_loop", "the condition's result", going, "; let it compare carries")
        if going.type != PREDICATE:
            raise OpError(
                f"while_loop: its condition gives {going.type}, not {PREDICATE}; ops.all and ops.any give one"
            )
        going = test.taken(going)
    tree = carries[0] if len(carries) == 1 else carries
    with block.inside("the body of while_loop") as inner:
        inner.counter = lambda: counter(inner)
        held = [inner.argument(f"carry_{j}", x.type) for j, x in enumerate(begins)]
        new = _next_carries("while_loop", inner, body(*same_form(carries, held)), tree, held)
        if counter.names:
            new.append(OPS["add"](counter(inner), 1))
    if counter.names:
        begins = [*begins, block.constant("int64", 0)]
        tested, held = [*tested, counter(test)], [*held, counter(inner)]
    test.desc.results.append(going.name)
    inner.desc.results.extend(x.name for x in new)
    outside: dict[str, Value] = {}
    for part in (test, inner):
        drop_unused(part)
        outside.update((outer.name, outer) for outer in part.captured.values())
    number = {name: i for i, name in enumerate(outside, len(begins))}
    for part, own in ((test, tested), (inner, held)):
        declare_arguments(part, [x.name for x in own])
        for name, outer in part.captured.items():
            declare_arguments(part, [name], number[outer.name])
    attributes = {"carries": len(begins), "max_trips": most, "save": save}
    made = append_control(block, WHILE, [*begins, *outside.values()], attributes, [test.desc, inner.desc])
    return same_form(tree, made), made[len(begins)]


def _pair(name: str, result: Any) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:  # pyright: ignore[reportUnknownArgumentType]: checked here
        raise OpError(f"{name}: its function returns (carry, y), a pair; y may be None")
    return result[0], result[1]  # pyright: ignore[reportUnknownVariableType]: checked above


def _next_carries(name: str, body: Block, after: Any, first: Any, carries: Sequence[Value]) -> list[Value]:
    if form_of(after) != form_of(first):
        raise OpError(f"{name}: its function returns a carry of another form than it is given; both are the same")
    new = [_given(f"{name}: a carry", body, x, carry) for x, carry in zip(_flat(after), carries, strict=True)]
    for x, carry in zip(new, carries, strict=True):
        if x.type != carry.type:
            raise OpError(
                f"{name}: a carry begins as {carry.type}, and its function returns {x.type}; cast or shape it"
            )
    return new


def _length(name: str, xs: Sequence[Value], length: int | None) -> int | str:
    extents: list[int | str] = []
    for x in xs:
        if not x.rank:
            raise OpError(f"{name}: {x!r} has no rows; what all steps share is used in the function directly")
        extents.append(x.shape[0])
    if length is not None:
        if isinstance(length, bool) or not hasattr(length, "__index__") or not 0 <= length <= MAX_TRIPS:
            raise OpError(f"{name}: length={length!r} is no whole number from 0 to {MAX_TRIPS}")
        extents.append(length)
    if not extents:
        raise OpError(f"{name}: nothing says how many steps there are; give rows to read, or length=")
    for extent in extents:
        if extent != extents[0]:
            raise OpError(f"{name}: there are {extents[0]} and {extent} rows; all of them are read together")
    return extents[0]


def _require_save(name: str, save: str) -> None:
    if save not in SAVES:
        raise OpError(f"{name}: save={save!r} is neither 'all' nor 'carries'")


def _require_tensor(name: str, what: str, value: object, remedy: str) -> None:
    if not isinstance(value, Value):
        raise OpError(f"{name}: {what} is {value!r}, known while the program is built{remedy}")
