"""The architecture of an encoder with a head for classes, as a folder's `config.json` describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from compiler.errors import CompileError
from compiler.frontends.language_models.config_keys import ACTIVATIONS, MOST, MOST_LAYERS, Config, read_json


class Words(NamedTuple):
    """The names of the parts of a family: of the embeddings, of the layers, and of the parts of each."""

    prefix: str
    layers: str
    queries: str
    keys: str
    values: str
    attended: str
    norm_1: str
    inner: str
    outer: str
    norm_2: str


_BERT = (
    "encoder.layer", "attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
    "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm",
)  # fmt: skip
WORDS: Final = {
    "bert": Words("bert.", *_BERT),
    "roberta": Words("roberta.", *_BERT),
    "distilbert": Words(
        "distilbert.", "transformer.layer", "attention.q_lin", "attention.k_lin", "attention.v_lin",
        "attention.out_lin", "sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm",
    ),
}  # fmt: skip

HEADS: Final = {
    "bert": ("bert.pooler.dense", "classifier"),
    "roberta": ("classifier.dense", "classifier.out_proj"),
    "distilbert": ("pre_classifier", "classifier"),
}
"""The two layers of the head of each kind; the first has the width of the model, and the second the classes."""

CLASSES: Final = {
    "bert": "BertForSequenceClassification",
    "roberta": "RobertaForSequenceClassification",
    "xlm-roberta": "XLMRobertaForSequenceClassification",
    "camembert": "CamembertForSequenceClassification",
    "distilbert": "DistilBertForSequenceClassification",
}
"""The class of transformers for each `model_type`."""


@dataclass(frozen=True)
class Encoder:
    """An encoder, by the properties in which BERT, RoBERTa and DistilBERT differ.

    Attributes:
        family: the word `model_type` of the config.
        kind: bert, roberta or distilbert, which say the names of weights and the form of the head.
        vocabulary: the number of codes.
        types: the number of types of codes, which tell two texts of a row apart; 0 for a family without.
        width: the size of a position between layers.
        layers: the number of layers.
        heads: the number of heads of attention.
        hidden: the width inside the feed-forward part.
        positions: the largest number of codes in a row.
        first_position: the row of the table of positions for the first code.
        epsilon: the term of the normalisations.
        activation: the function inside the feed-forward part.
        classes: the names of the classes.
        deviation: the deviation of new weights.
    """

    family: str
    kind: str
    vocabulary: int
    types: int
    width: int
    layers: int
    heads: int
    hidden: int
    positions: int
    first_position: int
    epsilon: float
    activation: str
    classes: tuple[str, ...]
    deviation: float


def encoder_of(folder: Path) -> Encoder | None:
    """Return the encoder of a folder; None for a folder of another kind, or without a model.

    Raises CompileError for a config that is damaged, or has properties that the builder does not know.
    """
    path = folder / "config.json"
    if not path.is_file():
        return None
    given = read_json(path)
    family = given.get("model_type")
    if not isinstance(family, str) or family not in CLASSES:
        return None
    config = Config(path, given)
    config.know("tie_word_embeddings", "finetuning_task", "num_labels", "classifier_dropout", *_IDLE)
    kind = family if family in WORDS else "roberta"
    made = (_distilbert if kind == "distilbert" else _bert)(config, kind)
    config.require_all_known()
    if made.width % made.heads:
        raise CompileError(f"{path}: {made.heads} heads do not divide {made.width} channels")
    if made.positions < 2:
        raise CompileError(f"{path}: the model has no positions for two codes")
    return made


_IDLE: Final = (
    "hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "qa_dropout", "seq_classif_dropout",
    "sinusoidal_pos_embds", "tie_weights_", "pruned_heads", "directionality", "pooler_fc_size",
    "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type", "output_past",
    "cls_token_id", "sep_token_id", "mask_token_id",
)  # fmt: skip
"""Keys that do not influence predicted classes: dropouts, and keys of other tasks."""


def _bert(config: Config, kind: str) -> Encoder:
    config.word("position_embedding_type", {"absolute": True}, "absolute")
    first = config.size("pad_token_id", 1, least=0) + 1 if kind == "roberta" else 0
    if config.flag("is_decoder", False):
        raise CompileError(f"{config.path}: is_decoder is True, which the builder does not know")
    return Encoder(
        kind=kind,
        types=config.size("type_vocab_size", 2),
        width=config.size("hidden_size"),
        layers=config.size("num_hidden_layers", most=MOST_LAYERS),
        heads=config.size("num_attention_heads", most=4096),
        hidden=config.size("intermediate_size"),
        positions=config.size("max_position_embeddings", 512) - first,
        first_position=first,
        epsilon=config.number("layer_norm_eps", 1e-12),
        activation=config.word("hidden_act", _KNOWN, "gelu"),
        **_shared(config),
    )


def _distilbert(config: Config, kind: str) -> Encoder:
    return Encoder(
        kind=kind,
        types=0,
        width=config.size("dim"),
        layers=config.size("n_layers", most=MOST_LAYERS),
        heads=config.size("n_heads", most=4096),
        hidden=config.size("hidden_dim"),
        positions=config.size("max_position_embeddings", 512),
        first_position=0,
        epsilon=1e-12,
        activation=config.word("activation", _KNOWN, "gelu"),
        **_shared(config),
    )


_KNOWN: Final = {**ACTIVATIONS, "relu": "relu"}


def _shared(config: Config) -> dict[str, Any]:
    """Return the properties that all kinds have, and refuse tasks without classes."""
    task = config.given.get("problem_type")
    if task not in (None, "single_label_classification"):
        raise CompileError(f"{config.path}: problem_type is {task!r}; the builder knows one class for each row")
    return {
        "family": config.given["model_type"],
        "vocabulary": config.size("vocab_size", most=MOST),
        "classes": _classes(config),
        "deviation": config.number("initializer_range", 0.02),
    }


def _classes(config: Config) -> tuple[str, ...]:
    """Return the names of the classes in the order of their numbers."""
    given = config.given.get("id2label")
    if given is None:
        return unnamed(config.size("num_labels", 2))
    if not isinstance(given, Mapping) or {*given} != {str(i) for i in range(len(given))}:
        raise CompileError(f"{config.path}: id2label does not name the classes 0, 1, 2 and so on")
    names = tuple(given[str(i)] for i in range(len(given)))
    if not all(isinstance(name, str) for name in names) or len({*names}) < len(names) or not names:
        raise CompileError(f"{config.path}: id2label does not have a text of its own for each class")
    return names


def unnamed(count: int) -> tuple[str, ...]:
    """Return the names that transformers gives to classes without names."""
    return tuple(f"LABEL_{i}" for i in range(count))
