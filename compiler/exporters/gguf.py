"""Tuned language models as GGUF files, which llama.cpp and its kin read: weights, config, tokenizer and template.

Weights have the types of the program's source: F32, F16 or BF16 of a folder, and Q8_0 or Q4_0 where the program has
codes. A quantised weight to which an adapter is added becomes F16. Norms and biases are F32.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np

from compiler.errors import CompileError, compile_errors
from compiler.exporters.gguf_read_back import (
    first_and_last,
    has_prefix,
    refuse,
    require_architecture,
    require_tokenizer,
)
from compiler.exporters.merged_states import merged_states, plain_states
from compiler.frontends.language_models.config import Architecture, architecture_of
from compiler.frontends.language_models.gguf_model import FACTORS, read_model
from compiler.frontends.language_models.gguf_names import WORDS, is_above_one, is_transposed, name_in_gguf, rotated_rows
from compiler.frontends.language_models.weights import Weights
from compiler.quantization.weight_names import CODES, SCALES
from compiler.train.adapters import A
from prograd_proto import program_pb2 as pb
from runtime.conversion import converted
from runtime.files.output import write_output
from runtime.language.gguf import ARRAY, KINDS, MAGIC, SCALARS, STRING, GgufFile, GgufTensor, is_gguf
from runtime.language.gguf_tokenizer import BYTE, CONTROL, NORMAL, OWN, SPLITS, UNKNOWN, UNUSED
from runtime.language.model import language_model, read_files

ALIGNMENT: Final = 32
U32, F32, BOOL, I32 = 4, 6, 7, 5
NUMBERS: Final = {kind.name: number for number, kind in KINDS.items()}
TYPES: Final = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}

Value = tuple[int, int, Any]
"""The kind of a value, the kind of its items if it is an array, and the value itself."""


class _Tensor(NamedTuple):
    """A tensor to write: its type, its shape with rows last, and its bytes when they are asked for."""

    kind: str
    shape: tuple[int, ...]
    data: Callable[[], bytes]


def write_gguf(program: pb.ProgramDesc, arrays: Mapping[str, Any], beside: Path, path: Path, *, force: bool) -> int:
    """Write a tuned language model, adapters added to its weights; return the number of tensors.

    Raises CompileError for a program that is no language model, and for a model that GGUF has no words for; errors as
    `write_output`.
    """
    with compile_errors("merge: "):
        model = language_model(program)
    source = beside / model.folder
    if is_gguf(source):
        if "vocab_size" in model.changes:
            raise CompileError(
                f"merge: the model has {model.changes['vocab_size']} codes, and {source}, from which it comes, has no "
                "tokens for them; a model of a folder is written with its tokens"
            )
        made, weights, file = read_model(source)
        values = {key: (*file.forms[key], value) for key, value in file.values.items()}
    else:
        made, weights = architecture_of(source), Weights(source)
        made = replace(made, vocabulary=model.changes.get("vocab_size", made.vocabulary))
        with compile_errors():
            values = {**_config(made, source), **tokenizer_values(read_files(source), made, source)}
    tensors = _tensors(program, arrays, made, weights)
    if made.rotary_factors and f"{WORDS[made.family]}.rope.scaling.factor" not in values:
        factors = np.asarray(made.rotary_factors, "<f4")
        tensors[FACTORS] = _Tensor("F32", factors.shape, factors.tobytes)
    if not is_gguf(source):
        require_architecture(made, _read_back(source, values, tensors))
    values["general.alignment"] = U32, 0, ALIGNMENT
    write_output(path, lambda stream: _write(stream, values, tensors), force=force)
    return len(tensors)


def _read_back(source: Path, values: Mapping[str, Value], tensors: Mapping[str, _Tensor]) -> GgufFile:
    """Return the header that a reader of the file will find."""
    found = {name: GgufTensor(KINDS[NUMBERS[each.kind]], each.shape, 0, 0) for name, each in tensors.items()}
    contents = {key: value for key, (*_, value) in values.items()}
    return GgufFile(source, contents, {key: (kind, items) for key, (kind, items, _) in values.items()}, found)


def _tensors(
    program: pb.ProgramDesc, arrays: Mapping[str, Any], made: Architecture, weights: Weights
) -> dict[str, _Tensor]:
    has_adapters = any(name.endswith(f".{A}") for name in arrays)
    states = (merged_states if has_adapters else plain_states)(program, arrays)
    found: dict[str, _Tensor] = {}
    for name, array in states.items():
        there = name_in_gguf(made.family, name)
        if there is None or name not in weights.tensors:
            continue
        order = rotated_rows(made.family, name, made.heads, made.groups, array.shape[0], outwards=True)
        rows = slice(None) if order is None else order
        if f"{name}.{CODES}" in arrays and f"{name}.{A}" not in arrays:
            codes, scales = (arrays[f"{name}.{word}"][rows] for word in (CODES, SCALES))
            form = "Q8_0" if codes.shape[-1] == array.shape[-1] else "Q4_0"
            found[there] = _Tensor(form, array.shape, lambda codes=codes, scales=scales: _blocks(codes, scales))
            continue
        array = array.T if is_transposed(made.family, name) else array[rows]
        own = weights.tensors[name].dtype
        kind = "F32" if array.ndim == 1 else TYPES.get(own, "F16")
        found[there] = _Tensor(
            kind, array.shape, lambda array=array, name=name, kind=kind: _plain(array, name, kind, made)
        )
    return found


def _plain(array: Any, name: str, kind: str, made: Architecture) -> bytes:
    above = np.float32(1) if is_above_one(made.family, name) else np.float32(0)
    dtype = next(dtype for dtype, each in TYPES.items() if each == kind)
    array = converted(array, "float32") + above if above else array
    return np.ascontiguousarray(converted(array, dtype)).tobytes()


def _blocks(codes: Any, scales: Any) -> bytes:
    parts = codes.reshape(*scales.shape, -1)
    heads = np.ascontiguousarray(scales[..., None].astype("<f2")).view(np.uint8)
    return np.concatenate([heads, parts], -1).tobytes()


def _config(made: Architecture, source: Path) -> dict[str, Value]:
    """Return the metadata of an architecture; raise CompileError for properties that GGUF cannot describe."""
    word = WORDS[made.family]
    local = [window for window in made.windows if window]
    if made.family != "gemma3_text" and any(window < made.positions for window in local):
        raise CompileError(f"merge: {source} has layers with a window, which GGUF's {word} has not")
    scalings = {*made.rotary_factors}
    if len(scalings) > 1 and word != "llama":
        raise CompileError(f"merge: {source} has a rope_scaling of Llama 3's kind, which GGUF's {word} has not")
    found: dict[str, Value] = {
        "general.architecture": (STRING, 0, word),
        "general.name": (STRING, 0, source.name),
        "general.quantization_version": (U32, 0, 2),
    }
    numbers: dict[str, int] = {
        "block_count": made.layers, "context_length": made.positions, "embedding_length": made.width,
        "feed_forward_length": made.hidden, "attention.head_count": made.heads,
    }  # fmt: skip
    floats: dict[str, float] = {}
    if made.family == "gpt2":
        floats["attention.layer_norm_epsilon"] = made.epsilon
    else:
        size = made.head_size
        numbers |= {"attention.head_count_kv": made.groups, "rope.dimension_count": size, "vocab_size": made.vocabulary}
        if size * made.heads != made.width or word in ("qwen3", "gemma3"):
            numbers |= {"attention.key_length": size, "attention.value_length": size}
        floats |= {"attention.layer_norm_rms_epsilon": made.epsilon, "rope.freq_base": made.rotary}
    if len(scalings) == 1:
        found[f"{word}.rope.scaling.type"] = STRING, 0, "linear"
        floats["rope.scaling.factor"] = made.rotary_factors[0]
    if made.family == "gemma3_text" and local:
        numbers["attention.sliding_window"] = local[0]
    found |= {f"{word}.{key}": (U32, 0, number) for key, number in numbers.items()}
    return found | {f"{word}.{key}": (F32, 0, number) for key, number in floats.items()}


def tokenizer_values(files: Mapping[str, str], made: Architecture, source: Path) -> dict[str, Value]:
    """Return the metadata of a tokenizer; raise CompileError for one that cannot be written."""
    try:
        return _tokenizer_of(files, made, source)
    except CompileError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise CompileError(f"merge: {source / 'tokenizer.json'} describes no tokenizer") from None


def _tokenizer_of(files: Mapping[str, str], made: Architecture, source: Path) -> dict[str, Value]:
    given, config = json.loads(files["tokenizer.json"]), json.loads(files.get("tokenizer_config.json", "{}"))
    model = given["model"]
    if model.get("type") != "BPE" or not isinstance(model.get("vocab"), dict):
        raise CompileError(f"merge: {source / 'tokenizer.json'} is of the type {model.get('type')!r}; BPE is written")
    pairs = [pair if isinstance(pair, list) else pair.split(" ") for pair in model["merges"]]
    known = {**model["vocab"], **{each["content"]: each["id"] for each in given.get("added_tokens", [])}}
    tokens, kinds = [f"[PAD{i}]" for i in range(made.vocabulary)], [UNUSED] * made.vocabulary
    own = {each["id"]: CONTROL if each["special"] else OWN for each in given.get("added_tokens", [])}
    for token, code in known.items():
        if code < made.vocabulary:
            tokens[code], kinds[code] = token, own.get(code, NORMAL)
    pre = {} if model.get("byte_fallback") else {"tokenizer.ggml.pre": (STRING, 0, _split(given, source))}
    merged = _pieces(given, pairs, tokens, kinds) if model.get("byte_fallback") else _pairs(pairs)
    special = _special(files, config, known)
    _add_stops(special, made)
    values = {
        "tokenizer.ggml.tokens": (ARRAY, STRING, tokens),
        **merged,
        **pre,
        "tokenizer.ggml.token_type": (ARRAY, I32, kinds),
        **_around(given, special, tokens, source),
        **special,
    }
    require_tokenizer(given, _read_back(source, values, {}))
    return values


def _add_stops(special: dict[str, Value], made: Architecture) -> None:
    """Add the codes that end a text, beside the one that tokenizer_config.json names."""
    known = [code for key, (*_, code) in special.items() if key.endswith("eos_token_id")]
    keys = [f"tokenizer.ggml.{word}_token_id" for word in ("eos", "eot", "eom")][len(known) :]
    others = [code for code in dict.fromkeys(made.stops) if code not in known]
    special |= {key: (U32, 0, code) for key, code in zip(keys, others, strict=False)}


def _around(
    given: Mapping[str, Any], special: Mapping[str, Value], tokens: Sequence[str], source: Path
) -> dict[str, Value]:
    """Return if a text gets codes before and behind it; raise CompileError for others than its first and last token."""
    added = dict(zip(("bos", "eos"), first_and_last(given, source), strict=True))
    for word, token in added.items():
        *_, code = special.get(f"tokenizer.ggml.{word}_token_id", (0, 0, None))
        if token is not None and (code is None or tokens[code] != token):
            refuse(source, f"adds {token!r} to a text, which is not the {word}_token of tokenizer_config.json")
    return {f"tokenizer.ggml.add_{word}_token": (BOOL, 0, token is not None) for word, token in added.items()}


def _pairs(pairs: list[list[str]]) -> dict[str, Value]:
    """Return the metadata of a tokenizer that merges bytes."""
    merges = [" ".join(pair) for pair in pairs]
    return {"tokenizer.ggml.model": (STRING, 0, "gpt2"), "tokenizer.ggml.merges": (ARRAY, STRING, merges)}


def _pieces(given: Mapping[str, Any], pairs: list[list[str]], tokens: list[str], kinds: list[int]) -> dict[str, Value]:
    """Return the metadata of a tokenizer that merges pieces by scores; mark its bytes and the unknown code."""
    unknown = given["model"].get("unk_token")
    for code, token in enumerate(tokens):
        is_byte = len(token) == 6 and token.startswith("<0x")
        kinds[code] = BYTE if is_byte else UNKNOWN if token == unknown else kinds[code]
    ranks = {"".join(pair): -float(i + 1) for i, pair in reversed([*enumerate(pairs)])}
    scores = [ranks.get(token, -1e6 if len(token) == 1 else 0.0) for token in tokens]
    return {
        "tokenizer.ggml.model": (STRING, 0, "llama"),
        "tokenizer.ggml.scores": (ARRAY, F32, scores),
        "tokenizer.ggml.add_space_prefix": (BOOL, 0, has_prefix(given)),
    }


def _special(files: Mapping[str, str], config: Mapping[str, Any], known: Mapping[str, int]) -> dict[str, Value]:
    """Return the codes of special tokens, and the template."""
    found: dict[str, Value] = {}
    for word, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        token = config.get(f"{word}_token")
        token = token.get("content") if isinstance(token, dict) else token
        if isinstance(token, str) and token in known:
            found[f"tokenizer.ggml.{key}_token_id"] = U32, 0, known[token]
    template = files.get("chat_template.jinja", config.get("chat_template"))
    if isinstance(template, str):
        found["tokenizer.chat_template"] = STRING, 0, template
    return found


def _split(given: Mapping[str, Any], source: Path) -> str:
    """Return GGUF's word for how texts are split; raise CompileError for a way without one."""
    own = _words(given.get("pre_tokenizer"))
    for word, split in SPLITS.items():
        if _words(split) == own:
            return word
    raise CompileError(
        f"merge: {source / 'tokenizer.json'} splits texts in a way that GGUF has no word for among {', '.join(SPLITS)}"
    )


