"""Tuned language models for other programs: adapters as a folder of PEFT, and whole models as Hugging Face has them.

PEFT 0.21 reads `adapter_config.json` and `adapter_model.safetensors`: for a module, `lora_A.weight` [rank, inputs] and
`lora_B.weight` [outputs, rank], whose product is multiplied by `lora_alpha` / `r`, and for DoRA
`lora_magnitude_vector` [outputs].
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from compiler.errors import CompileError, compile_errors
from compiler.exporters.merged_states import factors_of, merged_states, plain_states
from compiler.frontends.language_models.from_encoder import description_of
from compiler.train.adapters import MAGNITUDE, A, B, is_adapter
from prograd_proto import program_pb2 as pb
from runtime.conversion import converted
from runtime.files.output import write_output
from runtime.files.tensor_files import write_safetensors
from runtime.language.gguf import is_gguf
from runtime.language.model import FILES, language_model, read_file

PEFT_CONFIG: Final = "adapter_config.json"
PEFT_WEIGHTS: Final = "adapter_model.safetensors"
CONFIG: Final = "config.json"
FLOATS: Final = ("float32", "float16", "bfloat16")
PREFIX: Final = "base_model.model."
"""The word before the names of all modules in PEFT's files."""


def write_peft(program: pb.ProgramDesc, arrays: Mapping[str, Any], folder: Path, *, force: bool) -> int:
    """Write the adapters of a language model as a folder of PEFT; return the number of adapted modules.

    Raises CompileError for a program without adapters, or with those of two kinds, or that is no language model, and
    errors as `write_output`.
    """
    model = _model(program)
    weights = [name.removesuffix(f".{A}") for name in arrays if name.endswith(f".{A}")]
    if not weights:
        raise CompileError("merge: the program has no adapters; compiler import lm --lora adds them")
    magnitudes = {weight: arrays[name] for weight in weights if (name := f"{weight}.{MAGNITUDE}") in arrays}
    if magnitudes and len(magnitudes) < len(weights):
        other = next(weight for weight in weights if weight not in magnitudes)
        raise CompileError(
            f"merge: {next(iter(magnitudes))} has an adapter of DoRA and {other} one without; a folder of PEFT has one "
            "kind, so write --layout hf"
        )
    tensors: dict[str, Any] = {}
    ranks, alphas = dict[str, int](), dict[str, float]()
    inputs_first = model.family == "gpt2"
    for weight in weights:
        module = weight.removesuffix(".weight")
        _, _, scale = factors_of(program, weight)
        a, b = arrays[f"{weight}.{A}"], arrays[f"{weight}.{B}"]
        down, up = (a.T, b.T) if inputs_first else (a, b)
        ranks[module], alphas[module] = down.shape[0], scale * down.shape[0]
        for word, array in (("lora_A", down), ("lora_B", up)):
            tensors[f"{PREFIX}{module}.{word}.weight"] = converted(array, "float32")
        if weight in magnitudes:
            tensors[f"{PREFIX}{module}.lora_magnitude_vector"] = converted(magnitudes[weight], "float32")
    rank, alpha = _most(ranks), _most(alphas)
    for name in (f"{layer}.{word}" for layer in model.head for word in ("weight", "bias")):
        tensors[f"{PREFIX}{name}"] = converted(arrays[name], "float32")
    config = {
        "peft_type": "LORA",
        "task_type": "SEQ_CLS" if model.head else "CAUSAL_LM",
        "base_model_name_or_path": model.folder,
        "modules_to_save": sorted({name.removeprefix("bert.").split(".")[0] for name in model.head}) or None,
        "bias": "none",
        "fan_in_fan_out": inputs_first,
        "inference_mode": True,
        "lora_alpha": alpha,
        "lora_dropout": 0.0,
        "r": rank,
        "use_dora": bool(magnitudes),
        "rank_pattern": {module: own for module, own in ranks.items() if own != rank},
        "alpha_pattern": {module: own for module, own in alphas.items() if own != alpha},
        "target_modules": sorted(ranks),
    }
    _make(folder)
    write_safetensors(folder / PEFT_WEIGHTS, tensors, {"format": "pt"}, force=force)
    write_output(folder / PEFT_CONFIG, _json(config), force=force)
    return len(weights)


def write_hf(program: pb.ProgramDesc, arrays: Mapping[str, Any], beside: Path, folder: Path, *, force: bool) -> int:
    """Write a tuned language model, adapters added to its weights, as a folder of Hugging Face's form.

    Weights get the dtypes that they have in the model's folder, from which all other files are copied. Returns the
    number of weights. Raises CompileError for a program that is no language model, or a folder that is missing, and
    errors as `write_output`.
    """
    from compiler.frontends.language_models.weights import Weights  # few programs are language models

    model = _model(program)
    source = beside / model.folder
    if is_gguf(source):
        raise CompileError(
            f"merge: the model comes from {source}, which is no folder; --layout gguf writes such a file"
        )
    there = Weights(source)
    has_adapters = any(map(is_adapter, arrays))
    states = (merged_states if has_adapters else plain_states)(program, arrays)
    if not model.head:
        tensors = {name: converted(states[name], there.tensors[name].dtype) for name in states if name in there.tensors}
    else:  # a new head is in no file of the folder, whose names may be old
        stored = _most({name: tensor.dtype for name, tensor in there.tensors.items() if tensor.dtype in FLOATS})
        tensors = {name: converted(array, stored) for name, array in states.items()}
    _make(folder)
    write_safetensors(folder / "model.safetensors", tensors, {"format": "pt"}, force=force)
    for name in (CONFIG, "generation_config.json", *FILES, "special_tokens_map.json"):
        if (source / name).is_file():
            with compile_errors():
                raw = read_file(source / name)
                write_output(folder / name, _changed(raw, model.changes) if name == CONFIG else raw, force=force)
    return len(tensors)


def _changed(config: bytes, changes: Mapping[str, Any]) -> bytes:
    """Return a config with changes of some keys."""
    return config if not changes else _json({**json.loads(config), **changes})


class _Model(NamedTuple):
    """The family, the folder, the changed keys of the config and the layers of a head, for decoders and encoders."""

    family: str
    folder: str
    changes: Mapping[str, Any]
    head: list[str]


def _model(program: pb.ProgramDesc) -> _Model:
    encoder = description_of(program)
    if encoder is not None:
        return _Model(encoder["family"], encoder["folder"], encoder["config"], encoder["head"])
    with compile_errors("merge: "):
        model = language_model(program)
    return _Model(model.family, model.folder, model.changes, [])


def _most(values: Mapping[str, Any]) -> Any:
    """Return the most frequent value."""
    counts = [*values.values()]
    return max(counts, key=counts.count)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CompileError(f"{folder}: {(error.strerror or str(error)).lower()}") from None


def _json(given: Mapping[str, Any]) -> bytes:
    return (json.dumps(given, indent=2, sort_keys=True) + "\n").encode()
