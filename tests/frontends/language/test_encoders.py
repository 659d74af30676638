"""Encoders with a head for classes beside transformers: logits, training, and folders both ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from frontends.language.package import transformers

import prograd
from compiler import from_lm
from compiler.__main__ import main as compiler

LENGTH, CODES = 32, 320
SIZES = {
    "vocab_size": CODES, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 66, "num_labels": 3,
}  # fmt: skip
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", SIZES),
    "roberta": ("Roberta", {**SIZES, "type_vocab_size": 1, "pad_token_id": 1}),
    "xlm-roberta": ("XLMRoberta", {**SIZES, "type_vocab_size": 1, "pad_token_id": 1, "hidden_act": "gelu_new"}),
    "distilbert": ("DistilBert", {"vocab_size": CODES, "dim": 64, "hidden_dim": 96, "n_layers": 2, "n_heads": 4,
                                  "max_position_embeddings": 66, "num_labels": 3, "activation": "relu"}),
}  # fmt: skip


def model(kind: str, folder: Path) -> Any:
    """Write a model with random weights as a folder, and return it without dropouts in float64."""
    name, sizes = KINDS[kind]
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**sizes)
    made = getattr(transformers, f"{name}ForSequenceClassification")(config).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    made.save_pretrained(folder)
    return made.double()


def rows(batch: int = 4) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    lengths = rng.integers(5, LENGTH + 1, batch).astype("i4")
    there = np.arange(LENGTH) < lengths[:, None]
    codes = np.where(there, rng.integers(3, CODES, there.shape), 1).astype("i4")
    types = (there & (np.arange(LENGTH) > 4)).astype("i4")
    return {"codes": codes, "types": types, "lengths": lengths, "label": rng.integers(0, 3, batch)}


def logits_of(made: Any, fed: dict[str, np.ndarray]) -> Any:
    mask = torch.from_numpy((np.arange(LENGTH) < fed["lengths"][:, None]).astype("i8"))
    types = {"token_type_ids": torch.from_numpy(fed["types"]).long()} if made.config.model_type == "bert" else {}
    return made(torch.from_numpy(fed["codes"]).long(), attention_mask=mask, **types).logits


def known(program: Any, fed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array for name, array in fed.items() if name in program.tensors}


@pytest.mark.parametrize("kind", KINDS)
def test_logits_losses_and_steps_are_those_of_transformers(tmp_path: Path, kind: str):
    made, fed = model(kind, tmp_path / "m"), rows()
    program = from_lm(tmp_path / "m", length=LENGTH, output=tmp_path / "m.pb", trained=["*"])
    program.outputs(logits=program["logits"])
    program.minimize(program["loss"], prograd.adamw(1e-3))
    compiled = program.compile(batch=4)
    mine = known(program, fed)
    with torch.no_grad():
        wanted = logits_of(made, fed).numpy()
    label = torch.from_numpy(fed["label"])
    optimizer = torch.optim.AdamW(made.parameters(), lr=1e-3, weight_decay=0.01)
    losses = []
    for _ in range(5):
        loss = torch.nn.functional.cross_entropy(logits_of(made, fed), label)
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for engine in ("reference", "native"):
        run = prograd.Run(compiled, tmp_path, engine=engine)  # type: ignore[arg-type]
        asked = {name: array for name, array in mine.items() if name != "label"}
        np.testing.assert_allclose(run.predict(asked)["logits"], wanted, rtol=1e-4, atol=1e-4)
        found = run.step(mine, entry="evaluate")
        assert float(found["accuracy"]) == pytest.approx((wanted.argmax(1) == fed["label"]).mean())
        assert [float(run.step(mine)["loss"]) for _ in losses] == pytest.approx(losses, rel=1e-4)


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_a_tuned_encoder_is_a_folder_of_transformers_and_one_of_peft(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
):
    peft = pytest.importorskip("peft")
    monkeypatch.chdir(tmp_path)
    model(kind, Path("m"))
    target = {"distilbert": "q_lin,v_lin"}.get(kind, "query,value")
    fed = rows()
    options = ["--classes", "bad,fair,good", "--length", str(LENGTH), "--batch", "4", "--lora", f"{target}:r=4"]
    assert compiler(["import", "lm", "m", *options, "--optimizer", "adamw:1e-2", "-o", "net.pb"]) == 0
    run = prograd.load("net.pb")
    mine = {name: array for name, array in fed.items() if name in run.entries["train"].feeds}
    before = float(run.step(mine, entry="evaluate")["loss"])
    for _ in range(3):
        run.step(mine)
    assert float(run.step(mine, entry="evaluate")["loss"]) < before
    run.save("tuned.safetensors")
    asked = {name: array for name, array in mine.items() if name != "label"}
    wanted = run.predict(asked)["probabilities"]
    merge = ["merge", "net.pb", "--load", "tuned.safetensors"]
    assert compiler([*merge, "--layout", "hf", "-o", "whole"]) == 0
    whole = transformers.AutoModelForSequenceClassification.from_pretrained("whole", dtype=torch.float32).double()
    assert whole.config.id2label == {0: "bad", 1: "fair", 2: "good"}
    assert compiler([*merge, "--layout", "peft", "-o", "adapter"]) == 0
    back = ["--classes", "bad,fair,good", "--length", str(LENGTH), "--batch", "4", "--peft", "adapter"]
    assert compiler(["import", "lm", "m", *back, "-o", "back.pb"]) == 0
    np.testing.assert_allclose(prograd.load("back.pb").predict(asked)["probabilities"], wanted, rtol=1e-5)
    again = transformers.AutoModelForSequenceClassification.from_pretrained("m", dtype=torch.float32)
    again = peft.PeftModel.from_pretrained(again, "adapter").double()
    with torch.no_grad():
        for each in (whole, again):
            np.testing.assert_allclose(torch.softmax(logits_of(each, fed), 1).numpy(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_an_encoder_without_a_head_gets_one(tmp_path: Path, kind: str):
    name, sizes = KINDS[kind]
    config = getattr(transformers, f"{name}Config")(**sizes)
    for made in ("Model", "ForMaskedLM"):
        getattr(transformers, f"{name}{made}")(config).save_pretrained(tmp_path / made)
        program = from_lm(tmp_path / made, length=LENGTH, classes=5, output=tmp_path / "m.pb")
        run = prograd.Run(program.compile(batch=4), tmp_path)
        found = run.predict({n: a for n, a in known(program, rows()).items() if n != "label"})["probabilities"]
        assert found.shape == (4, 5)
        np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)


def test_codes_and_types_of_rows_are_those_of_transformers(tmp_path: Path):
    pytest.importorskip("tokenizers")
    from subjects.encoders import made_encoder

    from compiler.data.chats import ChatOptions
    from compiler.data.labelled_texts import packed_labelled

    folder = made_encoder(tmp_path / "m")
    theirs = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), pad_token="[PAD]", model_input_names=[
            "input_ids", "token_type_ids", "attention_mask"
        ],
    )  # fmt: skip
    texts = [
        ("who are you ?", "a small model"),
        ("what is the capital of belgium ? " * 4, "brussels " * 9),
        ("you", ""),
    ]
    lines = [json.dumps({"text": one, "pair": other, "label": "a" if other else "b"}) for one, other in texts]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    arrays = packed_labelled(tmp_path / "t.jsonl", ChatOptions(folder, 24)).arrays
    wanted = theirs(*map(list, zip(*texts, strict=True)), padding="max_length", truncation=True, max_length=24)
    assert arrays["codes"].tolist() == wanted["input_ids"]
    assert arrays["types"].tolist() == wanted["token_type_ids"]
    assert arrays["lengths"].tolist() == np.sum(wanted["attention_mask"], 1).tolist()