def _words(split: Any) -> Any:
    """Return the steps of a pre-tokenizer, without steps that change no code."""
    if not isinstance(split, dict):
        return None
    if split.get("type") == "Sequence":
        steps = [_words(each) for each in split.get("pretokenizers", ())]
        return steps[0] if len(steps) == 1 else steps
    return {key: value for key, value in split.items() if key not in ("trim_offsets",)}


def _write(stream: BinaryIO, values: Mapping[str, Value], tensors: Mapping[str, _Tensor]) -> None:
    sizes = {name: _size(tensor) for name, tensor in tensors.items()}
    head = bytearray(MAGIC + struct.pack("<IQQ", 3, len(tensors), len(values)))
    for key, value in values.items():
        head += _text(key) + _value(*value)
    offset = 0
    for name, tensor in tensors.items():
        head += _text(name) + struct.pack("<I", len(tensor.shape))
        head += struct.pack(f"<{len(tensor.shape)}Q", *reversed(tensor.shape))
        head += struct.pack("<IQ", NUMBERS[tensor.kind], offset)
        offset += -(-sizes[name] // ALIGNMENT) * ALIGNMENT
    stream.write(head + bytes(-len(head) % ALIGNMENT))
    for tensor in tensors.values():
        raw = tensor.data()
        stream.write(raw)
        stream.write(bytes(-len(raw) % ALIGNMENT))


def _size(tensor: _Tensor) -> int:
    kind, count = KINDS[NUMBERS[tensor.kind]], 1
    for extent in tensor.shape:
        count *= extent
    return count // kind.elements * kind.nbytes


def _value(kind: int, items: int, value: Any) -> bytes:
    if kind == STRING:
        return struct.pack("<I", kind) + _text(value)
    if kind != ARRAY:
        return struct.pack(f"<I{SCALARS[kind]}", kind, value)
    head = struct.pack("<IIQ", kind, items, len(value))
    if items == STRING:
        return head + b"".join(map(_text, value))
    return head + struct.pack(f"<{len(value)}{SCALARS[items]}", *value)


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw
