"""The check of a bound block: every tensor is defined once, before its use, with the type that its contract gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prograd_proto import ProgramError, TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks.control import BlockTypes, block_types
from runtime.check.names import check_size, check_unique, static_type
from runtime.check.ops import Operators, check_op, described
from runtime.contract import require


def check_block(operators: Operators, block: pb.BlockDesc, states: Mapping[str, TensorType]) -> None:
    """Raise ProgramError with the first fault of a block that is to run.

    Args:
        operators: the operators of the block's program.
        block: a block that a binding names.
        states: the types of all states.
    """
    types = _check_tensors(block)
    require(not block.results, "it has results, which only a sub-block has")
    defined = _check_parameters(block, types, states)
    _check_body(operators, block, types, defined)
    _check_ends(block, defined, states)


def check_inner_block(operators: Operators, number: int) -> BlockTypes:
    """Return the types of a block inside an op; raise ProgramError with its first fault."""
    block = operators.program.blocks[number]
    try:
        types = _check_tensors(block)
        found = block_types(block)
        check_unique((parameter.tensor for parameter in block.parameters), "parameter")
        defined = {parameter.tensor: types[parameter.tensor] for parameter in block.parameters}
        _check_body(operators, block, types, defined)
        for name in block.results:
            require(name in defined, f"it gives %{name}, which nothing defines")
    except ProgramError as error:
        raise ProgramError(f"block {number}: {error}") from None
    return found


def _check_tensors(block: pb.BlockDesc) -> dict[str, TensorType]:
    check_unique((tensor.name for tensor in block.tensors), "tensor")
    return {tensor.name: static_type(tensor) for tensor in block.tensors}


def _check_body(
    operators: Operators, block: pb.BlockDesc, types: Mapping[str, TensorType], defined: dict[str, TensorType]
) -> None:
    """Check the ops of a block, and add their outputs to the tensors that are defined."""
    seen: set[int] = set()
    for op in block.ops:
        require(op.id > 0 and op.id not in seen, f"two ops have the id {op.id}, or it is 0")
        seen.add(op.id)
        given, wanted = check_op(operators, op, defined)
        _check_outputs(operators.program, op, types, given, defined)
        for type in wanted:
            check_size(f"scratch of {described(operators.program, op)}", type)
    for name in types:
        if name not in defined:
            raise ProgramError(f"%{name} is described, and nothing defines it")


def _check_parameters(
    block: pb.BlockDesc, types: Mapping[str, TensorType], states: Mapping[str, TensorType]
) -> dict[str, TensorType]:
    check_unique((p.feed for p in block.parameters if p.WhichOneof("source") == "feed"), "feed")
    check_unique((p.state for p in block.parameters if p.WhichOneof("source") == "state"), "state parameter")
    defined: dict[str, TensorType] = {}
    for parameter in block.parameters:
        name = parameter.tensor
        require(name in types and name not in defined, f"the parameter %{name} is not described, or defined twice")
        source = parameter.WhichOneof("source")
        require(source in ("feed", "state"), f"the parameter %{name} comes from neither a feed nor a state")
        if source == "state":
            require(
                parameter.state in states, f"%{name} stands for the state {parameter.state!r}, which does not exist"
            )
            wanted = states[parameter.state]
            require(types[name] == wanted, f"%{name} is {types[name]}, its state {parameter.state!r} is {wanted}")
        defined[name] = types[name]
    return defined


def _check_outputs(
    program: pb.ProgramDesc,
    op: pb.OpDesc,
    types: Mapping[str, TensorType],
    given: Sequence[TensorType],
    defined: dict[str, TensorType],
) -> None:
    """Check the outputs of an op against the types that its contract gives, and add them to `defined`."""
    for name, type in zip(op.outputs, given, strict=True):
        if name not in types or name in defined:
            raise ProgramError(f"{described(program, op)}: its output %{name} is not described, or defined twice")
        if types[name] != type:
            where = described(program, op)
            raise ProgramError(f"{where}: its output %{name} is {types[name]}, the kernel gives {type}")
        defined[name] = type


def _check_ends(block: pb.BlockDesc, defined: Mapping[str, TensorType], states: Mapping[str, TensorType]) -> None:
    check_unique((fetch.name for fetch in block.fetches), "fetch")
    for fetch in block.fetches:
        require(fetch.tensor in defined, f"the fetch {fetch.name!r} reads %{fetch.tensor}, which nothing defines")
        require(
            fetch.over in pb.Over.values() and fetch.over != 0,
            f"the fetch {fetch.name!r} has the unknown over {fetch.over}",
        )
    check_unique((update.state for update in block.updates), "update")
    for update in block.updates:
        require(update.state in states, f"an update is of the state {update.state!r}, which does not exist")
        require(
            update.tensor in defined, f"the update of {update.state!r} reads %{update.tensor}, which nothing defines"
        )
        found, wanted = defined[update.tensor], states[update.state]
        require(found == wanted, f"the update of {update.state!r} is {found}, the state is {wanted}")
