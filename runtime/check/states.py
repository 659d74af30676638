"""The check of states and their initial values."""

from __future__ import annotations

from prograd_proto import ProgramError, TensorType
from prograd_proto import program_pb2 as pb
from runtime.check.names import check_unique, static_type
from runtime.check.ops import Operators, check_op
from runtime.contract import require
from runtime.step.effects import effects_of

COUNTERS = ("seed", "step", "total_steps")
_COUNTER_TYPE = TensorType("int64", ())


def check_states(operators: Operators) -> None:
    """Raise ProgramError with the first fault of a state of the operators' program."""
    program = operators.program
    check_unique((state.name for state in program.states), "state")
    types = {state.name: static_type(state) for state in program.states}
    for name in COUNTERS:
        require(types.get(name) == _COUNTER_TYPE, f"there is no state {name!r} of type {_COUNTER_TYPE}")
    files = {file.path for file in program.files}
    for state in program.states:
        try:
            _check_state(operators, state, types, files)
        except ProgramError as error:
            raise ProgramError(f"state {state.name!r}: {error}") from None


def _check_state(operators: Operators, state: pb.StateDesc, types: dict[str, TensorType], files: set[str]) -> None:
    require(":" not in state.name, "its name has a colon, which marks the runtime's own tensors")
    require(state.name != "__metadata__", "no file could hold it: safetensors keep this name for themselves")
    require(state.kind in pb.StateKind.values() and state.kind != 0, f"its kind {state.kind} is unknown")
    lasts = state.lifespan in (pb.LIFESPAN_ALWAYS, pb.LIFESPAN_EPOCH)
    require(lasts, f"its lifespan {state.lifespan} is neither always nor epoch")
    require(not state.slot_of or state.slot_of in types, f"it is a slot of {state.slot_of!r}, which is no state")
    if state.HasField("imported"):
        axes, rank = list(state.imported.axes), len(types[state.name].shape)
        require(
            sorted(axes) == list(range(rank)), f"its imported axes {axes} are not those of a tensor with {rank} axes"
        )
        require("__metadata__" not in state.imported.names, "no file could hold its imported name __metadata__")
    match state.WhichOneof("initial"):
        case "op":
            counters = {name: types[name] for name in COUNTERS}
            results = list(check_op(operators, state.op, counters).outputs)
            require(list(state.op.outputs) == [state.name], "its initial op does not define it")
            made = types[state.name].wide
            require(results == [made], f"its initial op gives {results[0]}, not {made}")
            require(not effects_of(state.op.type), "its initial op has effects, which only an op of a step has")
        case "external":
            require(state.external.path in files, f"its file {state.external.path!r} is not among the program's files")
            require(bool(state.external.key), "its initial value has no key")
        case _:
            pass
