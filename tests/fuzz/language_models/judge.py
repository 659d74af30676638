"""Logits of a random language model: by transformers, by its import, and after each layout and back."""

# pyright: basic
# The packages have no types here.

from __future__ import annotations

import io
import json
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import safetensors.torch
import tokenizers
import torch
import transformers
from subjects.language_model import write_tokenizer

import prograd
from compiler import CompileError, from_lm
from compiler.__main__ import main as compiler
from fuzz.campaign import Trial
from fuzz.language_models.draw import CLASSES, config_of
from fuzz.verdict import Verdict

TOLERANCE = 2e-5
"""Upper bound on a difference, as a share of the largest logit."""

LAYOUTS = {"gguf": "back.gguf", "hf": "back"}
"""The file or folder of each layout in which a model is written and read again."""


def tried(seed: int) -> Trial:
    """Return the outcome of a seed."""
    trial = Trial(seed)
    rng = Random(seed)
    config = config_of(rng)
    with tempfile.TemporaryDirectory() as home:
        try:
            trial.note(judged(Path(home), config, rng))
        except Exception as error:  # an error of Python is a finding, too
            trial.note([Verdict("raised", config["model_type"], f"{type(error).__name__}", str(error)[:300])])
    return trial


def judged(home: Path, config: dict[str, Any], rng: Random) -> list[Verdict]:
    """Return a verdict about the import of a model with random weights, and one about each layout."""
    torch.set_num_threads(1)
    made = _folder(home / "model", config, rng)
    length = rng.choice([12, 24])
    feed = np.random.default_rng(rng.randrange(1 << 30)).integers(0, 300, (rng.choice([1, 2, 3]), length))
    codes = feed.astype(np.int32)
    with torch.no_grad():
        want = made(torch.from_numpy(codes).long()).logits.double().numpy()
    try:
        got = _logits(home, "model", codes)
    except (CompileError, prograd.UsageError) as error:
        return [Verdict("skipped", "import", config["model_type"], _reason(str(error), home))]
    verdicts = [_compared("import", config, got, want)]
    assert _run("import", "lm", home / "model", "--length", length, "-o", home / "whole.pb") == ""
    for layout, name in LAYOUTS.items():
        said = _run("merge", home / "whole.pb", "--layout", layout, "-o", home / name)
        if said:
            verdicts.append(Verdict("skipped", layout, "merge", _reason(said, home)))
        else:
            verdicts.append(_compared(layout, config, _logits(home, name, codes), got))
    return verdicts


def _folder(folder: Path, config: dict[str, Any], rng: Random) -> Any:
    """Write a model with random weights, and return it in float64."""
    folder.mkdir()
    full = transformers.AutoConfig.for_model(**config)
    made = getattr(transformers, CLASSES[config["model_type"]])(full).eval()
    torch.manual_seed(rng.randrange(1 << 30))
    dtype = rng.choice([torch.float32, torch.float32, torch.bfloat16, torch.float16])
    with torch.no_grad():
        for parameter in made.parameters():  # vectors are near what they were: zeros, or factors of 1
            drawn = torch.randn_like(parameter) * 0.2
            parameter.copy_((drawn if parameter.ndim > 1 else parameter + drawn).to(dtype))
        for name, buffer in made.named_buffers():
            if name.endswith("embed_scale"):  # transformers has it in the dtype of the weights
                buffer.copy_(buffer.to(dtype))
    if rng.random() < 0.5:
        full.save_pretrained(folder)
    else:
        (folder / "config.json").write_text(json.dumps(config))
    weights = {name: array.to(dtype).clone() for name, array in made.state_dict().items()}
    if full.tie_word_embeddings:
        weights.pop("lm_head.weight", None)
    safetensors.torch.save_file(weights, folder / "model.safetensors")
    write_tokenizer(tokenizers, folder)
    return made.double()


def _logits(home: Path, name: str, codes: np.ndarray) -> np.ndarray:
    """Return the logits of the model in a folder or a file."""
    program = from_lm(home / name, length=codes.shape[1], output=home / f"{name}.pb")
    program.outputs(logits=program["logits"])
    run = prograd.Run(program.compile(batch=len(codes)), home, engine="reference")
    return run.predict({"codes": codes})["logits"]


def _compared(judge: str, config: dict[str, Any], got: np.ndarray, want: np.ndarray) -> Verdict:
    error, largest = float(np.abs(got - want).max()), float(np.abs(want).max())
    if error <= TOLERANCE * largest:
        return Verdict("agreed", judge, config["model_type"])
    return Verdict("differs", judge, "logits", f"{error:.2g} of {largest:.2g} for {json.dumps(config)}")


def _run(*words: Any) -> str:
    """Return what a command has said, or nothing if it succeeded."""
    told = io.StringIO()
    with redirect_stdout(told), redirect_stderr(told):
        return told.getvalue() if compiler([str(word) for word in words]) else ""


def _reason(said: str, home: Path) -> str:
    """Return the sentence of a refusal, without what it begins with."""
    return said.strip().splitlines()[-1].replace(f"{home}/", "").split(": ", 1)[-1][:90]
