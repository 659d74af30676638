"""One import for users: the functions that build programs and those that run them.

    import prograd
    from prograd import Program, adam, layers, ops

    prograd.load("digits.pb").evaluate("test")

layers        functions that declare states and call operators: dense, conv, lstm, attention …
callbacks     callbacks of a training: EarlyStopping, ReduceOnPlateau, Callback
data          rows: packed from tables, images and text, written from arrays, encoded and decoded
sklearn/      estimators for scikit-learn
commands/     the verbs of the command `prograd`: those of `runtime` and `compiler`
other_names   names of Keras and PyTorch for the functions of this package
found_packages imports the packages of these names, and reports a file of the user's that hides one

A name is looked up on first use, in its package: `load` and `Run` need neither `compiler` nor `registry`, and importing
this package imports none of the others.
"""

from __future__ import annotations

TYPE_CHECKING = False  # pyright: ignore[reportConstantRedefinition]: the star below brings another; typing is slow to import
if TYPE_CHECKING:
    from compiler import *  # noqa: F403 - all that it gives; use_plugin is its own, for both halves of a plugin
    from prograd import callbacks as callbacks
    from prograd import data as data
    from prograd import layers as layers
    from runtime import CheckpointWritten as CheckpointWritten
    from runtime import DataError as DataError
    from runtime import EpochEnd as EpochEnd
    from runtime import EvaluationEnd as EvaluationEnd
    from runtime import Event as Event
    from runtime import ExecutionError as ExecutionError
    from runtime import NonFinite as NonFinite
    from runtime import PluginError as PluginError
    from runtime import ProgramError as ProgramError
    from runtime import ResourceLimit as ResourceLimit
    from runtime import Run as Run
    from runtime import StepEnd as StepEnd
    from runtime import TrainingResult as TrainingResult
    from runtime import UsageError as UsageError
    from runtime import load as load
    from runtime import write_reproducer as write_reproducer

_RUN = """
    CheckpointWritten DataError EpochEnd EvaluationEnd Event ExecutionError NonFinite PluginError ProgramError
    ResourceLimit Run StepEnd TrainingResult UsageError load write_reproducer
""".split()  # noqa: SIM905 - a table to be read
"""Names of the library; all others are the builder's."""

_MODULES = "callbacks", "data", "layers"


def __getattr__(name: str) -> object:
    if name == "__all__":  # for `from prograd import *`
        return __dir__()
    if name.startswith("__"):  # tools look these up in every module
        raise AttributeError(f"module 'prograd' has no attribute {name!r}")
    thing = globals()[name] = _found(name)
    return thing


def __dir__() -> list[str]:
    from prograd.found_packages import found_room

    return sorted({*dir(found_room("compiler")), *_RUN, *_MODULES})


def _found(name: str) -> object:
    if name in _MODULES:
        from importlib import import_module

        return import_module(f"prograd.{name}")
    from prograd.found_packages import found_room

    room = found_room("runtime" if name in _RUN else "compiler")
    if not hasattr(room, name):
        from prograd.other_names import no_public_name

        raise no_public_name(name, __dir__())
    return getattr(room, name)
