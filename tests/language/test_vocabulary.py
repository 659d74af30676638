"""Models with another number of codes than their folder has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from subjects.encoders import made_encoder
from subjects.language_model import CODES, GPT2, LLAMA, made_folder

import prograd
from compiler import from_lm
from compiler.__main__ import main as compiler
from compiler.errors import CompileError
from runtime.language.gguf import read_gguf

pytestmark = pytest.mark.usefixtures("here")

RNG = np.random.default_rng(2)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("engine", "count", "config", "table"),
    [("reference", 310, LLAMA, "model.embed_tokens.weight"), ("native", 384, LLAMA, "model.embed_tokens.weight"),
     ("reference", 384, GPT2, "wte.weight")],
    ids=["fewer", "more", "gpt2"],
)  # fmt: skip
def test_further_codes_begin_as_the_mean_and_others_keep_their_scores(
    engine: str, count: int, config: dict[str, Any], table: str
):
    made_folder(Path("m"), config)
    codes = RNG.integers(0, 300, (4, 16)).astype("i4")
    found = []
    for vocabulary in (None, count):
        program = from_lm("m", length=16, vocabulary=vocabulary, output="net.pb")
        program.outputs(logits=program["logits"])
        run = prograd.Run(program.compile(batch=4), engine=engine)  # type: ignore[arg-type]
        found.append((run.state[table], run.predict({"codes": codes})["logits"]))
    (old, before), (new, after) = found
    assert new.shape[0] == after.shape[2] == count
    kept = min(CODES, count)
    np.testing.assert_array_equal(new[:kept], old[:kept])
    np.testing.assert_allclose(new[kept:], np.broadcast_to(old.mean(0), new[kept:].shape), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(after[..., :kept], before[..., :kept], rtol=1e-4, atol=1e-4)


def test_a_head_of_its_own_is_resized_and_16_bits_stay():
    made_folder(Path("m"), dtype="bfloat16", tie_word_embeddings=False)
    weights = load_file("m/model.safetensors")
    save_file({**weights, "lm_head.weight": weights["model.embed_tokens.weight"][::-1].copy()}, "m/model.safetensors")
    program = from_lm("m", length=16, vocabulary=384, output="net.pb")
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        assert program.states[name].shape.dims[0].size == 384
        assert program.tensors[name].dtype == "bfloat16"


@pytest.mark.thorough
def test_a_resized_model_is_tuned_written_and_imported_again(capsys: pytest.CaptureFixture[str]):
    made_folder(Path("m"), dtype="bfloat16")
    Path("t.jsonl").write_text("".join(json.dumps({"text": f"who are you ? {n}"}) + "\n" for n in range(16)))
    assert compiler(["data", "pack", "t.jsonl", "--chat", "m", "--length", "16", "-o", "rows.safetensors"]) == 0
    options = ["--data", "rows.safetensors", "--batch", "4", "--vocabulary", "384", "--lora", "q_proj:r=2"]
    assert compiler(["import", "lm", "m", *options, "--optimizer", "adamw:1e-2", "-o", "net.pb"]) == 0
    run = prograd.load("net.pb")
    run.train()
    run.save("tuned.safetensors")
    assert compiler(["merge", "net.pb", "--load", "tuned.safetensors", "--layout", "hf", "-o", "whole"]) == 0
    assert json.loads(Path("whole/config.json").read_text())["vocab_size"] == 384
    assert load_file("whole/model.safetensors")["model.embed_tokens.weight"].shape == (384, 64)
    assert compiler(["import", "lm", "whole", "--data", "rows.safetensors", "--batch", "4", "-o", "again.pb"]) == 0
    rows = {name: array[:4] for name, array in load_file("rows.safetensors").items() if name in ("codes", "labels")}
    one, other = (float(r.step(rows, entry="evaluate")["loss"]) for r in (run, prograd.load("again.pb")))
    assert one == pytest.approx(other, rel=2e-3)


def test_a_gguf_file_has_a_token_for_each_code_and_refuses_fewer(capsys: pytest.CaptureFixture[str]):
    made_folder(Path("m"))
    assert compiler(["import", "lm", "m", "--length", "16", "--vocabulary", "384", "-o", "net.pb"]) == 0
    assert compiler(["merge", "net.pb", "--layout", "gguf", "-o", "m.gguf"]) == 0
    file = read_gguf(Path("m.gguf"))
    assert len(file.values["tokenizer.ggml.tokens"]) == file.values["llama.vocab_size"] == 384
    with pytest.raises(CompileError) as caught:
        from_lm("m.gguf", vocabulary=320, output="net.pb")
    assert str(caught.value) == "from_lm: vocabulary=320 is less than the 384 codes that m.gguf has"
    assert compiler(["import", "lm", "m.gguf", "--length", "16", "--vocabulary", "400", "-o", "more.pb"]) == 0
    assert prograd.load("more.pb").state["model.embed_tokens.weight"].shape == (400, 64)
    capsys.readouterr()
    assert compiler(["merge", "more.pb", "--layout", "gguf", "-o", "more.gguf"]) != 0
    assert capsys.readouterr().err == (
        "compiler: merge: the model has 400 codes, and m.gguf, from which it comes, has no tokens for them; a model of "
        "a folder is written with its tokens\n"
    )


def test_an_encoder_gets_other_codes_and_a_folder_with_them():
    made_encoder(Path("m"))
    assert compiler(["import", "lm", "m", "--length", "16", "--vocabulary", "384", "-o", "net.pb"]) == 0
    assert compiler(["merge", "net.pb", "--layout", "hf", "-o", "whole"]) == 0
    assert json.loads(Path("whole/config.json").read_text())["vocab_size"] == 384
    table = load_file("whole/model.safetensors")["bert.embeddings.word_embeddings.weight"]
    assert table.shape == (384, 64)


def test_too_few_codes_are_refused(capsys: pytest.CaptureFixture[str]):
    made_folder(Path("m"))
    count = len(json.loads(Path("m/tokenizer.json").read_text())["model"]["vocab"])
    for vocabulary, words in (
        (count - 1, f"from_lm: vocabulary={count - 1} is less than the {count} codes that m/tokenizer.json has"),
        (1, "from_lm: vocabulary=1 is not from 2 to 16777216"),
    ):
        with pytest.raises(CompileError) as caught:
            from_lm("m", vocabulary=vocabulary, output="net.pb")
        assert str(caught.value) == words
    Path("t.jsonl").write_text(json.dumps({"text": "who are you ?"}) + "\n")
    assert compiler(["data", "pack", "t.jsonl", "--chat", "m", "--length", "16", "-o", "rows.safetensors"]) == 0
    rows = load_file("rows.safetensors")
    from safetensors import safe_open

    with safe_open("rows.safetensors", "np") as opened:
        metadata = opened.metadata()
    rows["codes"][0, 0] = 330  # as a tokenizer with further tokens writes it
    save_file(rows, "rows.safetensors", metadata)
    capsys.readouterr()
    assert compiler(["import", "lm", "m", "--data", "rows.safetensors", "-o", "net.pb"]) != 0
    assert capsys.readouterr().err == (
        "compiler: rows.safetensors: the rows have the code 330, and the model has 320 codes; --vocabulary 331 gives "
        "it more\n"
    )
