"""Loads, checks and runs a program.

    import runtime

    run = runtime.load("digits.pb")
    run.train().history
    run.evaluate("test")
    run.predict(images)["probabilities"]
    run.state["output.w"]
    run.save("trained.safetensors")

Names are imported on first use, because the commands must configure BLAS before NumPy is imported.

contract        the description of an operator for engines and checks: types, attributes, view, random bits, effects
row_rules       the fact of an operator that tells when its rows are independent
kernel          the declaration of an operator with its rule and its kernel for the reference engine
operators       every operator by its contract
plugins         operators of other packages
target          the engine that programs are compiled for
one_op          one op by its kernel, for constant folding and initial values
constants       the constants of a program as arrays
conversion      conversion of arrays that enter and leave the runtime
dtypes          arrays in memory, and NumPy's dtypes for those of programs
address_space   the system's limit on addresses, checked before a library reaches it
philox          random bits of streams
blas            BLAS on one thread
usable_cores    the number of cores that this process may use, which is a run's default number of threads
added_steps     the addition of steps that another compilation of a program has
entries         entries with their bindings and feeds
errors          errors of a run
hidden_packages files of the user that hide packages of prograd
extras          packages that only some commands need

check, step, placement, memory, codegen, engines, ahead, ranks, runs, rows, files, language, serving, pictures,
sinks, commands and command_line are packages.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers know it; typing itself is slow to import
if TYPE_CHECKING:
    from prograd_proto import PluginError as PluginError
    from prograd_proto import ProgramError as ProgramError
    from runtime.errors import DataError as DataError
    from runtime.errors import ExecutionError as ExecutionError
    from runtime.errors import NonFinite as NonFinite
    from runtime.errors import ResourceLimit as ResourceLimit
    from runtime.errors import UsageError as UsageError
    from runtime.plugins import use_plugin as use_plugin
    from runtime.runs.events import CheckpointWritten as CheckpointWritten
    from runtime.runs.events import EpochEnd as EpochEnd
    from runtime.runs.events import EvaluationEnd as EvaluationEnd
    from runtime.runs.events import Event as Event
    from runtime.runs.events import StepEnd as StepEnd
    from runtime.runs.reproducer import write_reproducer as write_reproducer
    from runtime.runs.run import Run as Run
    from runtime.runs.run import load as load
    from runtime.runs.shown.training_result import TrainingResult as TrainingResult

_HOMES = {
    **dict.fromkeys(("PluginError", "ProgramError"), "prograd_proto"),
    **dict.fromkeys(("DataError", "ExecutionError", "NonFinite", "ResourceLimit", "UsageError"), "runtime.errors"),
    **dict.fromkeys(("CheckpointWritten", "EpochEnd", "EvaluationEnd", "Event", "StepEnd"), "runtime.runs.events"),
    "use_plugin": "runtime.plugins",
    "write_reproducer": "runtime.runs.reproducer",
    **dict.fromkeys(("Run", "load"), "runtime.runs.run"),
    "TrainingResult": "runtime.runs.shown.training_result",
}


def __getattr__(name: str) -> object:
    from runtime.hidden_packages import require_visible

    require_visible("prograd_proto")
    if name not in _HOMES:
        from prograd_proto.spelling import closest

        hint = "" if name.startswith("_") else closest(name, _HOMES)
        raise AttributeError(f"module 'runtime' has no attribute {name!r}{hint}")
    from importlib import import_module

    thing = globals()[name] = getattr(import_module(_HOMES[name]), name)  # the second access finds it at once
    return thing


def __dir__() -> list[str]:
    return sorted(_HOMES)
