"""Import of a language model from a folder of Hugging Face's form."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Final

from compiler.build.program import Program
from compiler.errors import CompileError, compile_errors
from compiler.frontends.initial_values import InitialValues
from compiler.frontends.language_models.config import Architecture, architecture_of
from compiler.frontends.language_models.config_keys import MOST, read_json, stops_of
from compiler.frontends.language_models.encoder_config import CLASSES, HEADS, Encoder, encoder_of
from compiler.frontends.language_models.from_encoder import add_encoder
from compiler.frontends.language_models.gguf_model import read_model
from compiler.frontends.language_models.network import Network
from compiler.frontends.language_models.stored_states import Places, StoredStates
from compiler.frontends.language_models.weights import Weights, is_meant, meant, path_from
from compiler.frontends.language_models.writing import CHUNK, add_writing
from compiler.train.metrics.classes import perplexity_of_losses
from prograd_proto.argument_kinds import with_kinds
from registry import Value, ops
from runtime.errors import ExecutionError
from runtime.language.gguf import is_gguf
from runtime.language.gguf_tokenizer import texts_of
from runtime.language.model import FILES, IGNORED, KEY, read_file, read_files

LENGTH: Final = 256
"""Number of codes in a row unless it is given."""

MOST_TEXTS: Final = 256
"""Upper bound on the texts that are written at a time."""

POSITIONS_AT_ONCE: Final = 64
"""Positions of each row whose scores are in memory at a time, unless the weights that give them are trained.

The gradient of these weights would be a sum of as many parts.
"""


@with_kinds(CompileError)
def from_lm(
    folder: str | os.PathLike[str],
    *,
    length: int | None = None,
    together: bool = False,
    trained: Sequence[str] = (),
    positions: int | None = None,
    texts: int = 1,
    output: str | os.PathLike[str] = "program.pb",
    seed: int = 0,
    classes: int | Sequence[str] | None = None,
    vocabulary: int | None = None,
) -> Program:
    """Return a program of a language model: GPT-2, Llama, Mistral, Qwen2, Qwen3 or Gemma 3; or of an encoder.

    `program["logits"]` are the scores of the next code, [batch, length, vocabulary], `program["loss"]` is their mean
    cross entropy over the labels that are not -100. The inputs are `codes` and `labels`, int32 [batch, length]; a label
    is the code behind. All weights are frozen but those of `trained`; `program.lora` adds adapters. The entry
    `evaluate` reports loss and perplexity; `read` and `next` write texts, by `Run.chat` and `runtime chat`.
    The model's dropouts are left out. Files that lie in the folder of the program, or below, are read where they are.
    Weights of other files are copied when the program is saved, and are read then, so the files must still be there.

    An encoder of the kind of BERT, RoBERTa or DistilBERT gets a head for classes. Its inputs are `codes` and, as far as
    the model has them, `types`, int32 [batch, length], the number of codes that count in a row, `lengths`, int32
    [batch], and `label`, int64 [batch]. `program["logits"]` are [batch, classes], `evaluate` reports loss and accuracy,
    and `predict` the probabilities. The head is trained, in float32; `thaw` trains it beside adapters.

    Args:
        folder: has config.json and model.safetensors, or its parts and their index; for texts also tokenizer.json. Or
            a file of GGUF, whose weights of 8 and 4 bits (Q8_0, Q4_0) stay as they are, while other blocks are widened.
        length: the codes of a row; by default 256, as far as the model has positions.
        together: rows have several texts: the inputs `segments`, int32 [batch, length], number them, and a position
            sees those of its text only. `positions` counts from 0 in each.
        trained: patterns of weights to train whole, as "model.layers.28.*"; they become float32.
        positions: the codes of a text that is written, prompts included; by default the larger of 512 and `length`,
            as far as the model has positions.
        texts: the number of texts that are written at a time.
        output: the path at which the program will be saved.
        seed: the seed of training.
        classes: the names or the number of an encoder's classes; its last layer is new if they are not the folder's.
        vocabulary: the number of codes, if it is another than the folder's; further rows of the tables are the mean of
            the others.

    Raises CompileError for a folder that is no model, or a config, a weight or a size that the builder does not know.
    """
    if not isinstance(folder, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
        raise CompileError(f"from_lm: folder={folder!r} is not a path")
    at = Path(folder)
    encoder = None if is_gguf(at) else encoder_of(at)
    if encoder is not None:
        return _of_encoder(at, encoder, length, trained, output, seed, classes, vocabulary)
    if classes is not None:
        raise CompileError(f"{at}: classes are for encoders, as {', '.join(CLASSES)}, and this model writes texts")
    made, weights, files = _source(at)
    stored, made = made.vocabulary, made if vocabulary is None else replace(made, vocabulary=vocabulary)
    _require_vocabulary(at, vocabulary)
    length = min(LENGTH, made.positions) if length is None else length
    _require_sizes(made, length, positions, texts)
    program, inside = _program(output, seed), path_from(Path(output), at)
    states = StoredStates(program, weights, _places(program, None if is_gguf(at) else inside, trained, stored))
    network = Network(made, weights, states)
    _add_training(program, network, length, together, is_meant(network.head_name, trained))
    network.require_all_read()
    _require_used(program, trained)
    room = positions or min(max(512, length), made.positions)
    add_writing(program, network, room, texts)
    changes = {} if vocabulary is None else {"vocab_size": vocabulary}
    program.texts_of_model[KEY] = _about(at, inside, made, room, texts, files, changes)
    return program


def _of_encoder(
    at: Path,
    made: Encoder,
    length: int | None,
    trained: Sequence[str],
    output: str | os.PathLike[str],
    seed: int,
    classes: int | Sequence[str] | None,
    vocabulary: int | None,
) -> Program:
    """Return the program of an encoder; see `from_lm`."""
    _require_vocabulary(at, vocabulary)
    program, inside, weights = _program(output, seed), path_from(Path(output), at), Weights(at)
    stored, made = made.vocabulary, made if vocabulary is None else replace(made, vocabulary=vocabulary)
    about: dict[str, object] = {
        "family": made.family,
        "folder": inside if inside is not None else os.fspath(at),
        "files": _hashes(at),
        "vocabulary": made.vocabulary,
        "config": {} if vocabulary is None else {"vocab_size": vocabulary},
    }
    add_encoder(
        program,
        made,
        weights,
        StoredStates(program, weights, _places(program, inside, [*trained, *HEADS[made.kind]], stored)),
        length=min(LENGTH, made.positions) if length is None else length,
        classes=classes,
        about=about,
    )
    _require_used(program, trained)
    return program


def _program(output: str | os.PathLike[str], seed: int) -> Program:
    program = Program(Path(output).name.removesuffix(".pb"), seed=seed)
    program.folder = Path(output).parent
    return program


def _places(program: Program, folder: str | None, trained: Sequence[str], stored: int) -> Places:
    return Places(folder, InitialValues(program, f"{program.name}.weights.safetensors"), trained, stored)


def _hashes(at: Path) -> dict[str, str]:
    """Return the hashes of the files of a folder's tokenizer."""
    with compile_errors():
        return {name: sha256(read_file(at / name)).hexdigest() for name in FILES if (at / name).is_file()}


