"""Language models beside transformers and PEFT: logits, losses of adapters, folders both ways, and greedy texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from frontends.language.package import transformers
from subjects.language_model import CODES, SIZES, TEMPLATE, made_folder

import prograd
from compiler import from_lm
from compiler.__main__ import main as compiler
from compiler.data.chats import ChatOptions, packed_chats
from runtime.language.choices import Choices
from runtime.language.writer import Writer

LENGTH = 48
LLAMA_3 = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 40, "rope_theta": 100.0}  # fmt: skip
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2", {"vocab_size": CODES, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128}),
    "llama": ("Llama", SIZES),
    "llama with biases": ("Llama", {**SIZES, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    "llama 3": ("Llama", {**SIZES, "head_dim": 16, "rope_parameters": LLAMA_3}),
    "llama, longer by interpolation": ("Llama", {**SIZES, "rope_scaling": {"type": "linear", "factor": 3.0}}),
    "mistral": ("Mistral", {**SIZES, "sliding_window": 16}),
    "qwen2": ("Qwen2", {**SIZES, "tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {**SIZES, "head_dim": 32}),
    "qwen3, longer": ("Qwen3", {**SIZES, "head_dim": 32, "rope_scaling": LLAMA_3}),
    "gemma3, longer": (
        "Gemma3Text",
        {
            **SIZES,
            "num_hidden_layers": 7,
            "head_dim": 16,
            "sliding_window": 16,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        },
    ),
    "gemma3": ("Gemma3Text", {**SIZES, "num_hidden_layers": 7, "head_dim": 16, "sliding_window": 16}),
}


def model(family: str, folder: Path) -> Any:
    """Write a model with random weights as a folder, and return it in float64."""
    name, sizes = FAMILIES[family]
    torch.manual_seed(0)
    kind = getattr(transformers, f"{name.removesuffix('Text')}ForCausalLM" if "gemma3" in family else
                   "GPT2LMHeadModel" if family == "gpt2" else f"{name}ForCausalLM")  # fmt: skip
    made = kind(getattr(transformers, f"{name}Config")(**sizes)).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    made.save_pretrained(folder)
    return made.double()


def rows(batch: int = 4) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    codes = rng.integers(3, CODES, (batch, LENGTH)).astype(np.int32)
    labels = np.where(rng.random(codes.shape) < 0.6, np.roll(codes, -1, 1), -100).astype(np.int32)
    return {"codes": codes, "labels": labels}


def loss_of(made: Any, fed: dict[str, np.ndarray]) -> Any:
    logits = made(torch.from_numpy(fed["codes"]).long()).logits
    labels = torch.from_numpy(fed["labels"]).long().reshape(-1)
    return torch.nn.functional.cross_entropy(logits.reshape(-1, CODES), labels, ignore_index=-100)


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_and_losses_are_those_of_transformers(tmp_path: Path, family: str):
    made, fed = model(family, tmp_path / "m"), rows()
    program = from_lm(tmp_path / "m", length=LENGTH, output=tmp_path / "m.pb")
    program.outputs(logits=program["logits"])
    compiled = program.compile(batch=4)
    with torch.no_grad():
        wanted = made(torch.from_numpy(fed["codes"]).long()).logits.numpy()
        loss = float(loss_of(made, fed))
    for engine in ("reference", "native"):
        run = prograd.Run(compiled, tmp_path, engine=engine)  # type: ignore[arg-type]
        np.testing.assert_allclose(run.predict({"codes": fed["codes"]})["logits"], wanted, rtol=1e-4, atol=1e-4)
        assert float(run.step(fed, entry="evaluate")["loss"]) == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_texts_are_those_of_transformers(tmp_path: Path, family: str):
    made = model(family, tmp_path / "m")
    prompt = np.random.default_rng(1).integers(3, CODES, (1, 9))
    with torch.no_grad():
        given = torch.from_numpy(prompt)
        how = {"do_sample": False, "pad_token_id": 0, "eos_token_id": None, "max_new_tokens": 50}
        wanted = made.generate(given, attention_mask=torch.ones_like(given), **how)[0, 9:].tolist()
    program = from_lm(tmp_path / "m", length=LENGTH, positions=64, output=tmp_path / "m.pb")
    for engine in ("reference", "native"):
        writer = Writer(prograd.Run(program.compile(batch=1), tmp_path, engine=engine).session)  # type: ignore[arg-type]
        writer.begin(0, Choices())
        found = [writer.read(0, prompt[0].tolist())]
        while len(found) < 50:
            found.append(writer.next([found[-1]])[0] or 0)
        assert found == wanted


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # PEFT asks transformers by an old name
@pytest.mark.parametrize(
    ("family", "more"),
    [*((family, {}) for family in ("gpt2", "llama", "qwen3", "gemma3")), ("gpt2", {"use_dora": True}),
     ("llama", {"use_dora": True}), ("qwen2", {"use_dora": True, "use_rslora": True})],
)  # fmt: skip
def test_adapters_train_as_those_of_peft_and_go_both_ways(
    tmp_path: Path, family: str, more: dict[str, bool], monkeypatch: pytest.MonkeyPatch
):
    peft = pytest.importorskip("peft")
    monkeypatch.chdir(tmp_path)
    base, fed = model(family, tmp_path / "m"), rows()
    targets = ["c_attn"] if family == "gpt2" else ["q_proj", "v_proj"]
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=targets, fan_in_fan_out=family == "gpt2", **more)
    adapted = peft.get_peft_model(base, config).double()
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.1)
            if "magnitude" in name:
                parameter.mul_(1.1)
    adapted.save_pretrained("theirs")
    with torch.no_grad():
        before = float(loss_of(adapted, fed))
    Path("rows.jsonl").write_text("")
    assert compiler(["import", "lm", "m", "--length", str(LENGTH), "--batch", "4", "--peft", "theirs",
                     "--optimizer", "adamw:1e-2", "-o", "net.pb"]) == 0  # fmt: skip
    run = prograd.load("net.pb")
    assert float(run.step(fed, entry="evaluate")["loss"]) == pytest.approx(before, rel=1e-5)
    optimizer = torch.optim.AdamW([p for p in adapted.parameters() if p.requires_grad], lr=1e-2, weight_decay=0.01)
    for _ in range(20):
        loss = loss_of(adapted, fed)
        assert float(run.step(fed)["loss"]) == pytest.approx(float(loss.detach()), abs=1e-4)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    run.save("tuned.safetensors")
    wanted = float(run.step(fed, entry="evaluate")["loss"])
    assert compiler(["merge", "net.pb", "--load", "tuned.safetensors", "--layout", "peft", "-o", "ours"]) == 0
    assert compiler(["merge", "net.pb", "--load", "tuned.safetensors", "--layout", "hf", "-o", "whole"]) == 0
    with torch.no_grad():
        again = peft.PeftModel.from_pretrained(model(family, tmp_path / "n"), "ours").double()
        assert float(loss_of(again, fed)) == pytest.approx(wanted, rel=1e-5)
        whole = transformers.AutoModelForCausalLM.from_pretrained("whole", dtype=torch.float32).double()
        assert float(loss_of(whole, fed)) == pytest.approx(wanted, rel=1e-5)


def test_codes_of_conversations_are_those_of_transformers(tmp_path: Path):
    folder = made_folder(tmp_path / "m")
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), chat_template=TEMPLATE)
    talk = [{"role": "user", "content": "who are you ?"}, {"role": "assistant", "content": "Ünïcode 🙂 and  blanks"}]
    (tmp_path / "t.jsonl").write_text(json.dumps({"messages": talk}) + "\n")
    [codes] = packed_chats(tmp_path / "t.jsonl", ChatOptions(folder, 128)).arrays["codes"]
    wanted = theirs.apply_chat_template(talk, tokenize=True, return_dict=False)
    assert codes[: len(wanted)].tolist() == list(wanted)
    assert not codes[len(wanted) :].any()
