"""The check of one op against its contract: operator, version, operands, attributes and the types of its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from prograd_proto import Attribute, ProgramError, TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attribute_kind
from prograd_proto.blocks import BlockAnalyses
from prograd_proto.blocks.control import ATTRIBUTES, BLOCKS, MAX_DEPTH, BlockTypes, result_types
from prograd_proto.dtypes import HALVES
from prograd_proto.plugins import namespace_of, plugin_failed
from prograd_proto.spelling import MAX_NAME_CHARACTERS, closest
from runtime.contract import GROUP, require
from runtime.operators import CONTRACTS, Contract
from runtime.step.target import Target

LONGEST_KEPT: Final = 1000
"""Upper bound in bytes on the attributes that the table of known results keeps; larger ones are constants, used
once.
"""

STAGES: Final = frozenset(pb.Stage.values()) - {0}

Operands = tuple[TensorType | None, ...]


CheckInner = Callable[["Operators", int], BlockTypes]


class Results(NamedTuple):
    """The outputs and scratch of an op.

    Attributes:
        outputs: the types that its contract gives.
        scratch: the types of the scratch that its kernel wants.
    """

    outputs: Sequence[TensorType]
    scratch: Sequence[TensorType]


class Operators:
    """The state that all checks of one program's ops share, with the results of earlier equal ops.

    Attributes:
        program: the program that is checked.
        target: the engine that the program is checked for.
        check_inner: checks a block inside an op and returns its types.
        is_dealt: True for a program that was dealt to the ranks of a run, whose ops may exchange values.
        listed: the versions that the program lists, by operator.
        blocks: the readings of the program's blocks.
        owned: the blocks inside ops that were checked; no block belongs to two ops.
        depth: how many blocks the op that is checked lies in.
        known: the results by operator, operand types and attributes. Most ops occur again, in evaluation and prediction
            and from layer to layer.
    """

    def __init__(self, program: pb.ProgramDesc, target: Target, check_inner: CheckInner, *, is_dealt: bool) -> None:
        """Begin with an empty table of results."""
        self.is_dealt = is_dealt
        self.program, self.target, self.check_inner = program, target, check_inner
        self.blocks = BlockAnalyses(program)
        self.owned: set[int] = set()
        self.depth = 0
        self.listed: dict[str, list[int]] = {}
        self.known: dict[tuple[str, Operands, bytes], Results] = {}
        for operator in program.operators:
            self.listed.setdefault(operator.type, []).append(operator.version)


def check_op(operators: Operators, op: pb.OpDesc, types: Mapping[str, TensorType]) -> Results:
    """Return the results of an op whose operands have these types.

    Raises ProgramError that names the op and its line.
    """
    program = operators.program
    try:
        return _check(operators, op, types)
    except ProgramError as error:
        raise ProgramError(f"{described(program, op)}: {error}") from None
    except Exception as error:
        if not namespace_of(op.type):
            raise
        raise plugin_failed(described(program, op), error) from error


def described(program: pb.ProgramDesc, op: pb.OpDesc) -> str:
    """Return the name of an op in error messages: op 17 (matmul from train.py:31)."""
    known = 0 < op.location <= len(program.locations)
    line = f" from {program.locations[op.location - 1]}" if known else ""
    return f"op {op.id} ({op.type}{line})"


def _check(operators: Operators, op: pb.OpDesc, types: Mapping[str, TensorType]) -> Results:
    if op.type in BLOCKS:
        return _check_control(operators, op, types)
    if op.type not in CONTRACTS:
        raise ProgramError(f"this runtime has no kernel {op.type!r}{_closest(op.type)}")
    contract = CONTRACTS[op.type]
    _check_version(operators.listed.get(op.type, ()), op.type, contract.rule.version)
    _check_marks(operators, op)
    require(not op.blocks, "it has sub-blocks, which its kernel does not run")
    require(
        not (operators.depth and contract.effects),
        "it has effects, and lies in a block of another op; call it outside of loops and conditions",
    )
    _require_no_exchange(operators, contract)
    require(bool(op.random_stream) == contract.random, "a random stream and a random kernel go together")
    _check_operands(op, contract, types)
    operands = tuple([types[name] if name else None for name in op.inputs])
    key = op.type, operands, b"".join([attribute.SerializeToString() for attribute in op.attributes])
    results = operators.known.get(key)
    if results is None:
        results = _results(op, contract, operands, operators.target)
        if len(key[2]) <= LONGEST_KEPT:
            operators.known[key] = results
    if len(results.outputs) != len(op.outputs):
        raise ProgramError(f"its outputs are {len(op.outputs)}, those of its kernel {len(results.outputs)}")
    return results


def _require_no_exchange(operators: Operators, contract: Contract) -> None:
    """Raise ProgramError for an op of a file that exchanges values: a program does not know the ranks of its run."""
    exchanges = any(effect.resource == GROUP for effect in contract.effects)
    require(
        operators.is_dealt or not exchanges,
        "it exchanges values between processes; a run with --mpi inserts such ops, and no file has them",
    )


def _check_marks(operators: Operators, op: pb.OpDesc) -> None:
    require(op.location <= len(operators.program.locations), "its location is not in the table")
    require(op.stage in STAGES, f"its stage {op.stage} is unknown")


def _check_control(operators: Operators, op: pb.OpDesc, types: Mapping[str, TensorType]) -> Results:
    """Return the results of an op that runs blocks, which are checked first."""
    _check_version(operators.listed.get(op.type, ()), op.type, 1)
    _check_marks(operators, op)
    require(not op.random_stream, "it has a random stream; only the ops in its blocks draw")
    for name in op.inputs:
        require(name in types, f"it reads %{name}, which nothing defines before it")
    attributes = attributes_of(op)
    _check_kinds(op, ATTRIBUTES[op.type], attributes)
    operands = [types[name] for name in op.inputs]
    require(operators.depth < MAX_DEPTH, f"it lies in {MAX_DEPTH} blocks, one in another; there are at most as many")
    operators.depth += 1
    inner: list[BlockTypes] = []
    for number in op.blocks:
        require(number < len(operators.blocks), f"its block {number} does not exist")
        require(number not in operators.owned, f"its block {number} belongs to another op or entry")
        operators.owned.add(number)
        inner.append(operators.check_inner(operators, number))
    operators.depth -= 1
    outputs = result_types(op.type, operands, attributes, inner)
    require(len(outputs) == len(op.outputs), f"its outputs are {len(op.outputs)}, those of its blocks {len(outputs)}")
    analyses = [operators.blocks[number] for number in op.blocks]
    return Results(outputs, operators.target.control_scratch(op.type, operands, attributes, analyses))


def _results(op: pb.OpDesc, contract: Contract, operands: Operands, target: Target) -> Results:
    attributes = attributes_of(op)
    _check_kinds(op, contract.rule.attributes, attributes)
    outputs = contract.rule.results(*operands, **attributes)
    _check_halves(contract, operands, outputs)
    return Results(outputs, target.scratch(op.type, operands, attributes))


def _check_version(listed: Sequence[int], type: str, version: int) -> None:
    if list(listed) != [version]:
        raise ProgramError(f"the program lists versions {list(listed[:9])} of {type!r}, this runtime has {version}")


def _check_operands(op: pb.OpDesc, contract: Contract, types: Mapping[str, TensorType]) -> None:
    rule = contract.rule
    fixed = len(rule.inputs) - rule.variadic
    fits = len(op.inputs) > fixed if rule.variadic else len(op.inputs) == fixed
    if not fits:
        raise ProgramError(f"its kernel takes the operands ({', '.join(rule.inputs)}), it has {len(op.inputs)}")
    for i, name in enumerate(op.inputs):
        if not name and not fixed - rule.optional <= i < fixed:
            raise ProgramError(f"its operand {rule.inputs[min(i, fixed)]!r} is absent")
        if name and name not in types:
            raise ProgramError(f"it reads %{name}, which nothing defines before it")


def _check_kinds(op: pb.OpDesc, declared: Mapping[str, str], attributes: Mapping[str, Attribute]) -> None:
    kinds = {attribute.name: attribute_kind(attribute) for attribute in op.attributes}
    if len(kinds) != len(op.attributes) or kinds != declared:
        unknown = [name for name in kinds if name not in declared]
        hint = closest(unknown[0], declared) if unknown else ""
        raise ProgramError(f"it has the attributes {_shown(kinds)}, its kernel takes {_shown(declared)}{hint}")
    for name, kind in kinds.items():
        static = kind != "shape" or all(isinstance(extent, int) and extent >= 0 for extent in attributes[name])  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType, reportUnknownArgumentType]: the kind says that it is a shape
        require(static, f"its attribute {name!r} is no static shape")


def _check_halves(contract: Contract, operands: Operands, outputs: Sequence[TensorType]) -> None:
    if contract.rule.halves:
        return
    for i, type in enumerate(operands):
        if type is not None and type.dtype in HALVES:
            what = contract.rule.inputs[min(i, len(contract.rule.inputs) - 1)]
            raise ProgramError(f"{what} is {type.dtype}, which it cannot compute with; float32 it can")
    for type in outputs:
        require(type.dtype not in HALVES, f"its output is {type.dtype}, which it does not make; a cast does")


def _shown(kinds: Mapping[str, str]) -> str:
    return f"({', '.join(f'{name}: {kind}' for name, kind in kinds.items())})"


def _closest(name: str) -> str:
    from difflib import get_close_matches  # slow to import, and needed for this error only

    matches = get_close_matches(name, CONTRACTS, n=1) if len(name) <= MAX_NAME_CHARACTERS else []
    return f"; the closest is {matches[0]!r}" if matches else ""
