"""The campaign of random language models: it agrees, and finds each property that an import or a file loses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from frontends.torchvision_without_operators import torchvision
from subjects.language_model import GPT2, LLAMA

from compiler.frontends.language_models import from_lm as builder

pytest.importorskip("torch")
GEMMA = {
    **{key: value for key, value in LLAMA.items() if key != "hidden_act"},
    **{"model_type": "gemma3_text", "head_dim": 16, "sliding_window": 4, "query_pre_attn_scalar": 16},
}
LOST: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "epsilon": (LLAMA, {"epsilon": 1e-3}),
    "epsilon of gpt2": (GPT2, {"epsilon": 1e-3}),
    "activation": (GPT2, {"activation": "gelu"}),
    "base": (LLAMA, {"rotary": 20000.0}),
    "scaling": (LLAMA | {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}, {"rotary_factors": ()}),
    "local base": (GEMMA, {"local_rotary": 100.0}),
    "windows": (GEMMA, {"windows": (0, 0)}),
    "window": (GEMMA, {"windows": (5, 5)}),
    "scale": (GEMMA, {"scale": 0.3}),
    "scale of embeddings": (GEMMA, {"embedding_scale": 1.0}),
    "norm": (GEMMA, {"norm": "rms"}),
}


@pytest.fixture(autouse=True, scope="module")
def package() -> None:
    torchvision()
    pytest.importorskip("transformers")


def words(home: Path, config: dict[str, Any]) -> list[str]:
    from fuzz.language_models.judge import judged

    return [verdict.word for verdict in judged(home, config, Random(0))]


@pytest.mark.parametrize("config", [GPT2, LLAMA, GEMMA], ids=["gpt2", "llama", "gemma"])
def test_what_is_imported_whole_agrees(tmp_path: Path, config: dict[str, Any]):
    assert words(tmp_path, config) == ["agreed"] * 3


@pytest.mark.parametrize("lost", LOST)
def test_a_property_that_the_import_loses_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lost: str):
    config, other = LOST[lost]
    whole = builder.architecture_of
    monkeypatch.setattr(builder, "architecture_of", lambda folder: replace(whole(folder), **other))
    assert words(tmp_path, config)[0] == "differs"


def test_a_weight_that_a_file_loses_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    from compiler.exporters import gguf

    whole = gguf._plain

    def lost(array: Any, name: str, *more: Any) -> bytes:
        return whole(array * 0 if name.endswith("q_proj.bias") else array, name, *more)

    monkeypatch.setattr(gguf, "_plain", lost)
    config = {**LLAMA, "model_type": "qwen2"}
    assert words(tmp_path, config) == ["agreed", "differs", "agreed"]
