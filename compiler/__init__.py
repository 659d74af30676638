"""Builder and compiler of programs: appends gradients and updates, and compiles a program into one file.

from compiler import Program, adam, ops, warmup_cosine

build         programs, tensors, states and data, as messages from the first call on
train         gradients, updates, learning rates, clipping and initial values, appended by `minimize`
passes        the passes of `compile`: their table, and one file a pass
frontends     imports of models of other frameworks
exporters     programs as models of other frameworks
onnx_operators operators of ONNX and of prograd in terms of each other, by family
quantization  weights as codes of few bits
analyses      questions about a block: graphs, costs, lifespans, reports
planning      the passes of `plan`: memory budgets, spilled values, space for threads
data          rows packed from tables, arrays, images and text
compare       the differences of two programs
gradcheck     numeric against analytic gradients
reference     pages generated from the registry and the tables of passes
commands      the verbs of the command
errors        errors of passes and verbs
aligned_text  rows of words as aligned columns
hidden_packages  files of the user that hide packages which the command needs

Names are looked up when they are first used: the command handles signals before anything large is imported.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the name that type checkers know; typing itself is slow to import
if TYPE_CHECKING:
    from compiler.build.compiled import Compiled as Compiled
    from compiler.build.mixed import mixed as mixed
    from compiler.build.plugins import use_plugin as use_plugin
    from compiler.build.program import Program as Program
    from compiler.build.quantized_training import qat as qat
    from compiler.errors import CompileError as CompileError
    from compiler.errors import LimitError as LimitError
    from compiler.exporters.onnx.to_onnx import to_onnx as to_onnx
    from compiler.frontends.language_models.from_lm import from_lm as from_lm
    from compiler.frontends.onnx.from_onnx import from_onnx as from_onnx
    from compiler.frontends.torch import from_torch as from_torch
    from compiler.train import clipping as clipping
    from compiler.train import initialisers as initialisers
    from compiler.train import metrics as metrics
    from compiler.train import optimizers as optimizers
    from compiler.train import schedules as schedules
    from compiler.train import trust_ratios as trust_ratios
    from compiler.train.backward import gradients as gradients
    from compiler.train.clipping import *  # noqa: F403 - its __all__ says what
    from compiler.train.initialisers import *  # noqa: F403 - as above
    from compiler.train.optimizers import *  # noqa: F403 - as above
    from compiler.train.schedules import warmup_cosine as warmup_cosine
    from compiler.train.trust_ratios import *  # noqa: F403 - as above
    from registry import OpError as OpError
    from registry import Value as Value
    from registry import ops as ops

_MODULES = ("clipping", "initialisers", "metrics", "optimizers", "schedules", "trust_ratios")
"""Modules of compiler.train."""

_FAMILIES = ("clipping", "initialisers", "optimizers", "trust_ratios")
"""Modules of compiler.train whose `__all__` is exported here as well."""

_NAMES = {
    "compiler.build.compiled": "Compiled",
    "compiler.build.mixed": "mixed",
    "compiler.build.quantized_training": "qat",
    "compiler.build.plugins": "use_plugin",
    "compiler.build.program": "Program",
    "compiler.errors": "CompileError LimitError",
    "compiler.exporters.onnx.to_onnx": "to_onnx",
    "compiler.frontends.language_models.from_lm": "from_lm",
    "compiler.frontends.onnx.from_onnx": "from_onnx",
    "compiler.frontends.torch": "from_torch",
    "compiler.train.backward": "gradients",
    "compiler.train.schedules": "warmup_cosine",
    "registry": "OpError Value ops",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name == "__all__":
        return __dir__()
    if name.startswith("_"):  # tools look these up in every module
        raise AttributeError(f"module 'compiler' has no attribute {name!r}")
    from compiler.hidden_packages import require_visible

    require_visible()
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"compiler.train.{name}")
    home = _HOMES.get(name) or _family_of(name)
    if not home:
        from prograd_proto.spelling import closest

        raise AttributeError(f"module 'compiler' has no attribute {name!r}{closest(name, __dir__())}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    from importlib import import_module

    given = [name for family in _FAMILIES for name in import_module(f"compiler.train.{family}").__all__]
    return sorted([*_HOMES, *_MODULES, *given])


def _family_of(name: str) -> str:
    """Return the module of compiler.train that exports a name; "" if none does."""
    from importlib import import_module

    homes = (f"compiler.train.{family}" for family in _FAMILIES)
    return next((home for home in homes if name in import_module(home).__all__), "")
