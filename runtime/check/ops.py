"""One op against its contract: the operator, its version, operands, attributes, and the types of its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prograd_proto import ProgramError, TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attribute_kind
from prograd_proto.dtypes import HALVES
from prograd_proto.plugins import namespace_of, plugin_failed
from prograd_proto.spelling import LONGEST, closest
from runtime.contract import require
from runtime.operators import CONTRACTS, Contract

Listed = Mapping[str, Sequence[int]]
"""By operator, the versions that the program lists."""


def listed_operators(program: pb.ProgramDesc) -> Listed:
    """What a program lists, looked up once for all of its ops."""
    listed: dict[str, list[int]] = {}
    for operator in program.operators:
        listed.setdefault(operator.type, []).append(operator.version)
    return listed


def check_op(
    program: pb.ProgramDesc, op: pb.OpDesc, types: Mapping[str, TensorType], listed: Listed
) -> list[TensorType]:
    """The output types of an op whose operands have these types; raises ProgramError that names op and line."""
    try:
        return list(_check(program, op, types, listed))
    except ProgramError as error:
        raise ProgramError(f"{described(program, op)}: {error}") from None
    except Exception as error:
        if not namespace_of(op.type):
            raise
        raise plugin_failed(described(program, op), error) from error


def described(program: pb.ProgramDesc, op: pb.OpDesc) -> str:
    """How errors name an op: op 17 (matmul from train.py:31)."""
    known = 0 < op.location <= len(program.locations)
    line = f" from {program.locations[op.location - 1]}" if known else ""
    return f"op {op.id} ({op.type}{line})"


def _check(
    program: pb.ProgramDesc, op: pb.OpDesc, types: Mapping[str, TensorType], listed: Listed
) -> tuple[TensorType, ...]:
    if op.type not in CONTRACTS:
        raise ProgramError(f"this runtime has no kernel {op.type!r}{_closest(op.type)}")
    contract = CONTRACTS[op.type]
    _check_version(listed.get(op.type, ()), op.type, contract)
    require(op.location <= len(program.locations), "its location is not in the table")
    require(op.stage in pb.Stage.values() and op.stage != 0, f"its stage {op.stage} is unknown")
    require(not op.blocks, "it has sub-blocks, which no kernel of this runtime takes")
    require(bool(op.random_stream) == contract.random, "a random stream and a random kernel go together")
    _check_operands(op, contract, types)
    _check_attributes(op, contract)
    operands = [types[name] if name else None for name in op.inputs]
    outputs = contract.outputs(*operands, **attributes_of(op))
    _check_halves(op, contract, types, outputs)
    require(
        len(outputs) == len(op.outputs),
        f"its outputs are {len(op.outputs)}, those of its kernel {len(outputs)}",
    )
    return outputs


def _check_version(listed: Sequence[int], type: str, contract: Contract) -> None:
    require(
        list(listed) == [contract.version],
        f"the program lists versions {list(listed[:9])} of {type!r}, this runtime has {contract.version}",
    )


def _check_operands(op: pb.OpDesc, contract: Contract, types: Mapping[str, TensorType]) -> None:
    fixed = len(contract.inputs) - contract.variadic
    fits = len(op.inputs) > fixed if contract.variadic else len(op.inputs) == fixed
    require(fits, f"its kernel takes the operands ({', '.join(contract.inputs)}), it has {len(op.inputs)}")
    for i, name in enumerate(op.inputs):
        require(
            bool(name) or fixed - contract.optional <= i < fixed,
            f"its operand {contract.inputs[min(i, fixed)]!r} is absent",
        )
        require(not name or name in types, f"it reads %{name}, which nothing defines before it")


def _check_attributes(op: pb.OpDesc, contract: Contract) -> None:
    kinds = {attribute.name: attribute_kind(attribute) for attribute in op.attributes}
    if len(kinds) != len(op.attributes) or kinds != contract.attributes:
        unknown = [name for name in kinds if name not in contract.attributes]
        hint = closest(unknown[0], contract.attributes) if unknown else ""
        raise ProgramError(
            f"it has the attributes {_shown(kinds)}, its kernel takes {_shown(contract.attributes)}{hint}"
        )
    attributes = attributes_of(op)
    for name, kind in kinds.items():
        static = kind != "shape" or all(isinstance(extent, int) and extent >= 0 for extent in attributes[name])  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType, reportUnknownArgumentType]: the kind says that it is a shape
        require(static, f"its attribute {name!r} is no static shape")


def _check_halves(
    op: pb.OpDesc, contract: Contract, types: Mapping[str, TensorType], outputs: Sequence[TensorType]
) -> None:
    if contract.halves:
        return
    for i, name in enumerate(op.inputs):
        what = contract.inputs[min(i, len(contract.inputs) - 1)]
        half = name and types[name].dtype in HALVES
        require(
            not half, f"{what} is {types[name].dtype if name else ''}, which it cannot compute with; float32 it can"
        )
    for type in outputs:
        require(type.dtype not in HALVES, f"its output is {type.dtype}, which it does not make; a cast does")


def _shown(kinds: Mapping[str, str]) -> str:
    return f"({', '.join(f'{name}: {kind}' for name, kind in kinds.items())})"


def _closest(name: str) -> str:
    from difflib import get_close_matches  # slow to import, and needed only here

    matches = get_close_matches(name, CONTRACTS, n=1) if len(name) <= LONGEST else []
    return f"; the closest is {matches[0]!r}" if matches else ""
