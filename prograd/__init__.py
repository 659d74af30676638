"""One import for all that a user needs: what builds programs, and what runs them.

    import prograd
    from prograd import Program, adam, layers, ops

    prograd.load("digits.pb").evaluate("test")

layers        functions that declare states and call operators: dense, conv, lstm, attention …
found_rooms   imports the packages that the names lie in, and says so where a file of the user's hides one

A name is looked up when it is first used, in the package that has it: `load` and `Run` need neither `compiler` nor
`registry`, and importing this package imports none of them.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers know it; typing itself is slow to import
if TYPE_CHECKING:
    from compiler import Compiled as Compiled
    from compiler import CompileError as CompileError
    from compiler import OpError as OpError
    from compiler import Program as Program
    from compiler import Value as Value
    from compiler import adadelta as adadelta
    from compiler import adafactor as adafactor
    from compiler import adagrad as adagrad
    from compiler import adam as adam
    from compiler import adamax as adamax
    from compiler import adamw as adamw
    from compiler import by_norm as by_norm
    from compiler import by_value as by_value
    from compiler import clipping as clipping
    from compiler import constant as constant
    from compiler import from_file as from_file
    from compiler import global_norm as global_norm
    from compiler import glorot_normal as glorot_normal
    from compiler import glorot_uniform as glorot_uniform
    from compiler import gradients as gradients
    from compiler import he_normal as he_normal
    from compiler import he_uniform as he_uniform
    from compiler import identity as identity
    from compiler import initialisers as initialisers
    from compiler import lamb as lamb
    from compiler import lars as lars
    from compiler import lion as lion
    from compiler import look_ahead as look_ahead
    from compiler import metrics as metrics
    from compiler import momentum as momentum
    from compiler import nadam as nadam
    from compiler import nesterov as nesterov
    from compiler import normal as normal
    from compiler import ops as ops
    from compiler import optimizers as optimizers
    from compiler import orthogonal as orthogonal
    from compiler import radam as radam
    from compiler import rmsprop as rmsprop
    from compiler import schedules as schedules
    from compiler import sgd as sgd
    from compiler import truncated_normal as truncated_normal
    from compiler import trust_ratios as trust_ratios
    from compiler import uniform as uniform
    from compiler import use_plugin as use_plugin  # both halves of it; runtime.use_plugin has the kernels alone
    from compiler import variance_scaling as variance_scaling
    from compiler import warmup_cosine as warmup_cosine
    from compiler import zeros as zeros
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
    from runtime import UsageError as UsageError
    from runtime import load as load
    from runtime import write_reproducer as write_reproducer

_BUILT = """
    Compiled CompileError OpError Program Value
    clipping initialisers metrics ops optimizers schedules trust_ratios
    adadelta adafactor adagrad adam adamax adamw lamb lars lion look_ahead momentum nadam nesterov radam rmsprop sgd
    by_norm by_value global_norm gradients use_plugin warmup_cosine
    constant from_file glorot_normal glorot_uniform he_normal he_uniform identity normal orthogonal truncated_normal
    uniform variance_scaling zeros
""".split()  # noqa: SIM905 - a table to be read
_RUN = """
    CheckpointWritten DataError EpochEnd EvaluationEnd Event ExecutionError NonFinite PluginError ProgramError
    ResourceLimit Run StepEnd UsageError load write_reproducer
""".split()  # noqa: SIM905 - a table to be read
_HOMES = dict.fromkeys(_BUILT, "compiler") | dict.fromkeys(_RUN, "runtime") | {"layers": ""}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(_unknown(name))
    from importlib import import_module

    from prograd.found_rooms import found_room

    home = _HOMES[name]
    thing = getattr(found_room(home), name) if home else import_module(f"prograd.{name}")
    globals()[name] = thing
    return thing


def __dir__() -> list[str]:
    return sorted(_HOMES)


def _unknown(name: str) -> str:
    if name.startswith("__"):  # what tools ask every module for
        return f"module 'prograd' has no attribute {name!r}"
    from prograd.found_rooms import found_room

    found_room("runtime")
    from prograd_proto.spelling import closest

    return f"there is no {name!r} in prograd{closest(name, _HOMES)}"
