"""Adapters of a folder of PEFT, for a language model: which weights they are of, and their values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from typing import Any, Final, NamedTuple

from compiler.build.program import Program
from compiler.errors import CompileError, compile_errors
from compiler.frontends.initial_values import InitialValues
from compiler.frontends.language_models.config_keys import Config, read_json
from compiler.frontends.language_models.from_encoder import head_of
from compiler.train.adapters import MAGNITUDE, A, B
from runtime.conversion import converted
from runtime.files.tensor_files import read_safetensors

CONFIG: Final = "adapter_config.json"
MAGNITUDE_VECTOR: Final = "magnitude_vector"
_NAME: Final = re.compile(
    r"base_model\.model\.(.+)\.lora_(?:([AB])(?:\.default)?\.weight|(magnitude_vector)(?:\.default)?(?:\.weight)?)"
)
_REFUSED: Final = {"lora_bias": False, "bias": "none"}
"""Keys of the config, and the one value of each that is understood."""


class PeftAdapter(NamedTuple):
    """The factors of a module's adapter, [rank, inputs] and [outputs, rank], and the factor of their product.

    `magnitude` [outputs] is there for DoRA.
    """

    down: Any
    up: Any
    scale: float
    magnitude: Any


def read_peft(folder: Path, head: Sequence[str] = ()) -> tuple[dict[str, PeftAdapter], dict[str, Any]]:
    """Return the adapters of a folder by module, and the weights of layers of a head that are saved whole.

    Raises CompileError for adapters that are no LoRA, or are damaged.
    """
    config, whole = _config(folder, head), dict[str, Any]()
    dora, stable = (Config(folder / CONFIG, config).flag(key, False) for key in ("use_dora", "use_rslora"))
    made: dict[str, PeftAdapter] = {}
    for module, pair in _factors(folder / "adapter_model.safetensors", head, whole).items():
        if set(pair) != {"A", "B", *([MAGNITUDE_VECTOR] if dora else [])} or not _fit(pair):
            raise CompileError(f"{folder}: the factors of {module} do not fit each other")
        alpha = _of_module(config.get("alpha_pattern"), module, config.get("lora_alpha", 8))
        if isinstance(alpha, bool) or not isinstance(alpha, int | float):
            raise CompileError(f"{folder / CONFIG}: lora_alpha is {alpha!r}, not a number")
        rank = pair["A"].shape[0]
        made[module] = PeftAdapter(
            pair["A"], pair["B"], alpha / (sqrt(rank) if stable else rank), pair.get(MAGNITUDE_VECTOR)
        )
    if not made:
        raise CompileError(f"{folder}: there are no adapters")
    return made, whole


def _fit(pair: dict[str, Any]) -> bool:
    """Return True if the arrays of an adapter fit each other."""
    a, b, magnitude = pair["A"], pair["B"], pair.get(MAGNITUDE_VECTOR)
    if a.ndim != 2 or b.ndim != 2 or a.shape[0] != b.shape[1]:
        return False
    return magnitude is None or magnitude.shape == (b.shape[0],)


def _config(folder: Path, head: Sequence[str]) -> dict[str, Any]:
    path = folder / CONFIG
    config = read_json(path)
    if config.get("peft_type") != "LORA":
        raise CompileError(f"{path}: peft_type is {config.get('peft_type')!r}; LORA is understood")
    for key, known in {**_REFUSED, **({} if head else {"modules_to_save": None})}.items():
        if config.get(key, known) not in (known, None, []):
            raise CompileError(f"{path}: {key} is {config[key]!r}, which is not understood")
    return config


def _factors(path: Path, head: Sequence[str], whole: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the arrays of a file of weights by module and letter; those of layers of a head go into `whole`."""
    with compile_errors():
        arrays = read_safetensors(path)[0]
    factors: dict[str, dict[str, Any]] = {}
    for name, array in arrays.items():
        found, own = _NAME.fullmatch(name), name.removeprefix("base_model.model.")
        if found is None and own.startswith(tuple(f"{layer}." for layer in head)):
            whole[own] = converted(array, "float32")
            continue
        if found is None or not array.size:
            raise CompileError(f"{path}: {name} is no factor of an adapter")
        factors.setdefault(found[1], {})[found[2] or found[3]] = converted(array, "float32")
    return factors


def add_peft(program: Program, folder: Path, copies: str) -> list[str]:
    """Add the adapters of a folder, with their values as initial ones in the file `copies`; return the weights.

    Raises CompileError for adapters of another model.
    """
    values, names = InitialValues(program, copies), list[str]()
    adapters, whole = read_peft(folder, head_of(program))
    for own, array in whole.items():
        _replace(program, values, own, array, folder, copies)
    for module, adapter in adapters.items():
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
        names += program.lora(weight, r=rank, alpha=adapter.scale * rank, dora=adapter.magnitude is not None)
        turned = tuple(int(dim.size) for dim in program.states[f"{weight}.{A}"].shape.dims) != adapter.down.shape
        for word, array in ((A, adapter.down), (B, adapter.up), (MAGNITUDE, adapter.magnitude)):
            if array is None:
                continue
            _replace(program, values, f"{weight}.{word}", (array.T if turned else array).copy(), folder, copies)
    return names


def _replace(program: Program, values: InitialValues, name: str, array: Any, folder: Path, copies: str) -> None:
    """Set the initial value of a state to an array; raise CompileError if no array has its shape."""
    state = program.states.get(name)
    shape = None if state is None else [int(dim.size) for dim in state.shape.dims]
    if state is None or shape != list(array.shape):
        there = "the model has no such weight" if shape is None else f"that of the model is {shape}"
        raise CompileError(f"{folder}: {name} is {list(array.shape)}; {there}")
    values.add(name, array)
    state.ClearField("initial")
    state.external.path, state.external.key = copies, name


def _of_module(patterns: Any, module: str, default: Any) -> Any:
    """Return the entry of a table of PEFT for a module, found by its name or by the end of its name."""
    for pattern, value in patterns.items() if isinstance(patterns, dict) else ():
        if module == pattern or module.endswith(f".{pattern}"):
            return value
    return default
