"""Texts that programs write: the codes are those of the logits, whatever the rows, the chunks and the engine."""

from pathlib import Path

import numpy as np
import pytest
from subjects.commands import told
from subjects.language_model import GPT2, LLAMA, made_folder

import prograd
from compiler import from_lm
from runtime.errors import DataError, UsageError
from runtime.language.choices import Choices, choices_of
from runtime.language.writer import Writer

ENGINES = ("reference", "native")
LARGEST = Choices()
LONG = 90  # codes: more than a step of `read` takes
WINDOWED = {**LLAMA, "model_type": "mistral", "sliding_window": 16}


def run_of(tmp_path: Path, config: dict[str, object], engine: str, texts: int = 1) -> prograd.Run:
    program = from_lm(
        made_folder(tmp_path / "m", config), length=LONG, texts=texts, positions=120, output=tmp_path / "p"
    )
    program.outputs(logits=program["logits"])
    return prograd.Run(program.compile(batch=1), tmp_path, engine=engine)  # type: ignore[arg-type]


def prompt(count: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(3, 300, count).tolist()


def by_logits(run: prograd.Run, codes: list[int], count: int) -> list[int]:
    """Return the codes with the largest logits, each of a pass over the whole text."""
    found = list(codes)
    for _ in range(count):
        padded = np.zeros((1, LONG), np.int32)
        padded[0, : len(found)] = found
        found.append(int(run.predict({"codes": padded})["logits"][0, len(found) - 1].argmax()))
    return found[len(codes) :]


def written(writer: Writer, row: int, codes: list[int], count: int, choices: Choices = LARGEST) -> list[int]:
    writer.begin(row, choices)
    found = [writer.read(row, codes)]
    others: list[int | None] = [None] * writer.model.texts
    while len(found) < count:
        others[row] = found[-1]
        found.append(writer.next(others)[row] or 0)
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("config", [LLAMA, GPT2, WINDOWED], ids=["llama", "gpt2", "windows"])
def test_codes_are_those_with_the_largest_logits(tmp_path: Path, config: dict[str, object], engine: str):
    run = run_of(tmp_path, config, engine)
    writer = Writer(run.session)
    for count in (1, 5, 70):  # one code, part of a step, more than a step
        codes = prompt(count)
        assert written(writer, 0, codes, 12) == by_logits(run, codes, 12)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_rows_begin_and_end_independently(tmp_path: Path, engine: str):
    alone = Writer(run_of(tmp_path / "1", LLAMA, engine).session)
    codes = [prompt(7, seed) for seed in range(3)]
    warm = [Choices(temperature=1.0, seed=seed) for seed in range(3)]
    wanted = [written(alone, 0, each, 10, choices) for each, choices in zip(codes, warm, strict=True)]
    writer = Writer(run_of(tmp_path / "3", LLAMA, engine, texts=3).session)
    rows: list[list[int]] = [[], [], []]
    for turn in range(16):  # row i begins in turn 2 * i and ends after 10 codes
        for row in range(3):
            if turn == 2 * row:
                writer.begin(row, warm[row])
                rows[row].append(writer.read(row, codes[row]))
        given = [each[-1] if 0 < len(each) < 10 else None for each in rows]
        for row, code in enumerate(writer.next(given) if any(code is not None for code in given) else given):
            if given[row] is not None and code is not None:
                rows[row].append(code)
    assert rows == wanted


def test_a_drawn_text_is_the_same_each_time_and_another_for_another_seed(tmp_path: Path):
    writer = Writer(run_of(tmp_path, LLAMA, "native").session)
    codes = prompt(9)
    texts = [written(writer, 0, codes, 30, Choices(temperature=2.0, seed=seed)) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_one_choice_is_the_largest_and_shares_bound_the_draw(tmp_path: Path):
    writer = Writer(run_of(tmp_path, LLAMA, "native").session)
    codes = prompt(9)
    plain = written(writer, 0, codes, 20)
    assert written(writer, 0, codes, 20, Choices(temperature=5.0, top_k=1)) == plain
    assert written(writer, 0, codes, 20, Choices(temperature=5.0, top_p=1e-6)) == plain
    assert written(writer, 0, codes, 20, Choices(temperature=5.0)) != plain


@pytest.mark.thorough
def test_draws_have_the_shares_of_the_scores(tmp_path: Path):
    run = run_of(tmp_path, LLAMA, "native")
    writer, codes = Writer(run.session), prompt(9)
    padded = np.zeros((1, LONG), np.int32)
    padded[0, :9] = codes
    scores = run.predict({"codes": padded})["logits"][0, 8].astype(np.float64)
    best = np.argsort(-scores)[:5]
    shares = np.exp(scores[best] - scores[best].max())
    shares /= shares.sum()
    drawn = [written(writer, 0, codes, 1, Choices(temperature=1.0, top_k=5, seed=seed))[0] for seed in range(400)]
    counts = np.array([drawn.count(int(code)) for code in best])
    assert counts.sum() == 400
    assert np.abs(counts / 400 - shares).max() < 0.1


def test_a_penalty_keeps_codes_from_coming_again(tmp_path: Path):
    writer = Writer(run_of(tmp_path, LLAMA, "native").session)
    text = written(writer, 0, prompt(4), 40, Choices(repetition_penalty=100.0))
    assert len(set(text)) > len(set(written(writer, 0, prompt(4), 40)))


def test_codes_without_room_and_codes_that_there_are_not_are_refused(tmp_path: Path):
    writer = Writer(run_of(tmp_path, LLAMA, "native").session)
    writer.begin(0, Choices())
    assert told(DataError, lambda: writer.read(0, prompt(121))) == (
        "the text has 121 codes; the program was compiled for 120: compiler import lm --positions"
    )
    assert told(DataError, lambda: writer.read(0, [1, 320])) == "the model has 320 codes, and 320 is none of them"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"temprature": 1.0}, "there is no choice 'temprature'; did you mean 'temperature'?"),
        ({"top_k": 1.5}, "top_k=1.5 is not a whole number from 1 to 256"),
        ({"top_p": 0.0}, "top_p=0 is not above 0 and at most 1"),
        ({"temperature": float("nan")}, "temperature=nan is not from 0 to 100"),
        ({"seed": -1}, "seed=-1 is not a whole number from 0 on"),
    ],
)
def test_a_wrong_choice_is_refused(given: dict[str, float], words: str):
    assert told(UsageError, lambda: choices_of(given, {})) == words


@pytest.mark.thorough
@pytest.mark.parametrize("plain", [False, True])
def test_half_of_a_surrogate_pair_is_no_text(tmp_path: Path, plain: bool):
    made_folder(tmp_path / "m")
    run = prograd.Run(from_lm(tmp_path / "m", output=tmp_path / "m.pb").compile(batch=1), tmp_path, engine="reference")
    with pytest.raises(DataError) as caught:
        list(run.chat("who \ud800", plain=plain, most=2))
    assert str(caught.value) == "a text has half of a surrogate pair, which is no character"
