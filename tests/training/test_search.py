"""Sweeps over ranges: random settings, proposals by results, and folds of a cross-validation."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from subjects.commands import told

import prograd
from prograd import Program, layers, ops, sgd
from prograd_proto.wording import install_hint
from runtime.__main__ import main
from runtime.commands.sweeps.runs import trials
from runtime.commands.sweeps.search import Bayes, Range, samples

X = np.random.default_rng(0).standard_normal((103, 64)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    prograd.data.write("rows.safetensors", {"x": X, "y": Y, "number": np.arange(103)}, splits={"test": range(90, 103)})


def saved(*, shuffle: bool = True) -> str:
    program = Program("searched", seed=4)
    x, y = program.input("x", "float32", ("n", 64)), program.input("y", "int64", ("n",))
    number = program.input("number", "int64", ("n",))
    program.setting("units", 3, dtype="int64", least=1)
    scores = layers.dense(x, "out", 2)
    program.minimize(ops.softmax_cross_entropy(scores, y), sgd(program.setting("rate", 0.1)))
    program.fetch("numbers", number)
    program.entry("evaluate", number=number)
    program.data("rows.safetensors", splits={"test": "test"}, shuffle=shuffle, remainder="drop")
    program.training(epochs=1, evaluate="test", keep_best="loss")
    program.compile(n=16).save("p.pb", force=True)
    return "p.pb"


def test_samples_follow_from_the_seed_and_lie_in_their_ranges():
    domains: dict[str, Any] = {
        "rate": Range(1e-5, 1e-1, log=True),
        "drop": Range(0.0, 0.5, log=False),
        "units": Range(1, 4, log=False, whole=True),
        "width": Range(1, 1000, log=True, whole=True),
        "kind": [2, 3, 5],
    }
    found = samples(domains, 4000, 7)
    assert found == samples(domains, 4000, 7)
    assert found != samples(domains, 4000, 8)
    logarithms = np.log10([settings["rate"] for settings in found])
    assert (logarithms.min() >= -5, logarithms.max() <= -1) == (True, True)
    np.testing.assert_allclose(np.quantile(logarithms, [0.25, 0.5, 0.75]), [-4, -3, -2], atol=0.15)
    np.testing.assert_allclose(np.mean([settings["drop"] for settings in found]), 0.25, atol=0.01)
    for name, numbers in (("units", {1, 2, 3, 4}), ("kind", {2, 3, 5})):
        counts = [sum(settings[name] == number for settings in found) for number in numbers]
        assert sum(counts) == 4000
        assert min(counts) > 4000 / len(numbers) * 0.85
    assert {type(settings["width"]) for settings in found} == {int}


def test_a_search_finds_the_best_of_a_bowl_and_repeats():
    pytest.importorskip("optuna")

    def searched() -> list[dict[str, Any]]:
        search = Bayes({"rate": Range(1e-5, 1e-1, log=True), "k": [1, 2, 3]}, 40, 5)
        found = []
        for settings in search:
            found.append(settings)
            bowl = (math.log10(settings["rate"]) + 3) ** 2 + (settings["k"] != 2)
            search.tell(settings, math.nan if len(found) == 3 else bowl)
        return found

    found = searched()
    assert found == searched()
    late = found[20:]
    assert np.median([abs(math.log10(settings["rate"]) + 3) for settings in late]) < 0.5
    assert sum(settings["k"] == 2 for settings in late) > 12


def test_every_settings_has_every_seed_and_every_fold():
    asked = list(trials("p.pb", [{"a": 1}, {"a": 2}], [7, 8], folds=3))
    assert len(asked) == 12
    assert str(asked[4]) == "a=1 seed=8 fold=2"
    assert asked[4].command == "runtime execute p.pb --set a=1 --seed 8 --fold 2/3"


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("shuffle", [True, False])
def test_the_folds_part_the_rows_of_the_training_split(engine: Any, shuffle: bool):
    path, parts = saved(shuffle=shuffle), []
    for fold in range(1, 6):
        run = prograd.load(path, engine=engine)
        trained: set[int] = set()
        for event in run.events(fold=(fold, 5), epochs=9):
            if isinstance(event, prograd.StepEnd):
                trained |= set(run.fetched["numbers"].tolist())
        held = set(range(103)) - trained
        assert len(held) in ((20, 21) if shuffle else range(20, 24 + 16))
        parts.append(held)
        loss = run.evaluate({"x": X[sorted(held)], "y": Y[sorted(held)], "number": np.array(sorted(held))})["loss"]
        if len(held) < 22:
            assert run.position.best_evaluation["loss"] == pytest.approx(float(loss))
    if shuffle:
        assert sorted(number for part in parts for number in part) == list(range(103))
        again = prograd.load(path, engine=engine, seed=9)
        again.train(fold=(1, 5), progress=False)
        assert again.position.rows_sha256["evaluate"]


@pytest.mark.thorough
def test_a_cross_validated_sweep_names_the_best_settings(capsys: pytest.CaptureFixture[str]):
    command = ["sweep", saved(), "--set", "rate=1e-4,0.5", "--folds", "2", "--results", "r.jsonl", "-q"]
    assert main(command) == 0
    out = capsys.readouterr().out.splitlines()
    lines = [json.loads(line) for line in Path("r.jsonl").read_text().splitlines()]
    best = [line["metrics"]["evaluate.loss"] for line in lines if line["settings"] == {"rate": 0.5}]
    words = dict(word.split("=") for word in out[-1].split()[1:])
    assert words["best.rate"] == "0.5"
    assert float(words["mean.evaluate.loss"]) == pytest.approx(sum(best) / 2, rel=1e-5)
    assert [line["fold"] for line in lines] == [1, 2, 1, 2]


@pytest.mark.thorough
@pytest.mark.parametrize("search", ["--random", "--bayes"])
def test_a_sweep_over_ranges_makes_as_many_runs(search: str, capsys: pytest.CaptureFixture[str]):
    if search == "--bayes":
        pytest.importorskip("optuna")
    ranges = ["--set", "rate=1e-4..1:log", "--set", "units=1..9"]
    assert main(["sweep", saved(), *ranges, search, "3", "--json", "-q"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    settings = [json.loads(line)["settings"] for line in lines]
    assert last.startswith("OK runs=3 failed=0 best=")
    assert all(1e-4 <= each["rate"] <= 1 and each["units"] in range(1, 10) for each in settings)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["--set", "rate=1e-4..0.1:log"],
            "--set rate=0.0001..0.1:log is a range; --random N draws numbers from it, and --bayes N searches it",
        ),
        (["--set", "rate=1..0.5", "--random", "2"], "--set rate=1.0..0.5: a range begins below its end"),
        (["--set", "rate=0..1:log", "--random", "2"], "--set rate=0.0..1.0:log: a logarithmic range begins above 0"),
        (["--random", "2"], "--random tries values of settings; name them, as in --set rate=1e-5..1e-1:log"),
        (["--set", "units=0..3", "--random", "2"], "the setting 'units' is from 1 on, and 0 is not"),
        (
            ["--folds", "1"],
            "--folds 1: there are two folds or more, as one of them is evaluated on and the others train",
        ),
    ],
)
def test_what_cannot_be_searched_is_one_sentence(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]):
    assert main(["sweep", saved(), *words]) == 2
    assert capsys.readouterr().err == f"runtime: {sentence}\n"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"fold": 3}, "fold=3 is not (i, k), as (1, 5) is for the first of five parts"),
        ({"fold": (6, 5)}, "fold=(6, 5): i is from 1 to k, and k is 2 or more"),
        ({"fold": (1, 200)}, "fold=(1, 200): there are 103 rows for 200 folds"),
        (
            {"fold": (1, 5), "validation_data": "test"},
            "fold says which rows to evaluate on, and so do validation_data and validation_split",
        ),
    ],
)
def test_what_is_no_fold_is_one_sentence(options: dict[str, Any], sentence: str):
    assert told((prograd.UsageError, prograd.DataError), lambda: prograd.load(saved()).train(**options)) == sentence


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["sweep", "p.pb", "--set", "rate=1..x", "--random", "2"],
            "argument --set: 'rate=1..x' is no range NAME=LOW..HIGH, as rate=1e-4..1e-2:log is; "
            "see runtime sweep --help",
        ),
        (
            ["execute", "p.pb", "--fold", "3/2"],
            "argument --fold: '3/2' is no fold I/K, as 1/5 is: from 1 to K, which is 2 or more; "
            "see runtime execute --help",
        ),
    ],
)
def test_words_that_are_no_range_and_no_fold(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert capsys.readouterr().err == f"runtime: {sentence}\n"


@pytest.mark.thorough
def test_each_run_of_a_sweep_writes_to_the_trackers(capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("tensorboardX", reason='pip install -e ".[test]" brings it')
    command = ["sweep", saved(), "--set", "rate=1e-3,1e-2", "--seeds", "2", "--tensorboard", "tb", "-q"]
    assert main(command) == 0
    assert sorted(path.name for path in Path("tb").iterdir()) == ["run-1", "run-2", "run-3", "run-4"]
    assert all(len([*folder.glob("events.out.tfevents.*")]) == 1 for folder in Path("tb").iterdir())
    assert capsys.readouterr().out.count("--tensorboard tb/run-") == 4  # the commands that repeat the runs
    assert main(command) == 1  # each says that its folder has events of another run
    assert "has events of another run; --force removes them" in capsys.readouterr().err
    assert main([*command, "--force"]) == 0


def test_a_tracker_without_its_package_is_refused_before_any_run(monkeypatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    assert main(["sweep", saved(), "--set", "rate=1e-3,1e-2", "--mlflow", "sqlite:///m.db", "-q"]) == 2
    assert install_hint("mlflow") in capsys.readouterr().err
