"""Contracts: what an operator is to any engine, and to whoever checks a program.

A contract says which operands and attributes an op has, which types its results then have, and what may be assumed
of whatever computes it. How an engine computes it, and the memory it needs on the way, is that engine's own: of the
reference engine see `runtime.kernel`.

A rule is `rule(x, w, *, axis) -> Types`: from input types and attributes to output and scratch types. It refuses, by
`require`, what must not be computed. Its annotated keyword parameters are the op's attributes. The loader applies it
to every op of a file before anything is allocated: NumPy would broadcast into a wrong `out` in silence, a native
kernel would write out of bounds. The output types are the contract's. The scratch types are those of the kernel that
stands beside the rule, and nobody but its engine sees them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, TypedDict, Unpack

from prograd_proto import Attribute, ProgramError, TensorType
from prograd_proto.attributes import KIND_OF_ANNOTATION
from prograd_proto.upgrades import declare_version

Rule = Callable[..., "Types"]

FILE: Final = "file"
"""The resource that lies beside the arena: what is spilled waits in it."""

CONTRACTS: Final[dict[str, Contract]] = {}
"""The contracts that were declared, by the name of the operator; `runtime.operators` has all of them."""

_VARIADIC_FLAG: Final = 0x04  # of a code object: the function takes *args


class Types(NamedTuple):
    """What a rule gives: the types of the outputs, and of the scratch arrays of the kernel beside it."""

    outputs: tuple[TensorType, ...]
    scratch: tuple[TensorType, ...] = ()


def types(*outputs: TensorType, scratch: Sequence[TensorType] = ()) -> Types:
    """The result of a rule."""
    return Types(outputs, tuple(scratch))


class Effect(NamedTuple):
    """What an op does besides computing its results from its operands.

    Attributes:
        resource: what it touches, by a name of the author's choice: a file, a counter, the link to another process.
        access: ops that only read a resource may change places; one that writes it, or both, keeps its place.
        confined: it touches the resource only where its own tensors lie: what it writes are its results, what it reads
            its operands. Others see nothing of it but these.
    """

    resource: str
    access: Literal["reads", "writes"]
    confined: bool = False


def require(condition: bool, message: str) -> None:
    """Raise ProgramError unless `condition` holds; the loader adds the file, the op and the user's line."""
    if not condition:
        raise ProgramError(message)


class Facts(TypedDict, total=False):
    """What a declaration may say of an operator beside its rule; what it leaves out is as in `Contract`."""

    version: int
    view: bool
    halves: bool
    random: bool
    effects: tuple[Effect, ...]
    variadic_outputs: bool


class Contract(NamedTuple):
    """An operator, as its rule's signature and its declaration say.

    Attributes:
        name: of the operator.
        outputs: from input types and attributes to output types; raises ProgramError.
        inputs: their names.
        optional: how many of the last inputs may be absent.
        variadic: the last input stands for any number of them.
        attributes: name -> word of `prograd_proto.attributes.KINDS`.
        version: of the operator's meaning.
        view: output 0 has the bytes of input 0. They may be the same memory, and the input keeps its value; where they
            are, there is nothing to compute.
        halves: it takes and gives 16-bit floats too.
        random: its ops have a random stream.
        effects: what else its ops touch besides operands and results.
        variadic_outputs: the attributes say how many outputs there are.
    """

    name: str
    outputs: Callable[..., tuple[TensorType, ...]]
    inputs: tuple[str, ...]
    optional: int
    variadic: bool
    attributes: dict[str, str]
    version: int = 1
    view: bool = False
    halves: bool = False
    random: bool = False
    effects: tuple[Effect, ...] = ()
    variadic_outputs: bool = False


def declare(name: str, rule: Rule, *, namespace: str = "", **facts: Unpack[Facts]) -> Contract:
    """Enter the contract of an operator into the table; raises ProgramError if there is one already.

    Args:
        name: of the operator.
        rule: from input types and attributes to output types.
        namespace: of a plugin's operators, the plugin's name; it stands before a dot in the op type.
        facts: what else there is to say, as `Contract` explains.
    """
    name = f"{namespace}.{name}" if namespace else name
    if name in CONTRACTS:
        raise ProgramError(f"kernel {name!r} is declared twice")
    code = rule.__code__
    names = code.co_varnames
    positional = names[: code.co_argcount]
    keyword = names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    variadic = bool(code.co_flags & _VARIADIC_FLAG)
    if variadic:
        positional += (names[code.co_argcount + code.co_kwonlyargcount],)

    def outputs(*inputs: TensorType | None, **attributes: Attribute) -> tuple[TensorType, ...]:
        return rule(*inputs, **attributes).outputs

    contract = Contract(
        name=name,
        outputs=outputs,
        inputs=positional,
        optional=len(rule.__defaults__ or ()),
        variadic=variadic,
        attributes={key: KIND_OF_ANNOTATION[rule.__annotations__[key]] for key in keyword},
        **facts,
    )
    require(not (contract.view and contract.effects), f"kernel {name!r} is a view, which does nothing, and has effects")
    if namespace:
        declare_version(name, contract.version)
    CONTRACTS[name] = contract
    return contract
