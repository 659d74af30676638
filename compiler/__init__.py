"""Builds programs, appends gradients and updates, and compiles them into one file.

from compiler import Program, adam, ops, warmup_cosine

program          Program: tensors, minimize, data, run, compile
state_table      the states that it declares
descent          what minimize appends
assembly         from what was built to blocks and entries
opened           a file as something to build on
backward         gradients of any tensors
optimizers       sgd, momentum, adam and their like; trust_ratios has lamb, lars and adafactor
clipping         limits of gradients
schedules        learning rates as ops
metrics          of all rows of an epoch or an evaluation
initialisers     first values of parameters
plugins          operators of other packages
pipeline         the list of passes; one file a pass
plan_program     planning with care and to a budget; rematerialise says what runs again
rewrite          the walk of those that leave out ops; simplify has its rules in identities and rearrangements

Names are looked up when they are first used: the command minds signals before anything large is imported.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers know it; typing itself is slow to import
if TYPE_CHECKING:
    from compiler.build.compiled import Compiled as Compiled
    from compiler.build.plugins import use_plugin as use_plugin
    from compiler.build.program import Program as Program
    from compiler.errors import CompileError as CompileError
    from compiler.train import clipping as clipping
    from compiler.train import initialisers as initialisers
    from compiler.train import metrics as metrics
    from compiler.train import optimizers as optimizers
    from compiler.train import schedules as schedules
    from compiler.train import trust_ratios as trust_ratios
    from compiler.train.backward import gradients as gradients
    from compiler.train.clipping import by_norm as by_norm
    from compiler.train.clipping import by_value as by_value
    from compiler.train.clipping import global_norm as global_norm
    from compiler.train.initialisers import constant as constant
    from compiler.train.initialisers import from_file as from_file
    from compiler.train.initialisers import glorot_normal as glorot_normal
    from compiler.train.initialisers import glorot_uniform as glorot_uniform
    from compiler.train.initialisers import he_normal as he_normal
    from compiler.train.initialisers import he_uniform as he_uniform
    from compiler.train.initialisers import identity as identity
    from compiler.train.initialisers import normal as normal
    from compiler.train.initialisers import orthogonal as orthogonal
    from compiler.train.initialisers import truncated_normal as truncated_normal
    from compiler.train.initialisers import uniform as uniform
    from compiler.train.initialisers import variance_scaling as variance_scaling
    from compiler.train.initialisers import zeros as zeros
    from compiler.train.optimizers import adadelta as adadelta
    from compiler.train.optimizers import adagrad as adagrad
    from compiler.train.optimizers import adam as adam
    from compiler.train.optimizers import adamax as adamax
    from compiler.train.optimizers import adamw as adamw
    from compiler.train.optimizers import lion as lion
    from compiler.train.optimizers import look_ahead as look_ahead
    from compiler.train.optimizers import momentum as momentum
    from compiler.train.optimizers import nadam as nadam
    from compiler.train.optimizers import nesterov as nesterov
    from compiler.train.optimizers import radam as radam
    from compiler.train.optimizers import rmsprop as rmsprop
    from compiler.train.optimizers import sgd as sgd
    from compiler.train.schedules import warmup_cosine as warmup_cosine
    from compiler.train.trust_ratios import adafactor as adafactor
    from compiler.train.trust_ratios import lamb as lamb
    from compiler.train.trust_ratios import lars as lars
    from registry import OpError as OpError
    from registry import Value as Value
    from registry import ops as ops

_ROOMS = ("clipping", "initialisers", "metrics", "optimizers", "schedules", "trust_ratios")
"""Modules of compiler.train."""

_NAMES = {
    "compiler.build.compiled": "Compiled",
    "compiler.build.plugins": "use_plugin",
    "compiler.build.program": "Program",
    "compiler.errors": "CompileError",
    "compiler.train.backward": "gradients",
    "compiler.train.clipping": "by_norm by_value global_norm",
    "compiler.train.initialisers": "constant from_file glorot_normal glorot_uniform he_normal he_uniform identity "
    "normal orthogonal truncated_normal uniform variance_scaling zeros",
    "compiler.train.optimizers": "adadelta adagrad adam adamax adamw lion look_ahead momentum nadam nesterov radam "
    "rmsprop sgd",
    "compiler.train.schedules": "warmup_cosine",
    "compiler.train.trust_ratios": "adafactor lamb lars",
    "registry": "OpError Value ops",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name == "__all__":
        return __dir__()
    if name not in _HOMES and name not in _ROOMS:
        raise AttributeError(f"module 'compiler' has no attribute {name!r}")
    from importlib import import_module

    if name in _ROOMS:
        return import_module(f"compiler.train.{name}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*_HOMES, *_ROOMS])
