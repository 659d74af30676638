"""A language model in a GGUF file: its architecture, and its weights by the names that folders have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from compiler.build.brought_arrays import Unread
from compiler.errors import CompileError, compile_errors
from compiler.frontends.language_models.config import Architecture, architecture_in
from compiler.frontends.language_models.gguf_blocks import (
    CODED,
    PLAIN,
    codes_and_scales,
    plain_array,
    widened_blocks,
)
from compiler.frontends.language_models.gguf_names import (
    ARCHITECTURES,
    is_above_one,
    is_transposed,
    name_in_folders,
    rotated_rows,
)
from compiler.frontends.language_models.weights import Tensor, Weights
from prograd_proto import TensorType
from runtime.conversion import converted
from runtime.language.gguf import GgufFile, read_gguf

_SIZES: Final = {
    "block_count": "num_hidden_layers", "context_length": "max_position_embeddings", "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size", "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads", "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps", "rope.freq_base": "rope_theta",
    "attention.sliding_window": "sliding_window", "rope.freq_base_swa": "rope_local_base_freq",
}  # fmt: skip
_SIZES_GPT2: Final = {
    "block_count": "n_layer", "context_length": "n_positions", "embedding_length": "n_embd",
    "feed_forward_length": "n_inner", "attention.head_count": "n_head",
    "attention.layer_norm_epsilon": "layer_norm_epsilon",
}  # fmt: skip
_NEUTRAL: Final = {
    "rope.scaling.type": ("none", "linear"), "expert_count": (0,), "expert_used_count": (0,),
    "attention.clamp_kqv": (0.0,), "attn_logit_softcapping": (0.0,), "final_logit_softcapping": (0.0,),
    "tensor_data_layout": ("Meta AI original pth", "reference"),
}  # fmt: skip
"""Keys that must have one of these values."""

FACTORS: Final = "rope_freqs.weight"
"""The tensor by which files of the architecture llama divide the rotation of each pair."""

_STOPS: Final = ("eos_token_id", "eot_token_id", "eom_token_id")


def read_model(path: Path) -> tuple[Architecture, Weights, GgufFile]:
    """Return the architecture and the weights of a file; raise CompileError for a damaged or unknown one."""
    with compile_errors():
        file = read_gguf(path)
    word = file.values.get("general.architecture")
    if not isinstance(word, str) or word not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise CompileError(f"{path}: general.architecture is {word!r}; there is a builder for {known}")
    made = architecture_of_file(file)
    return replace(made, rotary_factors=_factors(file, made)), GgufWeights(file, made), file


def architecture_of_file(file: GgufFile) -> Architecture:
    """Return the architecture that the header of a file describes; raise CompileError for keys that have no builder."""
    return architecture_in(file.path, _config(file, file.values["general.architecture"]))


def _factors(file: GgufFile, made: Architecture) -> tuple[float, ...]:
    """Return what the rotation of each pair is divided by: numbers of the header or of a tensor."""
    tensor = file.tensors.get(FACTORS)
    if tensor is None or made.family != "llama":
        return made.rotary_factors
    count = made.head_size // 2
    if made.rotary_factors or tensor.kind.name != "F32" or tensor.shape != (count,):
        raise CompileError(
            f"{file.path}: {FACTORS} does not have {count} numbers of F32, or the header has a factor beside them"
        )
    with compile_errors():
        factors = np.frombuffer(file.bytes_of(FACTORS), "<f4").tolist()
    if not all(0 < factor < math.inf for factor in factors):
        raise CompileError(f"{file.path}: {FACTORS} has a number that is not positive")
    return tuple(factors)


def _config(file: GgufFile, word: str) -> dict[str, Any]:
    """Return the description of the model in the file, in the form of config.json."""
    given, beside = _sizes(file, word)
    codes = file.tensors.get("token_embd.weight")
    if codes is not None:
        given["vocab_size"] = codes.shape[0]
        _require_codes(file, codes.shape[0])
    given |= {"model_type": ARCHITECTURES[word], "eos_token_id": _stops(file)}
    given["tie_word_embeddings"] = "output.weight" not in file.tensors
    if word in ("llama", "qwen3", "gemma3"):
        given["attention_bias"] = "blk.0.attn_output.bias" in file.tensors
    if word == "llama":
        given["mlp_bias"] = "blk.0.ffn_gate.bias" in file.tensors
    if word == "gemma3":
        given["query_pre_attn_scalar"] = given.get("head_dim", 256)
        given.setdefault("sliding_window", None)
    _require_whole_heads(file, given, beside)
    return given


def _sizes(file: GgufFile, word: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the keys of the architecture by the names of config.json, and those that only repeat others."""
    sizes = _SIZES_GPT2 if word == "gpt2" else _SIZES
    given, beside = dict[str, Any](), dict[str, Any]()
    for key, value in file.values.items():
        name = key.removeprefix(f"{word}.")
        if name in sizes:
            given[sizes[name]] = value
        elif name == "rope.scaling.factor":
            if value not in (0.0, 1.0) and file.values.get(f"{word}.rope.scaling.type") != "none":
                given["rope_scaling"] = {"rope_type": "linear", "factor": value}
        elif name in ("rope.dimension_count", "attention.value_length", "vocab_size"):
            beside[name] = value
        elif name != key and value not in _NEUTRAL.get(name, ()):
            raise CompileError(f"{file.path}: {key} is {value!r}, which the builder of {word} does not know")
    return given, beside


