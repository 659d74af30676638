"""Contracts: the description of an operator for engines and for the check of programs.

A contract states the operands and attributes of an op, the types of its results, and what a caller may assume of any
implementation. How an engine computes the op and which memory it needs for that belongs to the engine. For the
reference engine, `runtime.kernel` has it.

`prograd_proto.result_types` has a rule for the operands, the attributes and the types of the results of each operator,
by which the registry infers too; a plugin declares rules of its own. The loader applies them to every op of a file
before anything is allocated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Literal, NamedTuple, TypedDict, Unpack

from prograd_proto import ProgramError, TensorType
from prograd_proto.errors import require as require
from prograd_proto.result_types import RULES, Rule, Types, read_rule
from prograd_proto.upgrades import declare_version
from runtime.row_rules import RowRule

FILE: Final = "file"
"""The resource that lies beside the arena and holds the values that are spilled."""

GROUP: Final = "group"
"""The resource of ops that exchange values with the other ranks of a run; no file has such ops."""

CONTRACTS: Final[dict[str, Contract]] = {}
"""The declared contracts by operator name; `runtime.operators` fills it with all operators."""


class Effect(NamedTuple):
    """An effect of an op besides computing its results from its operands.

    Attributes:
        resource: name of the resource, chosen by the author: a file, a counter, the link to another process.
        access: read, write or both. Ops that only read a resource may be reordered. Ops that write it keep their
            position.
        confined: True if the op touches the resource only where its own tensors lie: it writes its results there and
            reads its operands. No other op sees any other change.
    """

    resource: str
    access: Literal["reads", "writes"]
    confined: bool = False


class Facts(TypedDict, total=False):
    """The facts that a declaration may state of an operator besides its rule; defaults are those of `Contract`."""

    view: bool
    random: bool
    effects: tuple[Effect, ...]
    variadic_outputs: bool
    rows: RowRule
    by_element: bool
    operations: Callable[..., int]


class Contract(NamedTuple):
    """An operator, as its rule and its declaration describe it.

    Attributes:
        name: name of the operator.
        rule: its operands, attributes, version and the types of its results.
        view: True if output 0 has the bytes of input 0. The two may share memory, and the input keeps its value; where
            they share it, there is nothing to compute.
        random: True if its ops have a random stream.
        effects: effects of its ops besides reading operands and writing results.
        variadic_outputs: True if the attributes determine the number of outputs.
        rows: function that returns True if row i of the results depends on row i of the operands alone
            (`runtime.row_rules`); None if results may mix rows.
        by_element: True if the operands and results are of one shape or scalars, and an element of a result depends on
            the elements there and on the scalars. Pointwise ops, which have the row rule of that name, do so too.
        operations: function from types to the number of arithmetic operations of an op. Its parameters are named like
            inputs, or `out` for the output (a tuple if there are several); all types are static, and None stands for an
            absent input. None if an op computes each element at the cost of reading it.
    """

    name: str
    rule: Rule
    view: bool = False
    random: bool = False
    effects: tuple[Effect, ...] = ()
    variadic_outputs: bool = False
    rows: RowRule | None = None
    by_element: bool = False
    operations: Callable[..., int] | None = None


def declare(
    name: str,
    rule: Types | None = None,
    *,
    namespace: str = "",
    version: int = 1,
    halves: bool = False,
    **facts: Unpack[Facts],
) -> Contract:
    """Enter the contract of an operator into the table; raise ProgramError if there is one already.

    Args:
        name: name of the operator.
        rule: rule of a plugin's operator (`prograd_proto.result_types`); it stands in the common table for others.
        namespace: for a plugin's operators the plugin's name, which precedes a dot in the op type.
        version: version of a plugin's operator; that of others stands in the common table, and so does `halves`.
        halves: True if a plugin's operator accepts and returns 16-bit floats too.
        facts: further facts, as `Contract` explains them.
    """
    name = f"{namespace}.{name}" if namespace else name
    if name in CONTRACTS:
        raise ProgramError(f"kernel {name!r} is declared twice")
    require(
        rule is not None or name in RULES, f"kernel {name!r} needs a rule of the types of its results: @kernel(rule)"
    )
    own = RULES[name] if rule is None else read_rule(rule)._replace(halves=halves, version=version)
    contract = Contract(name, own, **facts)
    require_known(f"the operations of kernel {name!r}", contract.operations, {*own.inputs, "out"})
    require(not (contract.view and contract.effects), f"kernel {name!r} is a view, which does nothing, and has effects")
    if namespace:
        declare_version(name, own.version)
    CONTRACTS[name] = contract
    return contract


def require_known(what: str, function: Callable[..., object] | None, names: Collection[str]) -> None:
    """Raise ProgramError if a function has a parameter with another name than these."""
    asked = sorted(set(parameters(function)) - set(names)) if function else []
    require(not asked, f"{what} may depend on {sorted(names)}, not on {asked}")


def by_name(
    contract: Contract, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType] | None
) -> dict[str, Any]:
    """Return the types of an op by the names of a rule's parameters: its inputs, and `out` for given outputs.

    A variadic input and several outputs are tuples; an absent input is None.
    """
    names, fixed = contract.rule.inputs, len(contract.rule.inputs) - contract.rule.variadic
    named: dict[str, Any] = dict.fromkeys(names) | dict(zip(names[:fixed], inputs, strict=False))
    if contract.rule.variadic:
        named[names[-1]] = tuple(inputs[fixed:])
    if outputs is not None:
        named["out"] = tuple(outputs) if len(outputs) != 1 or contract.variadic_outputs else outputs[0]
    return named


def parameters(function: Callable[..., object]) -> tuple[str, ...]:
    """Return the names of the positional parameters of a function."""
    return function.__code__.co_varnames[: function.__code__.co_argcount]
