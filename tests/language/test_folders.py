"""Tuned models and adapters as folders for other programs, and adapters of PEFT's folders."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from subjects.language_model import GPT2, LLAMA, made_folder

import prograd
from compiler.__main__ import main as compiler

pytestmark = pytest.mark.usefixtures("here")

MODULES = [f"model.layers.{i}.self_attn.{x}_proj" for i in (0, 1) for x in "qv"]
FED = {
    "codes": np.random.default_rng(0).integers(0, 300, (32, 24)).astype(np.int32),
    "labels": np.random.default_rng(1).integers(0, 300, (32, 24)).astype(np.int32),
}


def imported(*options: str, output: str = "net.pb", source: str = "m") -> prograd.Run:
    words = ["import", "lm", source, "--length", "24", "--batch", "32", *options, "-o", output, "--force"]
    assert compiler(words) == 0
    return prograd.load(output)


def trained(*options: str) -> prograd.Run:
    run = imported(*options, "--optimizer", "adamw:1e-2")
    for _ in range(5):
        run.step(FED)
    run.save("tuned.safetensors", force=True)
    return run


def loss(run: prograd.Run) -> float:
    return float(run.step(FED, entry="evaluate")["loss"])


def merge(layout: str, output: str) -> None:
    assert compiler(["merge", "net.pb", "--load", "tuned.safetensors", "--layout", layout, "-o", output]) == 0


@pytest.mark.thorough
@pytest.mark.parametrize("config", [LLAMA, GPT2], ids=["llama", "gpt2"])
def test_adapters_go_out_and_come_in_again(config: dict[str, Any]):
    made_folder(Path("m"), config)
    pattern = "q_proj,v_proj" if config is LLAMA else "c_attn"
    run = trained("--lora", f"{pattern}:r=4,alpha=6")
    merge("peft", "adapter")
    said = json.loads(Path("adapter/adapter_config.json").read_text())
    assert (said["peft_type"], said["r"], said["lora_alpha"]) == ("LORA", 4, 6.0)
    found = load_file("adapter/adapter_model.safetensors")
    inputs, outputs = 64, 192 if config is GPT2 else 64
    module = "h.0.attn.c_attn" if config is GPT2 else MODULES[0]
    assert found[f"base_model.model.{module}.lora_A.weight"].shape == (4, inputs)
    assert found[f"base_model.model.{module}.lora_B.weight"].shape == (outputs, 4)
    again = imported("--peft", "adapter", output="again.pb")
    assert loss(again) == loss(run) != loss(imported())
    assert float(again.step(FED)["loss"]) == loss(run)  # and they are trained further


@pytest.mark.thorough
def test_adapters_of_dora_are_a_folder_of_peft_and_come_back():
    made_folder(Path("m"), dtype="bfloat16")
    run = trained("--lora", "q_proj,v_proj:r=4,alpha=8,dora", "--weights", "q8_0")
    merge("peft", "adapter")
    assert json.loads(Path("adapter/adapter_config.json").read_text())["use_dora"] is True
    found = load_file("adapter/adapter_model.safetensors")
    module = "base_model.model.model.layers.0.self_attn.q_proj"
    assert found[f"{module}.lora_magnitude_vector"].shape == (64,)
    again = imported("--peft", "adapter", "--weights", "q8_0", output="again.pb")
    assert loss(again) == loss(run) != loss(imported())


@pytest.mark.thorough
def test_adapters_of_two_kinds_are_no_folder_of_peft(capsys: pytest.CaptureFixture[str]):
    made_folder(Path("m"))
    trained("--lora", "q_proj:r=2,dora", "--lora", "v_proj:r=2")
    capsys.readouterr()
    assert compiler(["merge", "net.pb", "--layout", "peft", "-o", "adapter"]) != 0
    assert capsys.readouterr().err == (
        "compiler: merge: model.layers.0.self_attn.q_proj.weight has an adapter of DoRA and "
        "model.layers.0.self_attn.v_proj.weight one without; a folder of PEFT has one kind, so write --layout hf\n"
    )


@pytest.mark.thorough
def test_a_tuned_model_is_a_folder_that_is_imported_again():
    made_folder(Path("m"), dtype="bfloat16")
    run = trained("--lora", "q_proj,v_proj:r=4")
    merge("hf", "whole")
    assert loss(imported(source="whole", output="again.pb")) == pytest.approx(loss(run), rel=2e-3)  # rounded to 16 bits
    assert {path.name for path in Path("whole").iterdir()} == {
        "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
    }  # fmt: skip
    run = trained("--train", "model.layers.1.*")
    merge("hf", "tuned")
    assert loss(imported(source="tuned", output="again.pb")) == pytest.approx(loss(run), rel=2e-3)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"peft_type": "IA3"}, "adapter/adapter_config.json: peft_type is 'IA3'; LORA is understood"),
        ({"use_dora": 5}, "adapter/adapter_config.json: use_dora is 5, neither true nor false"),
        ({"use_dora": True}, "adapter: the factors of model.layers.0.self_attn.q_proj do not fit each other"),
        ({"lora_bias": True}, "adapter/adapter_config.json: lora_bias is True, which is not understood"),
        ({"modules_to_save": ["lm_head"]},
         "adapter/adapter_config.json: modules_to_save is ['lm_head'], which is not understood"),
        ({"lora_alpha": "much"}, "adapter/adapter_config.json: lora_alpha is 'much', not a number"),
    ],
)  # fmt: skip
def test_adapters_of_another_kind_are_refused(change: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]):
    made_folder(Path("m"))
    trained("--lora", "q_proj:r=2")
    merge("peft", "adapter")
    path = Path("adapter/adapter_config.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    capsys.readouterr()
    assert compiler(["import", "lm", "m", "--peft", "adapter", "-o", "other.pb"]) != 0
    assert capsys.readouterr().err == f"compiler: {words}\n"


@pytest.mark.thorough
def test_adapters_of_another_model_are_refused(capsys: pytest.CaptureFixture[str]):
    made_folder(Path("m"))
    trained("--lora", "q_proj:r=2")
    merge("peft", "adapter")
    made_folder(Path("small"), num_attention_heads=2, num_key_value_heads=1, head_dim=16)
    made_folder(Path("gpt"), GPT2)
    capsys.readouterr()
    for source, words in (
        ("small", "for a weight [64, 64]; that of the model is [32, 64]"),
        ("gpt", "of another model, which has such a module"),
    ):
        assert compiler(["import", "lm", source, "--peft", "adapter", "-o", "other.pb"]) != 0
        module = "model.layers.0.self_attn.q_proj"
        assert capsys.readouterr().err == f"compiler: adapter: the adapter of {module} is {words}\n"
    factors = load_file("adapter/adapter_model.safetensors")
    save_file(dict([*factors.items()][:1]), "adapter/adapter_model.safetensors")
    assert compiler(["import", "lm", "m", "--peft", "adapter", "-o", "other.pb"]) != 0
    assert "do not fit each other" in capsys.readouterr().err


@pytest.mark.thorough
def test_other_programs_have_no_such_layouts(capsys: pytest.CaptureFixture[str]):
    made_folder(Path("m"))
    trained("--train", "model.norm")
    capsys.readouterr()

    def refusal(*words: str) -> str:
        assert compiler(["merge", "net.pb", "--load", "tuned.safetensors", *words]) != 0
        return capsys.readouterr().err.removeprefix("compiler: ").rstrip("\n")

    assert refusal("--layout", "peft", "-o", "a") == (
        "merge: the program has no adapters; compiler import lm --lora adds them"
    )
    assert (
        refusal("--layout", "hf", "-o", "a.safetensors") == "-o a.safetensors: --layout hf writes a folder, not a file"
    )
    assert refusal("--layout", "hf", "--adapters", "-o", "a") == (
        "--adapters: --layout hf writes a whole model; --layout peft writes adapters"
    )
    assert not Path("a").exists()


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["q8_0", "q4_0"])
def test_adapters_on_weights_of_few_bits_are_tuned_and_written(form: str):
    made_folder(Path("m"), dtype="bfloat16")
    before = loss(imported())
    run = trained("--lora", "q_proj,v_proj:r=4,alpha=8", "--weights", form)
    assert f"{MODULES[0]}.weight.codes" in run.state
    assert f"{MODULES[0]}.weight" not in run.state
    assert loss(run) < 0.95 * before
    merge("peft", "adapter")
    assert loss(imported("--peft", "adapter", "--weights", form, output="again.pb")) == loss(run)
    merge("hf", "whole")
    assert loss(imported(source="whole", output="whole.pb")) == pytest.approx(loss(run), rel=1e-2)
    texts = [list(prograd.load("again.pb", engine=e).chat("who is 5 ?", most=8)) for e in ("reference", "native")]
    assert texts[0] == texts[1]
