"""A few hundred lying files through every verb; `PYTHONPATH=tests python -m hostile` tries as many as one likes."""

import os
import random
from pathlib import Path

import pytest
from hostile import judge
from hostile.cases import case_of, try_case
from hostile.programs import furnish
from hostile.verbs import OPTIONS, verbs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    furnish(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.sampled(8)
@pytest.mark.parametrize("first", range(0, 400, 50))
def test_a_file_that_lies_ends_every_verb_with_a_sentence_and_a_code(folder: Path, first: int):
    seeds = range(first, first + 50)
    if "CI" not in os.environ:  # a commit passes or fails, always; new cases are for developers
        start = random.randrange(1 << 40)
        seeds = range(start, start + 50)
    for seed in seeds:
        found, codes = try_case(case_of(seed), folder)
        assert not found, f"seed {seed}: {found[0]}"
        assert codes


def test_every_verb_is_called_and_gets_past_its_parser(folder: Path):
    (folder / "mutated.pb").write_bytes((folder / "good.pb").read_bytes())
    (folder / "mutated.csv").write_text("id,lower,upper,size\na,0,1,64\n")
    assert set(OPTIONS) <= {verb.name for verb in verbs()}
    for verb in verbs():
        code, _, err, _ = judge.call(verb.command, verb.words(random.Random(0)))
        assert "usage" not in err
        assert code in (0, 1, 2, 3, 4, 6), err


@pytest.mark.parametrize(
    ("code", "out", "err", "fault"),
    [
        (70, "", "compiler: a fault\n", "code 70"),
        ("ZeroDivisionError: x", "", "", "code ZeroDivisionError: x"),
        (3, "", "compiler: \x1b[2J\n", "unescaped ['\\x1b']"),
        (3, "", "compiler: \u202e\n", "unescaped ['\\u202e']"),
        (3, "", f"compiler: {'x' * 500}\n", "a sentence that is too long"),
        (3, "", "compiler: a\ncompiler: b\n", "2 sentences instead of one"),
        (3, "", "", "0 sentences instead of one"),
        (3, "", "Traceback\n", "a line of nobody's"),
        (0, "OK a\nOK b\n", "", "a second result line"),
    ],
)
def test_the_judge_sees(code, out: str, err: str, fault: str):
    assert fault in judge.faults("compiler check", ["check"], code, out, err, 0.1)


def test_the_judge_sees_a_write_outside_the_folder(folder: Path, tmp_path_factory: pytest.TempPathFactory):
    judge.watch_writes()
    outside = tmp_path_factory.mktemp("outside") / "x"
    assert judge.call(lambda words: outside.write_text("x") and 0, [])[0] == 0
    assert judge.strays(folder) == [str(outside)]
    assert judge.call(lambda words: (folder / "x").write_text("x") and 0, [])[0] == 0
    assert judge.strays(folder) == []
