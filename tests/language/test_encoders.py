"""Encoders with a head for classes: values, rows of labelled texts, training, and what is refused."""

from __future__ import annotations

import json
from math import erf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from subjects.encoders import BERT, WORDS, made_encoder, weights_of
from subjects.language_model import made_folder

import prograd
from compiler import from_lm
from compiler.__main__ import main as compiler
from compiler.errors import CompileError
from runtime.__main__ import main as runtime

pytestmark = pytest.mark.usefixtures("here")

RNG = np.random.default_rng(5)
TEXTS = [" ".join(RNG.choice(WORDS, 6)) for _ in range(96)]
LABELS = [("good" if "good" in text.split() or "fine" in text.split() else "bad") for text in TEXTS]


def lines(*rows: object, path: str = "t.jsonl") -> str:
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def labelled() -> str:
    return lines(*({"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)))


def pack(source: str, *options: str, output: str = "rows.safetensors") -> int:
    return compiler(["data", "pack", source, "--chat", "m", *options, "-o", output, "--force"])


def fields(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in capsys.readouterr().out.strip().splitlines()[-1].split()[1:])


def refusal(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    capsys.readouterr()
    assert compiler([*command]) != 0
    return capsys.readouterr().err.removeprefix("compiler: ").strip()


def bert(w: dict[str, np.ndarray], codes: np.ndarray, types: np.ndarray) -> np.ndarray:
    """Return the scores of one row without padding."""

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ w[f"{name}.weight"].T.astype("f8") + w[f"{name}.bias"]

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        apart = x - x.mean(-1, keepdims=True)
        return apart / np.sqrt((apart**2).mean(-1, keepdims=True) + 1e-12) * w[f"{name}.weight"] + w[f"{name}.bias"]

    at = "bert.embeddings"
    x = w[f"{at}.word_embeddings.weight"][codes] + w[f"{at}.position_embeddings.weight"][: len(codes)]
    x = norm(x + w[f"{at}.token_type_embeddings.weight"][types].astype("f8"), f"{at}.LayerNorm")
    for i in range(BERT["num_hidden_layers"]):
        at = f"bert.encoder.layer.{i}"
        q, k, v = (
            linear(x, f"{at}.attention.self.{p}").reshape(-1, 4, 16).swapaxes(0, 1) for p in ("query", "key", "value")
        )
        scores = np.exp(q @ k.swapaxes(1, 2) / 4)
        y = (scores / scores.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(x.shape)
        x = norm(x + linear(y, f"{at}.attention.output.dense"), f"{at}.attention.output.LayerNorm")
        y = linear(x, f"{at}.intermediate.dense")
        y = y * 0.5 * (1 + np.vectorize(erf)(y / 2**0.5))
        x = norm(x + linear(y, f"{at}.output.dense"), f"{at}.output.LayerNorm")
    return linear(np.tanh(linear(x[0], "bert.pooler.dense")), "classifier")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("old_names", [False, True])
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_probabilities_are_those_of_a_plain_computation_whatever_fills_a_row(engine: str, old_names: bool):
    folder = made_encoder(Path("m"), old_names=old_names)
    program = from_lm(folder, length=32, output="m.pb")
    run = prograd.Run(program.compile(batch=4), engine=engine)  # type: ignore[arg-type]
    lengths = np.array([32, 5, 17, 2], "i4")
    codes, types = RNG.integers(0, 320, (4, 32)).astype("i4"), RNG.integers(0, 2, (4, 32)).astype("i4")
    found = run.predict({"codes": codes, "types": types, "lengths": lengths})["probabilities"]
    for row, length in enumerate(lengths):
        scores = np.exp(bert(weights_of(BERT), codes[row, :length], types[row, :length]))
        np.testing.assert_allclose(found[row], scores / scores.sum(), rtol=1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("engine", "how"),
    [("reference", ["--lora", "query,value:r=4"]), ("native", ["--lora", "query,value:r=4,dora"]),
     ("native", ["--train", "*"]), ("native", ["--lora", "query,value:r=4", "--weights", "q8_0"])],
)  # fmt: skip
def test_labelled_texts_train_an_encoder_which_tells_names(engine: str, how: list[str], capsys: Any):
    made_encoder(Path("m"), has_head=False)
    assert pack(labelled(), "--length", "16", "--split", "test=0.25") == 0
    rate = ["--optimizer", "adamw:1e-3" if how[0] == "--train" else "adamw:1e-2", "--batch", "8", "--epochs", "12"]
    assert compiler(["import", "lm", "m", "--data", "rows.safetensors", *how, *rate, "-o", "net.pb"]) == 0
    assert runtime(["execute", "net.pb", "--engine", engine, "--save", "tuned.safetensors"]) == 0
    trained = fields(capsys)
    load = ["--load", "tuned.safetensors", "--engine", engine]
    assert runtime(["execute", "net.pb", "--entry", "evaluate", "--split", "test", *load]) == 0
    assert fields(capsys)["accuracy"] == trained["evaluate.accuracy"]
    assert runtime(["execute", "net.pb", "--entry", "evaluate", "--split", "train", *load]) == 0
    assert float(fields(capsys)["accuracy"]) > 0.9
    new = lines({"text": "this film was good"}, {"text": "a poor film"}, path="new.jsonl")
    assert pack(new, "--length", "16", "--like", "rows.safetensors", output="new.safetensors") == 0
    capsys.readouterr()
    ask = ["--entry", "predict", "--data", "new.safetensors", "--fetch", "probabilities"]
    assert runtime(["execute", "net.pb", *ask, "--decode", "probabilities=label", *load]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("text[2] = ['good', 'bad']")


def test_a_tuned_encoder_is_a_folder_with_its_classes_that_is_imported_again(capsys: pytest.CaptureFixture[str]):
    made_encoder(Path("m"), old_names=True)
    assert pack(labelled(), "--length", "16") == 0
    options = ["--data", "rows.safetensors", "--train", "bert.encoder.layer.1.*", "--optimizer", "adamw:1e-3"]
    assert compiler(["import", "lm", "m", *options, "--batch", "8", "-o", "net.pb"]) == 0
    run = prograd.load("net.pb")
    run.train()
    run.save("tuned.safetensors")
    assert "bert.encoder.layer.0.output.dense.weight" not in load_file("tuned.safetensors")
    assert compiler(["merge", "net.pb", "--load", "tuned.safetensors", "--layout", "hf", "-o", "whole"]) == 0
    config = json.loads(Path("whole/config.json").read_text())
    assert config["id2label"] == {"0": "bad", "1": "good"}
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert load_file("whole/model.safetensors").keys() == weights_of(BERT).keys()
    assert compiler(["import", "lm", "whole", "--length", "16", "--batch", "8", "-o", "again.pb"]) == 0
    rows = load_file("rows.safetensors")
    asked = {name: rows[name][:8] for name in ("codes", "types", "lengths")}
    one, other = (r.predict(asked)["probabilities"] for r in (run, prograd.load("again.pb")))
    np.testing.assert_allclose(one, other, rtol=1e-5)


def test_adapters_go_out_with_the_head_and_come_back(capsys: pytest.CaptureFixture[str]):
    made_encoder(Path("m"))
    classes = ["--classes", "bad,fair,good", "--length", "16", "--batch", "4"]
    lora = ["--lora", "query,value:r=4,dora", "--optimizer", "adamw:1e-2"]
    assert compiler(["import", "lm", "m", *classes, *lora, "-o", "net.pb"]) == 0
    run = prograd.load("net.pb")
    codes, types = RNG.integers(4, 20, (4, 16)).astype("i4"), np.zeros((4, 16), "i4")
    asked = {"codes": codes, "types": types, "lengths": np.full(4, 16, "i4")}
    for _ in range(3):
        run.step({**asked, "label": np.array([0, 1, 2, 1])})
    run.save("tuned.safetensors")
    assert compiler(["merge", "net.pb", "--load", "tuned.safetensors", "--layout", "peft", "-o", "adapter"]) == 0
    assert json.loads(Path("adapter/adapter_config.json").read_text())["modules_to_save"] == ["classifier", "pooler"]
    assert compiler(["import", "lm", "m", *classes, "--peft", "adapter", "-o", "back.pb"]) == 0
    one, other = (each.predict(asked)["probabilities"] for each in (run, prograd.load("back.pb")))
    np.testing.assert_allclose(one, other, rtol=1e-5)
    assert refusal(capsys, "import", "lm", "m", "--classes", "2", "--peft", "adapter", "-o", "x.pb") == (
        "adapter: classifier.bias is [3]; that of the model is [2]"
    )
    made_folder(Path("lm"))
    assert refusal(capsys, "import", "lm", "lm", "--peft", "adapter", "-o", "x.pb") == (
        "adapter/adapter_config.json: modules_to_save is ['classifier', 'pooler'], which is not understood"
    )


def test_rows_have_two_texts_tables_and_the_classes_of_the_folder(capsys: pytest.CaptureFixture[str]):
    made_encoder(Path("m"), id2label={"0": "yes", "1": "no"})
    Path("t.csv").write_text('text,pair,label\nwho are you ?,a small model,no\n"good, film","",yes\nbad,good,no\n')
    assert pack("t.csv", "--length", "8") == 0
    rows = load_file("rows.safetensors")
    assert rows["label"].tolist() == [1, 0, 1]
    assert rows["lengths"].tolist() == [8, 6, 5]
    assert rows["types"][0].tolist() == [0, 0, 0, 0, 0, 1, 1, 1]  # the longer text is cut first
    assert rows["codes"][2, 0] == 2
    assert not rows["codes"][2, 5:].any()
    assert capsys.readouterr().err == "note: 1 of 3 texts have more than 8 codes, and were cut\n"
    assert pack(lines({"text": "good", "label": 1}, {"text": "bad", "label": 0}), "--length", "8") == 0
    assert load_file("rows.safetensors")["label"].tolist() == [1, 0]


def test_a_head_is_kept_for_its_classes_and_new_for_others():
    folder = made_encoder(Path("m"), id2label={"0": "yes", "1": "no"})
    kept = load_file(folder / "model.safetensors")["classifier.weight"]
    for classes, is_kept in ((None, True), (["yes", "no"], True), (2, True), (["no", "yes"], False), (3, False)):
        program = from_lm(folder, length=16, classes=classes, output="m.pb")
        state = prograd.Run(program.compile(batch=1)).state["classifier.weight"]
        assert (state.shape == kept.shape and np.array_equal(state, kept)) is is_kept
    assert "bert.pooler.dense.weight" in {s.name for s in program.states.values() if s.trainable}


def test_wrong_rows_and_classes_are_refused(capsys: pytest.CaptureFixture[str]):
    made_encoder(Path("m"))
    made_folder(Path("lm"))
    data = ("data", "pack", "t.jsonl", "--chat", "m", "--length", "16", "-o", "x.safetensors")
    for rows, words in (
        ([{"text": "a", "label": "x"}, {"text": "b"}],
         "t.jsonl, line 2: there is no label; --like ROWS packs texts without labels as these rows are"),
        ([{"text": "a", "label": 1.5}], "t.jsonl, line 1: label is 1.5, neither a text nor a whole number"),
        ([{"text": 5, "label": "x"}], "t.jsonl, line 1: text is no text"),
        ([{"text": "\ud800", "label": "x"}],
         "t.jsonl, line 1: a text has half of a surrogate pair, which is no character"),
        ([{"text": "a", "label": "x"}], "t.jsonl: all labels are 'x'; there is nothing to tell apart"),
        ([{"text": "a", "label": -1}, {"text": "a", "label": 1}],
         "t.jsonl: labels that are numbers count classes from 0, and the largest is 1"),
    ):  # fmt: skip
        lines(*rows)
        assert refusal(capsys, *data) == words
    superscript = lines({"text": "a", "label": "1"}, {"text": "b", "label": "\u00b2"})  # the name of a class
    assert pack(superscript, "--length", "16", output="y.safetensors") == 0
    Path("t.csv").write_text("texts,label\na,b\n")
    wrong = ("data", "pack", "t.csv", "--chat", "m", "--length", "16", "-o", "x.safetensors")
    told = "t.csv: there is no column text, from which the texts are taken; did you mean 'texts'?"
    assert refusal(capsys, *wrong) == told
    assert pack(labelled(), "--length", "16") == 0
    lines({"text": "a", "label": "worse"})
    assert refusal(capsys, *data[:-2], "--like", "rows.safetensors", "-o", "x.safetensors") == (
        "t.jsonl, line 1: the label 'worse' is none of bad, good"
    )
    lines({"text": "a", "label": "good"}, {"text": "b"})
    assert refusal(capsys, *data[:-2], "--like", "rows.safetensors", "-o", "x.safetensors") == (
        "t.jsonl, line 2: there is no label, and other texts have one"
    )
    given = ("import", "lm", "m", "--data", "rows.safetensors", "-o", "net.pb")
    assert (
        refusal(capsys, *given, "--classes", "3")
        == "--classes 3: the rows of rows.safetensors have the classes bad,good"
    )
    assert refusal(capsys, *given, "--classes", "good,bad") == (
        "--classes good,bad: the rows of rows.safetensors have the classes bad,good"
    )
    assert refusal(capsys, "import", "lm", "lm", "--data", "rows.safetensors", "-o", "net.pb") == (
        "lm: classes are for encoders, as bert, roberta, xlm-roberta, camembert, distilbert, and this model writes "
        "texts"
    )
    for classes, words in (
        ([], "from_lm: classes=[] are not two different names or more"),
        (["a", "a"], "from_lm: classes=['a', 'a'] are not two different names or more"),
        (1, "from_lm: classes=1 is not from 2 to 65536"),
    ):
        with pytest.raises(CompileError) as caught:
            from_lm("m", classes=classes)
        assert str(caught.value) == words


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"problem_type": "regression"},
         "m/config.json: problem_type is 'regression'; the builder knows one class for each row"),
        ({"position_embedding_type": "relative_key"},
         "m/config.json: position_embedding_type is 'relative_key'; the builder knows absolute"),
        ({"id2label": {"0": "a", "2": "b"}}, "m/config.json: id2label does not name the classes 0, 1, 2 and so on"),
        ({"id2label": {"0": "a", "1": "a"}},
         "m/config.json: id2label does not have a text of its own for each class"),
        ({"is_decoder": True}, "m/config.json: is_decoder is True, which the builder does not know"),
        ({"num_attention_heads": 5}, "m/config.json: 5 heads do not divide 64 channels"),
        ({"moe": 3}, "m/config.json: the builder of bert does not know the key moe, which may change results; "
                     "compiler import torch takes any module"),
    ],
)  # fmt: skip
def test_configs_that_the_builder_does_not_know_are_refused(change: dict[str, Any], words: str):
    made_encoder(Path("m"))
    Path("m/config.json").write_text(json.dumps({**BERT, **change}))
    with pytest.raises(CompileError) as caught:
        from_lm("m")
    assert str(caught.value) == words


def test_an_encoder_writes_no_texts_and_no_gguf(capsys: pytest.CaptureFixture[str]):
    made_encoder(Path("m"))
    assert compiler(["import", "lm", "m", "-o", "net.pb"]) == 0
    capsys.readouterr()
    assert runtime(["chat", "net.pb", "--message", "a"]) != 0
    told = "the program is no language model; compiler import lm, or prograd.from_lm, makes one"
    assert capsys.readouterr().err == f"runtime: {told}\n"
    assert refusal(capsys, "merge", "net.pb", "--layout", "gguf", "-o", "x.gguf") == f"merge: {told}"
