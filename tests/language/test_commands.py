"""The commands about language models, from a folder to answers; and what they refuse."""

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from subjects.commands import told
from subjects.language_model import GPT2, LLAMA, made_folder

import prograd
from compiler.__main__ import main as compiler
from runtime.__main__ import main as runtime
from runtime.errors import DataError, UsageError

TALKS = [
    {"messages": [{"role": "user", "content": f"who is {n} ?"}, {"role": "assistant", "content": f"i am {n} ."}]}
    for n in range(32)
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made_folder(tmp_path / "m", dtype="bfloat16")
    Path("t.jsonl").write_text("".join(json.dumps(talk) + "\n" for talk in TALKS))
    return tmp_path


def pack() -> None:
    options = ["--chat", "m", "--length", "64", "--together", "--split", "test=0.25"]
    assert compiler(["data", "pack", "t.jsonl", *options, "-o", "rows.safetensors"]) == 0


def fields(text: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in text.strip().splitlines()[-1].split()[1:])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_folder_is_tuned_evaluated_and_answers(home: Path, engine: str, capsys: pytest.CaptureFixture[str]):
    pack()
    lora = ["--lora", "q_proj,v_proj:r=4,alpha=8", "--optimizer", "adamw:1e-2", "--batch", "2", "--epochs", "4"]
    assert compiler(["import", "lm", "m", "--data", "rows.safetensors", *lora, "-o", "net.pb"]) == 0
    how = ["--engine", engine]
    capsys.readouterr()
    assert runtime(["execute", "net.pb", *how, "--save", "tuned.safetensors"]) == 0
    trained = fields(capsys.readouterr().out)
    load = ["--load", "tuned.safetensors"]
    assert runtime(["execute", "net.pb", *how, "--entry", "evaluate", *load]) == 0
    after = fields(capsys.readouterr().out)
    assert after["loss"] == trained["evaluate.loss"]
    assert runtime(["execute", "net.pb", *how, "--entry", "evaluate"]) == 0
    before = fields(capsys.readouterr().out)
    assert float(after["perplexity"]) < float(before["perplexity"])
    answers = []
    for extra in ([], load, load):
        assert runtime(["chat", "net.pb", *how, "--message", "who is 5 ?", "--most", "8", *extra]) == 0
        answers.append(capsys.readouterr().out.splitlines()[:-1])
    assert answers[1] == answers[2]


def test_a_conversation_has_its_turns_from_stdin(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any):
    assert compiler(["import", "lm", "m", "-o", "net.pb"]) == 0
    capsys.readouterr()
    monkeypatch.setattr(sys, "stdin", io.StringIO("who are you ?\n\nand what is belgium ?\n"))
    assert runtime(["chat", "net.pb", "--most", "5", "--system", "be short"]) == 0
    found = capsys.readouterr()
    assert fields(found.out)["codes"] == "10"
    assert found.err.count("the text was cut here") == 2


def test_a_model_without_a_template_goes_on_with_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any):
    monkeypatch.chdir(tmp_path)
    folder = made_folder(tmp_path / "m", GPT2)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": None}))
    assert compiler(["import", "lm", "m", "-o", "net.pb"]) == 0
    assert runtime(["chat", "net.pb", "--plain", "--message", "the capital", "--most", "5"]) == 0
    capsys.readouterr()
    assert runtime(["chat", "net.pb", "--message", "the capital"]) != 0
    assert "m: the model has no chat template" in capsys.readouterr().err