def _require_vocabulary(at: Path, vocabulary: int | None) -> None:
    """Raise CompileError for a number of codes that is smaller than that of the folder's tokenizer."""
    if vocabulary is None:
        return
    if not 2 <= vocabulary <= MOST:
        raise CompileError(f"from_lm: vocabulary={vocabulary} is not from 2 to {MOST}")
    try:
        files = read_files(at) if is_gguf(at) or (at / FILES[0]).is_file() else {}
        count = codes_in(json.loads(files.get(FILES[0], "{}")))
    except (ExecutionError, ValueError, RecursionError, AttributeError):
        return  # whoever reads the tokenizer says what is wrong
    if vocabulary < count:
        where = at if is_gguf(at) else at / FILES[0]
        raise CompileError(f"from_lm: vocabulary={vocabulary} is less than the {count} codes that {where} has")


def codes_in(tokenizer: Mapping[str, object]) -> int:
    """Return the number behind the largest code of a tokenizer.json; 0 if it names none."""
    model, added = tokenizer.get("model"), tokenizer.get("added_tokens")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    codes = [*vocabulary.values()] if isinstance(vocabulary, dict) else [*range(len(vocabulary or ()))]
    codes += [token.get("id") for token in added if isinstance(token, dict)] if isinstance(added, list) else []
    return 1 + max((code for code in codes if type(code) is int), default=-1)


