"""Adapters of a folder of PEFT, for a language model: which weights they are of, and their values."""

# pyright: basic
# arrays and JSON have no types here.

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, NamedTuple

from compiler.build.program import Program
from compiler.errors import CompileError
from compiler.frontends.initial_values import InitialValues
from compiler.frontends.language_models.config import read_json
from compiler.train.adapters import A, B
from runtime.conversion import converted
from runtime.errors import ExecutionError
from runtime.files.tensor_files import read_safetensors

_NAME: Final = re.compile(r"base_model\.model\.(.+)\.lora_([AB])(?:\.default)?\.weight")
_REFUSED: Final = {"use_dora": False, "use_rslora": False, "modules_to_save": None, "lora_bias": False, "bias": "none"}
"""Keys of the config, and the one value of each that is understood."""


class PeftAdapter(NamedTuple):
    """The factors of a module's adapter, [rank, inputs] and [outputs, rank], and the factor of their product."""

    down: Any
    up: Any
    scale: float


def read_peft(folder: Path) -> dict[str, PeftAdapter]:
    """Return the adapters of a folder by module; raise CompileError for what is no LoRA, or is damaged."""
    config = _config(folder)
    made: dict[str, PeftAdapter] = {}
    for module, pair in _factors(folder / "adapter_model.safetensors").items():
        if set(pair) != {"A", "B"} or pair["A"].shape[0] != pair["B"].shape[1]:
            raise CompileError(f"{folder}: the factors of {module} do not fit each other")
        alpha = _of_module(config.get("alpha_pattern"), module, config.get("lora_alpha", 8))
        if isinstance(alpha, bool) or not isinstance(alpha, int | float):
            raise CompileError(f"{folder / 'adapter_config.json'}: lora_alpha is {alpha!r}, not a number")
        made[module] = PeftAdapter(pair["A"], pair["B"], alpha / pair["A"].shape[0])
    if not made:
        raise CompileError(f"{folder}: there are no adapters")
    return made


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "adapter_config.json"
    config = read_json(path)
    if config.get("peft_type") != "LORA":
        raise CompileError(f"{path}: peft_type is {config.get('peft_type')!r}; LORA is understood")
    for key, known in _REFUSED.items():
        if config.get(key, known) not in (known, None, []):
            raise CompileError(f"{path}: {key} is {config[key]!r}, which is not understood")
    return config


def _factors(path: Path) -> dict[str, dict[str, Any]]:
    """Return the arrays of a file of weights by module and letter."""
    try:
        arrays = read_safetensors(path)[0]
    except ExecutionError as error:
        raise CompileError(str(error)) from None
    factors: dict[str, dict[str, Any]] = {}
    for name, array in arrays.items():
        found = _NAME.fullmatch(name)
        if found is None or array.ndim != 2 or not array.size:
            raise CompileError(f"{path}: {name} is no factor of an adapter")
        factors.setdefault(found[1], {})[found[2]] = converted(array, "float32")
    return factors


def add_peft(program: Program, folder: Path, copies: str) -> list[str]:
    """Add the adapters of a folder, with their values as initial ones in the file `copies`; return the weights.

    Raises CompileError for adapters of another model.
    """
    values, names = InitialValues(program, copies), list[str]()
    for module, adapter in read_peft(folder).items():
        weight = f"{module}.weight"
        state = program.states.get(weight)
        if state is None:
            raise CompileError(f"{folder}: the adapter of {module} is of another model, which has such a module")
        shape = [int(dim.size) for dim in state.shape.dims]
        outputs, inputs = len(adapter.up), adapter.down.shape[1]
        if sorted(shape) != sorted((outputs, inputs)):
            raise CompileError(
                f"{folder}: the adapter of {module} is for a weight [{outputs}, {inputs}]; that of the model is {shape}"
            )
        rank = adapter.down.shape[0]
        names += program.lora(weight, r=rank, alpha=adapter.scale * rank)
        turned = tuple(int(dim.size) for dim in program.states[f"{weight}.{A}"].shape.dims) != adapter.down.shape
        for word, array in ((A, adapter.down), (B, adapter.up)):
            own = f"{weight}.{word}"
            values.add(own, (array.T if turned else array).copy())
            program.states[own].ClearField("initial")
            program.states[own].external.path, program.states[own].external.key = copies, own
    return names


def _of_module(patterns: Any, module: str, default: Any) -> Any:
    """Return what a table of PEFT has for a module: for its name, or for the end of it."""
    for pattern, value in patterns.items() if isinstance(patterns, dict) else ():
        if module == pattern or module.endswith(f".{pattern}"):
            return value
    return default
