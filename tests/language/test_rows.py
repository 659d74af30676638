"""Texts as rows of codes: what counts, what is cut, which rows share, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from subjects.language_model import CODES, made_folder

from compiler.__main__ import main

TALK = [
    {"role": "user", "content": "who are you ?"},
    {"role": "assistant", "content": "i am a small model ."},
    {"role": "user", "content": "what is belgium ?"},
    {"role": "assistant", "content": "the capital ."},
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return made_folder(tmp_path / "m")


def lines(*rows: object) -> str:
    Path("t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "t.jsonl"


def packed(source: str, *options: str) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    assert main(["data", "pack", source, "--chat", "m", *options, "-o", "rows.safetensors", "--force"]) == 0
    return load_file("rows.safetensors")


def tokenizer(folder: Path) -> object:
    return pytest.importorskip("tokenizers").Tokenizer.from_file(str(folder / "tokenizer.json"))


def decoded(folder: Path, codes: np.ndarray) -> str:
    return tokenizer(folder).decode([int(code) for code in codes if code > 0], skip_special_tokens=False)  # type: ignore[attr-defined]


def test_what_assistants_say_counts_and_nothing_else(folder: Path):
    found = packed(lines({"messages": TALK}), "--length", "128")
    [codes], [labels] = found["codes"], found["labels"]
    whole = "".join(f"<|begin|>{turn['role']}\n{turn['content']}<|end|>\n" for turn in TALK)
    ids = tokenizer(folder).encode(whole, add_special_tokens=False).ids  # type: ignore[attr-defined]
    assert codes[: len(ids)].tolist() == ids
    assert not codes[len(ids) :].any()
    assert decoded(folder, labels) == "i am a small model .<|end|>\nthe capital .<|end|>\n"
    counted = labels != -100
    np.testing.assert_array_equal(labels[:-1][counted[:-1]], codes[1:][counted[:-1]])


def test_a_completion_counts_with_the_code_that_ends_it(folder: Path):
    found = packed(lines({"prompt": "what is ", "completion": "the capital ."}), "--length", "32")
    assert decoded(folder, found["labels"][0]) == " the capital .<|end|>"


def test_a_plain_text_counts_whole_and_goes_on_in_further_rows(folder: Path):
    Path("t.txt").write_text("the capital of belgium is brussels . " * 20)
    found = packed("t.txt", "--length", "16")
    assert len(found["codes"]) > 3
    whole = np.concatenate([row[row > 0] for row in found["codes"]])
    assert decoded(folder, whole) == "the capital of belgium is brussels . " * 20 + "<|end|>"
    labels = np.concatenate([row[row != -100] for row in found["labels"]])
    np.testing.assert_array_equal(labels, whole[1:])  # the first code of a row is a label of the row before it


@pytest.mark.parametrize(
    ("row", "kinds"),
    [
        ({"messages": TALK, "text": "the capital"}, ("messages", "text")),
        ({"text": "the capital", "prompt": "what", "completion": "who"}, ("prompt", "text")),
        ({"messages": TALK, "prompt": "what"}, ("messages", "prompt")),
    ],
)
def test_a_line_with_texts_of_two_kinds_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], row: dict[str, object], kinds: tuple[str, str]
):
    words = ["data", "pack", lines(row), "--chat", "m", "--length", "32", "-o", "rows.safetensors"]
    assert main(words) != 0
    assert capsys.readouterr().err.strip() == (
        f"compiler: t.jsonl, line 1: there is {kinds[0]}, and {kinds[1]} too; a line has one of them, so leave one out"
    )


@pytest.mark.parametrize("together", [(), ("--together",)])
def test_a_last_code_that_has_no_row_of_its_own_is_a_label(folder: Path, together: tuple[str, ...]):
    text = "the capital of belgium is brussels . " * 20
    ids = tokenizer(folder).encode(text).ids  # type: ignore[attr-defined]
    found = packed(lines({"text": text}), "--length", str(len(ids)), *together)
    assert found["codes"].tolist() == [ids]
    assert found["labels"].tolist() == [[*ids[1:], 1]]  # 1 ends a text


def test_spaces_at_the_end_count_where_a_tokenizer_trims_ranges(folder: Path):
    made = json.loads((folder / "tokenizer.json").read_text())
    made["post_processor"] = {
        "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True,
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(made))
    found = packed(lines({"prompt": "what is", "completion": " the capital .  "}), "--length", "32")
    assert decoded(folder, found["labels"][0]) == " the capital .  <|end|>"


def test_an_empty_text_teaches_nothing(folder: Path):
    found, without = (packed(lines({"text": "the capital"}, *more), "--length", "8") for more in ([{"text": ""}], []))
    for name, array in without.items():
        np.testing.assert_array_equal(found[name], array)


def test_texts_together_keep_apart_and_lose_nothing(folder: Path):
    rows = [{"prompt": "what is ", "completion": "the capital . " * (1 + n % 5)} for n in range(32)]
    apart, both = packed(lines(*rows), "--length", "64"), packed(lines(*rows), "--length", "64", "--together")
    assert len(both["codes"]) < len(apart["codes"]) == 32
    assert sorted(both["labels"][both["labels"] != -100]) == sorted(apart["labels"][apart["labels"] != -100])
    columns = (both[key] for key in ("codes", "segments", "positions", "labels"))
    for codes, segments, positions, labels in zip(*columns, strict=True):
        for number in range(1, segments.max() + 1):
            own = segments == number
            np.testing.assert_array_equal(positions[own], np.arange(own.sum()))
            assert labels[own][-1] == -100  # no text tells what the next one begins with
        assert not codes[segments == 0].any()


def test_splits_take_whole_texts_and_the_rest_is_for_training(folder: Path):
    rows = [{"text": f"the capital number {n} ."} for n in range(40)]
    found = packed(lines(*rows), "--length", "24", "--split", "test=0.25")
    assert (len(found["train"]), len(found["test"])) == (30, 10)
    assert sorted([*found["train"], *found["test"]]) == list(range(40))
    again = packed(lines(*rows), "--length", "24", "--split", "test=0.25")
    np.testing.assert_array_equal(found["codes"], again["codes"])


def test_what_is_longer_than_a_row_is_cut_and_that_is_said(folder: Path, capsys: pytest.CaptureFixture[str]):
    packed(lines({"messages": TALK}, {"messages": TALK[:2]}), "--length", "48")
    assert "note: 1 of 2 texts have more than 48 codes, and were cut" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["no object"], "t.jsonl, line 1: this is no JSON object, as {'messages': [...]} is"),
        ([{"a": 1}], "t.jsonl, line 1: there is neither messages nor text, nor prompt and completion"),
        ([{"text": "x y"}, {"text": 3}], "t.jsonl, line 2: text is no text"),
        ([{"prompt": "x"}], "t.jsonl, line 1: completion is no text"),
        ([{"text": "x \ud800"}], "t.jsonl, line 1: a text has half of a surrogate pair, which is no character"),
        ([{"messages": []}],
         "t.jsonl, line 1: messages is no list of turns, as in [{'role': 'user', 'content': 'Hello'}]"),
        ([{"messages": [{"role": "tool", "content": "x"}]}],
         "t.jsonl, line 1: turn 1 has the role 'tool'; a role is one of system, user, assistant"),
        ([{"messages": [{"role": "user"}]}], "t.jsonl, line 1: turn 1 has no content of text"),
        ([{"messages": TALK[:1]}], "t.jsonl: nothing in the texts counts: no turn is an assistant's"),
    ],
)  # fmt: skip
def test_a_wrong_line_is_named(folder: Path, rows: list[object], words: str, capsys: pytest.CaptureFixture[str]):
    code = main(["data", "pack", lines(*rows), "--chat", "m", "--length", "32", "-o", "rows.safetensors"])
    assert code != 0
    assert capsys.readouterr().err == f"compiler: {words}\n"
    assert not Path("rows.safetensors").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--chat", "m"], "--chat: --length names the codes of a row, as in --length 256"),
        (["--length", "8"], "--length and --together are for the rows of a language model; give --chat too"),
        (["--chat", "m", "--length", "8", "--class", "x"],
         "--chat: texts have no columns; give it with --length, --together, --split and --seed only"),
        (["--chat", "m", "--length", "1"], "length=1: a row has at least 2 codes, one and that behind it"),
        (["--chat", "none", "--length", "8"], "none/tokenizer.json: no such file or directory"),
    ],
)  # fmt: skip
def test_wrong_options_are_refused(folder: Path, options: list[str], words: str, capsys: pytest.CaptureFixture[str]):
    assert main(["data", "pack", lines({"text": "x y"}), *options, "-o", "rows.safetensors"]) != 0
    assert capsys.readouterr().err == f"compiler: {words}\n"


def test_codes_fit_the_model(folder: Path):
    assert packed(lines({"text": "the capital"}), "--length", "8")["codes"].max() < CODES


@pytest.mark.parametrize("together", [False, True])
def test_a_file_shows_its_lengths_and_what_counts(folder: Path, together: bool, capsys: pytest.CaptureFixture[str]):
    rows = [{"prompt": "what is ", "completion": "the capital . " * (1 + n % 5)} for n in range(32)]
    found = packed(lines(*rows), "--length", "64", *(["--together"] if together else []))
    capsys.readouterr()
    assert main(["data", "show", "rows.safetensors"]) == 0
    said = capsys.readouterr().out
    count = (found["labels"] != -100).mean()
    assert f"texts: 32 in {len(found['codes'])} rows of 64 codes, " in said
    assert f"; {count:.0%} counts" in said
    bars = [line.split() for line in said.splitlines() if " codes  " in line and " to " in line]
    assert sum(int(bar[4]) for bar in bars) == 32
    assert "the first row: what is the capital . " in said