def _require_codes(file: GgufFile, codes: int) -> None:
    tokens = file.values.get("tokenizer.ggml.tokens")
    if isinstance(tokens, list) and len(tokens) > codes:
        raise CompileError(f"{file.path}: the tokenizer has {len(tokens)} codes, and token_embd.weight {codes}")


def _require_whole_heads(file: GgufFile, given: Mapping[str, Any], beside: Mapping[str, Any]) -> None:
    """Raise CompileError for heads of which a part is rotated, or whose values have another size."""
    heads, width = given.get("num_attention_heads", 1), given.get("hidden_size", 1)
    if not all(type(each) is int and each > 0 for each in (heads, width)):
        return  # the builder says what is wrong
    size = given.get("head_dim", width // heads)
    for name, value in beside.items():
        if name != "vocab_size" and value != size:
            raise CompileError(f"{file.path}: {name} is {value!r}, and a head has {size} numbers; both must be equal")


def _stops(file: GgufFile) -> list[int]:
    found = [file.values.get(f"tokenizer.ggml.{key}") for key in _STOPS]
    return [code for code in found if type(code) is int]


class GgufWeights(Weights):
    """The tensors of a GGUF file by the names of folders."""

    config = "what the file says of its model"

    def __init__(self, file: GgufFile, made: Architecture) -> None:
        """Name the tensors; raise CompileError for one that no layer has."""
        self.folder, self.file, self.made = file.path, file, made
        self.tensors, self._there = {}, {}
        for there, tensor in file.tensors.items():
            if there == FACTORS and made.family == "llama":
                continue
            name = name_in_folders(made.family, there)
            if name is None:
                raise CompileError(f"{file.path}: no layer of {made.family} reads the tensor {there[:80]}")
            turned = is_transposed(made.family, name)
            if (turned or name.endswith(("norm.weight", ".bias"))) and len(tensor.shape) != 1 + turned:
                raise CompileError(f"{file.path}: {there[:80]} has the shape {list(tensor.shape)}")
            shape = tensor.shape[::-1] if turned else tensor.shape
            kind = tensor.kind.name
            kept = not turned and not is_above_one(made.family, name) and len(tensor.shape) == 2
            dtype = PLAIN.get(kind) or (CODED.get(kind, "float32") if kept else "float32")
            self.tensors[name], self._there[name] = Tensor(there, dtype, shape), there

    def array(self, name: str) -> Any:
        """Return a tensor as float32."""
        there = self._there[name]
        tensor, raw = self.file.tensors[there], self._bytes(name)
        if tensor.kind.name in PLAIN:
            array = converted(plain_array(tensor, raw), "float32")
        else:
            array = widened_blocks(tensor, raw)
        array = self._ordered(name, array.T if is_transposed(self.made.family, name) else array)
        return array - np.float32(1) if is_above_one(self.made.family, name) else np.ascontiguousarray(array)

    def unread(self, name: str, *, trained: bool) -> Unread:
        """Return a tensor as float32 if it is trained or has blocks, else in the dtype that the file has."""
        dtype = self.tensors[name].dtype
        if trained or dtype in CODED.values() or dtype == "float32":
            return Unread(TensorType("float32", self.tensors[name].shape), partial(self.array, name))
        return Unread(TensorType(dtype, self.tensors[name].shape), partial(self._plain, name))

    def coded(self, name: str) -> tuple[Unread, Unread]:
        """Return the codes and scales of a tensor."""
        kind, (*rows, width) = self.file.tensors[self._there[name]].kind, self.tensors[name].shape
        blocks, code_bytes = width // kind.elements, kind.nbytes - 2  # a scale has 2 bytes
        types = TensorType("uint8", (*rows, blocks * code_bytes)), TensorType("float16", (*rows, blocks))
        codes, scales = (Unread(type, partial(self._part, name, i)) for i, type in enumerate(types))
        return codes, scales

    def _plain(self, name: str) -> Any:
        """Return a tensor of 16 bits as the file has it."""
        if is_above_one(self.made.family, name):
            return converted(self.array(name), self.tensors[name].dtype)
        array = plain_array(self.file.tensors[self._there[name]], self._bytes(name))
        turned = array.T if is_transposed(self.made.family, name) else array
        return np.ascontiguousarray(self._ordered(name, turned))

    def _part(self, name: str, number: int) -> Any:
        """Return the codes of a tensor, which are part 0, or its scales."""
        parts = codes_and_scales(self.file.tensors[self._there[name]], self._bytes(name))
        return self._ordered(name, parts[number])

    def _bytes(self, name: str) -> bytes:
        with compile_errors():
            return self.file.bytes_of(self._there[name])

    def _ordered(self, name: str, array: Any) -> Any:
        made = self.made
        rows = rotated_rows(made.family, name, made.heads, made.groups, array.shape[0], outwards=False)
        return array if rows is None else array[rows]