def test_another_tokenizer_is_refused(home: Path, capsys: pytest.CaptureFixture[str]):
    pack()
    assert compiler(["import", "lm", "m", "-o", "net.pb"]) == 0
    text = (home / "m" / "tokenizer.json").read_text()
    (home / "m" / "tokenizer.json").write_text(text.replace("<|pad|>", "<|PAD|>"))
    capsys.readouterr()
    assert runtime(["chat", "net.pb", "--message", "x"]) == 4
    error = capsys.readouterr().err
    assert error.startswith(
        "runtime: m/tokenizer.json: this is not the file that the program was made with, whose SHA-256 is"
    )
    assert compiler(["import", "lm", "m", "--data", "rows.safetensors", "-o", "other.pb"]) != 0
    assert capsys.readouterr().err == (
        "compiler: rows.safetensors: these rows were made with another tokenizer than the model's; pack them with "
        "--chat and the folder of the model\n"
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "mamba"},
         "m/config.json: model_type is 'mamba'; there is a builder for gpt2, llama, mistral, qwen2, qwen3, "
         "gemma3_text"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
         "m/config.json: rope_scaling is of the type 'yarn'; the builder knows default, linear, llama3"),
        ({"rope_theta": 1}, "m/config.json: rope_theta is 1.0, not a number above 1"),
        ({"rope_scaling": {"rope_type": "llama3"}}, "m/config.json: there is no factor"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4}},
         "m/config.json: low_freq_factor is 4.0, not below high_freq_factor, 4.0"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 0}}, "m/config.json: factor is 0, not a positive number"),
        ({"model_type": "gemma3_text", "rope_parameters": {
            "full_attention": {"rope_type": "default"}, "sliding_attention": {"rope_type": "linear", "factor": 2}}},
         "m/config.json: rope_parameters scales sliding_attention; the builder scales full_attention"),
        ({"moe_experts": 4},
         "m/config.json: the builder of llama does not know the key moe_experts, which may change results; compiler "
         "import torch takes any module"),
        ({"final_logit_softcapping": 30.0},
         "m/config.json: final_logit_softcapping is 30.0, which the builder does not know"),
        ({"model_type": "qwen2", "sliding_window": 8, "layer_types": ["full_attention", "sliding_attention"]},
         "m/config.json: layer_types has sliding_attention, and use_sliding_window is not true; state which holds"),
        ({"num_key_value_heads": 3}, "m/config.json: 3 heads of keys do not divide 4 heads of queries"),
        ({"hidden_size": "wide"}, "m/config.json: hidden_size is 'wide', not a whole number from 1 to 16777216"),
        ({"vocab_size": None}, "m/config.json: there is no vocab_size"),
        ({"hidden_act": "mish"},
         "m/config.json: hidden_act is 'mish'; the builder knows silu, swish, gelu, gelu_new, gelu_fast, "
         "gelu_pytorch_tanh"),
        ({"num_hidden_layers": 3},
         "m: the weights lack model.layers.2.input_layernorm.weight, which config.json asks for"),
        ({"intermediate_size": 97},
         "m/model.safetensors: model.layers.0.mlp.gate_proj.weight has the shape [96, 64]; config.json asks for "
         "[97, 64]"),
        ({"num_hidden_layers": 1}, "m: no layer of llama reads the weight model.layers.1.input_layernorm.weight"),
    ],
)  # fmt: skip
def test_a_config_that_is_not_understood_is_refused(
    home: Path, change: dict[str, object], words: str, capsys: pytest.CaptureFixture[str]
):
    config = json.loads((home / "m" / "config.json").read_text())
    (home / "m" / "config.json").write_text(json.dumps({**config, **change}))
    assert compiler(["import", "lm", "m", "-o", "net.pb"]) != 0
    assert capsys.readouterr().err == f"compiler: {words}\n"
    assert not Path("net.pb").exists()


def test_a_folder_that_is_no_model_is_refused(home: Path, capsys: pytest.CaptureFixture[str]):
    def refusal(*words: str) -> str:
        assert compiler(["import", "lm", *words, "-o", "net.pb"]) != 0
        return capsys.readouterr().err.removeprefix("compiler: ").rstrip("\n")

    (home / "empty").mkdir()
    assert refusal("empty") == "empty: the folder has no config.json, so it is no model of Hugging Face's form"
    assert refusal("none") == "none/config.json: no such file or directory"
    (home / "bare").mkdir()
    (home / "bare" / "config.json").write_text(json.dumps(LLAMA))
    assert refusal("bare") == (
        "bare: the folder has neither model.safetensors nor model.safetensors.index.json; other forms of weights are "
        "not read"
    )
    (home / "bare" / "model.safetensors").write_bytes(b"\x08" + b"\x00" * 7 + b"not json")
    assert refusal("bare").startswith("bare/model.safetensors: the file is damaged: ")
    assert refusal("m", "--length", "1000") == "from_lm: length=1000 is not from 1 to 128, as the model has positions"
    for name in ("nothing.*", "seed"):
        assert refusal("m", "--train", name) == f"from_lm: no weight matches {name!r}"
    assert refusal("m", "--train", "*", "--weights", "q8_0") == (
        "--weights q8_0: each weight that could become codes is to stay as it is; there is nothing to do"
    )
    assert refusal("m", "--optimizer", "adamw:1e-3") == (
        "--optimizer needs what it trains: --lora PATTERN:r=8 for adapters, or --train PATTERN"
    )