def _add_training(program: Program, network: Network, length: int, together: bool, is_head_trained: bool) -> None:
    made = network.made
    codes = program.input("codes", "int32", ("batch", length))
    labels = program.input("labels", "int32", ("batch", length))
    numbers = ops.range.on(program)(stop=length)
    places, segments = numbers, None
    if together:
        segments = program.input("segments", "int32", ("batch", length))
        places = ops.cast(program.input("positions", "int32", ("batch", length)), dtype="int64")
    masks: dict[int, Value | None] = {}

    def attend(layer: int, q: Value, k: Value, v: Value) -> Value:
        window = made.windows[layer] if made.windows[layer] < length else 0
        if window not in masks:
            masks[window] = _mask(numbers, segments, window)
        return ops.scaled_dot_product_attention(q, k, v, masks[window], causal=True, scale=made.scale)

    x, head = network.hidden(codes, places, attend), network.head()
    program.block.named(ops.identity(network.scores(x)), "logits")
    parts = 1 if is_head_trained else -(-length // POSITIONS_AT_ONCE)
    loss, losses = (
        ops.linear_cross_entropy(x, head, labels, parts=parts, ignored=IGNORED, reduction=reduction)
        for reduction in ("mean", "none")
    )
    loss = program.block.named(ops.identity(loss), "loss")
    count = ops.sum(ops.not_equal(labels, IGNORED))
    program.entry("evaluate", over="mean", loss=loss, perplexity=perplexity_of_losses(losses, count))


def _mask(numbers: Value, segments: Value | None, window: int) -> Value | None:
    """Return the positions that a query sees besides those before it: of its text, and within the window."""
    seen: list[Value] = []
    if segments is not None:
        seen.append(ops.equal(ops.unsqueeze(segments, axis=(1, 3)), ops.unsqueeze(segments, axis=(1, 2))))
    if window:
        apart = ops.unsqueeze(numbers, axis=(1,)) - ops.unsqueeze(numbers, axis=(0,))
        seen.append(apart < window)
    if len(seen) == 2:
        return ops.logical_and(*seen)
    return seen[0] if seen else None


def _require_sizes(made: Architecture, length: int, positions: int | None, texts: int) -> None:
    for name, value in (("length", length), ("positions", positions or 1)):
        if not 1 <= value <= made.positions:
            raise CompileError(f"from_lm: {name}={value} is not from 1 to {made.positions}, as the model has positions")
    if not 1 <= texts <= MOST_TEXTS:
        raise CompileError(f"from_lm: texts={texts} is not from 1 to {MOST_TEXTS}")


def _require_used(program: Program, trained: Sequence[str]) -> None:
    from prograd_proto.spelling import closest

    for pattern in trained:
        if not meant(program.states, [pattern]):
            weights = meant(program.states, ["*"])
            raise CompileError(f"from_lm: no weight matches {pattern!r}{closest(pattern, weights)}")


def _source(at: Path) -> tuple[Architecture, Weights, dict[str, str]]:
    """Return the architecture and the weights of a folder or a file, and the hashes of its tokenizer's files."""
    if not is_gguf(at):
        made, weights = architecture_of(at), Weights(at)
        return made, weights, _hashes(at)
    made, weights, file = read_model(at)
    with compile_errors():
        texts = texts_of(file) if "tokenizer.ggml.model" in file.values else {}
    return made, weights, {name: sha256(text.encode()).hexdigest() for name, text in texts.items()}


def _about(
    folder: Path,
    inside: str | None,
    made: Architecture,
    positions: int,
    texts: int,
    files: dict[str, str],
    changes: dict[str, int],
) -> str:
    """Return the facts that a runtime needs to write texts, as JSON."""
    stops, defaults = set(made.stops), {}
    if (folder / "generation_config.json").is_file():
        given = read_json(folder / "generation_config.json")
        stops.update(stops_of(given))
        ranges = {"temperature": 100.0, "top_k": 256, "top_p": 1.0, "repetition_penalty": 100.0}
        defaults = {
            key: given[key]
            for key, most in ranges.items()
            if type(given.get(key)) in (int, float) and 0 < given[key] <= min(most, inf)
        }
    about = {
        "family": made.family,
        "folder": inside if inside is not None else os.fspath(folder),
        "files": files,
        "vocabulary": made.vocabulary,
        "layers": made.layers,
        "groups": made.groups,
        "head_size": made.head_size,
        "positions": positions,
        "texts": texts,
        "chunk": min(CHUNK, positions),
        "stops": sorted(stops),
        "defaults": defaults,
    }
    about |= {"config": changes} if changes else {}
    return json.dumps(about, sort_keys=True, separators=(",", ":"))