def test_answers_in_python_are_those_of_the_command(home: Path, capsys: pytest.CaptureFixture[str]):
    assert compiler(["import", "lm", "m", "--texts", "2", "-o", "net.pb"]) == 0
    capsys.readouterr()
    assert runtime(["chat", "net.pb", "--message", "who is 5 ?", "--most", "12"]) == 0
    wanted = capsys.readouterr().out.rpartition("OK ")[0].removesuffix("\n")
    run = prograd.load("net.pb")
    assert "".join(run.chat("who is 5 ?", most=12)) == wanted
    pieces = [run.chat("who is 5 ?", most=12), run.chat("another text", most=12, temperature=3.0)]
    mixed = [next(each) for each in pieces]
    assert mixed[0] + "".join(pieces[0]) == wanted  # beside another text
    assert mixed[1] + "".join(pieces[1]) == "".join(run.chat("another text", most=12, temperature=3.0))


def test_a_stop_text_ends_an_answer_and_is_not_part_of_it(home: Path):
    assert compiler(["import", "lm", "m", "-o", "net.pb"]) == 0
    run = prograd.load("net.pb")
    whole = "".join(run.chat("who is 5 ?", most=20))
    for stop in (whole[5:8], whole[3], "never there"):
        wanted = whole.partition(stop)[0]
        assert "".join(run.chat("who is 5 ?", most=20, stop=[stop])) == wanted
        assert "".join(run.chat("who is 5 ?", most=20, stop=stop)) == wanted  # one text, not its letters


def test_a_prompt_without_room_and_other_programs_are_refused(home: Path):
    assert compiler(["import", "lm", "m", "--positions", "16", "-o", "net.pb"]) == 0
    run = prograd.load("net.pb")
    with pytest.raises(DataError, match=r"^the prompt has \d+ codes, and the program was compiled for texts of 16, "):
        run.chat("who are you ? " * 5)
    assert told(UsageError, lambda: run.chat("who", heat=1.0)) == (
        "there is no choice 'heat'; there are temperature, top_k, top_p, repetition_penalty, seed"
    )


def test_arguments_of_an_answer_that_would_have_no_effect_are_refused(home: Path):
    assert compiler(["import", "lm", "m", "-o", "net.pb"]) == 0
    run = prograd.load("net.pb")
    turn = {"role": "user", "content": "who"}
    mistakes = [
        (DataError, {"prompt": []},
         "chat: messages is no list of turns, as in [{'role': 'user', 'content': 'Hello'}]"),
        (DataError, {"prompt": [turn, {"role": "robot", "content": "who"}]},
         "chat: turn 2 has the role 'robot'; a role is one of system, user, assistant"),
        (DataError, {"prompt": [{"role": "user", "text": "who"}]}, "chat: turn 1 has no content of text"),
        (UsageError, {"prompt": [turn], "plain": True},
         "chat: plain=True goes on with a text, and the prompt is a conversation; leave plain out"),
        *((UsageError, {"prompt": "who", "most": most}, f"chat: most={most!r} is not a whole number from 0 on")
          for most in (-1, 2.5, True, "3")),
        *((UsageError, {"prompt": "who", "stop": stop},
           f"chat: stop={stop!r} is neither a text nor a list of texts, each of a character or more")
          for stop in ("", ["a", ""], [5], 5, None)),
    ]  # fmt: skip
    for kind, given, sentence in mistakes:
        assert told(kind, lambda given=given: run.chat(**given)) == sentence  # type: ignore[misc]
    assert list(run.chat((turn,), most=3)) == list(run.chat("who", most=3))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--message", " "], "--message: the text is empty: give at least one word"),
        (["--stop", ""], "--stop: the text is empty: give at least one character"),
        (["--plain", "--system", "short"],
         "--system begins a conversation, and --plain goes on with a text: leave one of them out"),
    ],
)  # fmt: skip
def test_options_of_a_conversation_that_would_have_no_effect_are_refused(
    home: Path, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
):
    assert compiler(["import", "lm", "m", "-o", "net.pb"]) == 0
    capsys.readouterr()
    assert runtime(["chat", "net.pb", *words]) == 2
    assert capsys.readouterr().err.strip() == f"runtime: {sentence}"


def test_all_weights_are_trained_beside_adapters(home: Path, capsys: pytest.CaptureFixture[str]):
    assert compiler(["import", "lm", "m", "--train", "*", "--lora", "q_proj:r=2", "-o", "net.pb"]) == 0
    weights, trained = re.findall(r"weights=(\d+) trained=(\d+)", capsys.readouterr().out)[0]
    assert weights == trained
