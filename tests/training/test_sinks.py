"""Sinks of events: MLflow and Weights & Biases by the command and from Python, and what happens when they fail."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from subjects.commands import run_runtime as run
from subjects.small_programs import rich, save

import prograd
from prograd.callbacks import MlflowLogger, TensorBoardLogger, WandbLogger
from prograd_proto.wording import install_hint

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(rich(), tmp_path)
    monkeypatch.chdir(tmp_path)


class FakeRun:
    """A run of Weights & Biases that keeps what it is given."""

    def __init__(self, options: dict[str, Any], fails_at: int | None) -> None:
        self.options, self.logged, self.exit_code, self.fails_at = options, [], None, fails_at  # type: ignore[var-annotated]

    def log(self, metrics: dict[str, float], step: int) -> None:
        if self.fails_at is not None and step >= self.fails_at:
            raise ConnectionError("no route to host\nand more")
        self.logged.append((step, metrics))

    def finish(self, exit_code: int) -> None:
        self.exit_code = exit_code


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> Any:
    fake: Any = types.ModuleType("wandb")
    fake.runs, fake.fails_at, fake.refuses = [], None, None

    def init(**options: Any) -> FakeRun:
        if fake.refuses:
            raise fake.refuses
        fake.runs.append(FakeRun(options, fake.fails_at))
        return fake.runs[-1]

    fake.init, fake.Settings = init, lambda **settings: settings
    monkeypatch.setitem(sys.modules, "wandb", fake)
    return fake


def told(metrics: str) -> dict[str, list[tuple[int, float]]]:
    """Return the values of a metrics file by the tags that sinks use."""
    found: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for line in map(json.loads, Path(metrics).read_text().splitlines()):
        of = {"step": "steps", "epoch": "epochs"}.get(line["event"], line.get("split"))
        for name, value in line.items():
            if name not in ("event", "epoch", "step", "split", "best", "entry") and value is not None:
                found[f"{of}/{name}"].append((line["step"], value))
    return found


def test_the_command_logs_every_metric_to_weights_and_biases(wandb: Any, capsys: Capture):
    assert run(capsys, "execute", "p.pb", "-q", "--metrics", "m.jsonl", "--wandb", "mine")[0] == 0
    [made] = wandb.runs
    found: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for step, metrics in made.logged:
        for name, value in metrics.items():
            found[name].append((step, value))
    assert found == told("m.jsonl")
    loaded = prograd.load("p.pb")
    config = made.options["config"]
    assert (made.options["project"], made.options["name"]) == ("mine", loaded.program.name)
    assert (config["program_sha256"], config["entry"]) == (loaded.sha256, "train")
    assert made.exit_code == 0


def test_a_logger_from_python_logs_the_same_and_changes_no_bit(wandb: Any, capsys: Capture):
    plain, logged = prograd.load("p.pb"), prograd.load("p.pb")
    plain.train(progress=False)
    logged.train(progress=False, callbacks=[WandbLogger("mine", name="third", tags=["a"])])
    assert logged.state_sha256 == plain.state_sha256
    run(capsys, "execute", "p.pb", "-q", "--wandb", "mine")
    first, second = wandb.runs
    assert first.logged == second.logged
    assert (first.options["name"], first.options["tags"], first.exit_code) == ("third", ["a"], 0)


def test_a_failure_on_the_way_is_said_once_and_the_run_goes_on(wandb: Any, capsys: Capture):
    wandb.fails_at = 3
    code, out, err = run(capsys, "execute", "p.pb", "--progress", "none", "--wandb", "mine")
    assert code == 0
    assert out[-1].startswith("OK entry=train")
    assert err.count("takes no more events") == 1
    assert (
        "runtime: warning: the project mine of Weights & Biases takes no more events, and the run goes on without: "
        "no route to host\n"
    ) in err
    assert [step for step, _ in wandb.runs[0].logged] == [1, 2]


def test_a_service_that_takes_no_run_ends_the_command_before_the_first_step(wandb: Any, capsys: Capture):
    wandb.refuses = PermissionError("api_key not configured")
    assert run(capsys, "execute", "p.pb", "-q", "--wandb", "mine")[::2] == (
        2,
        "runtime: the project mine of Weights & Biases takes no run: api_key not configured\n",
    )
    with pytest.raises(prograd.UsageError) as caught:
        prograd.load("p.pb").train(callbacks=[WandbLogger("mine")], progress=False)
    assert str(caught.value) == "the project mine of Weights & Biases takes no run: api_key not configured"


def test_a_training_that_fails_is_a_failed_run(wandb: Any):
    def boom(event: object) -> None:
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        prograd.load("p.pb").train(callbacks=[WandbLogger("mine"), boom], progress=False)
    assert wandb.runs[0].exit_code == 1


@pytest.mark.parametrize(("option", "package"), [("mlflow", "mlflow"), ("wandb", "wandb")])
def test_a_package_that_is_missing_is_named(
    option: str, package: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, package, None)
    assert run(capsys, "execute", "p.pb", "-q", f"--{option}", "http://x" if option == "mlflow" else "x")[::2] == (
        2,
        f"runtime: --{option} needs the package {package}: {install_hint(option)}\n",
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["--mlflow", "mlruns"],
            "'mlruns' is no address of MLflow, as http://localhost:5000 or sqlite:///mlflow.db is",
        ),
        (
            ["--wandb", "me/mine"],
            "'me/mine' is no name of a project of Weights & Biases: it has 1 to 128 characters, and none of "
            "/ \\ # ? % :",
        ),
    ],
)
def test_a_place_that_is_none_is_refused(words: list[str], sentence: str, capsys: Capture):
    assert run(capsys, "execute", "p.pb", *words)[::2] == (2, f"runtime: {sentence}\n")


def test_options_of_sinks_belong_to_training(capsys: Capture):
    assert run(capsys, "execute", "p.pb", "--entry", "evaluate", "--wandb", "x")[2] == (
        "runtime: --wandb belongs to training, and the entry 'evaluate' does not train\n"
    )


IN_MLFLOW = """
import json, sys
import mlflow
client = mlflow.MlflowClient("sqlite:///m.db")
[experiment] = [each for each in client.search_experiments() if each.name != "Default"]
runs = client.search_runs([experiment.experiment_id])
found = [
    {
        "status": run.info.status,
        "params": run.data.params,
        "metrics": {
            name: [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, name)]
            for name in run.data.metrics
        },
    }
    for run in runs
]
print(json.dumps({"experiment": experiment.name, "runs": found}))
"""


def test_mlflow_has_the_metrics_the_facts_and_the_end_of_a_run():
    """Use a database without a server, in processes of their own: the package is slow and warns."""
    pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    command = [sys.executable, "-m", "runtime", "execute", "p.pb", "-q", "--metrics", "m.jsonl"]
    subprocess.run([*command, "--mlflow", "sqlite:///m.db"], check=True, capture_output=True)
    done = subprocess.run([sys.executable, "-c", IN_MLFLOW], check=True, capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    [made] = found["runs"]
    expected = {name: sorted(map(list, values)) for name, values in told("m.jsonl").items()}
    assert {name: sorted(values) for name, values in made["metrics"].items()} == expected
    assert made["status"] == "FINISHED"
    assert made["params"]["program_sha256"] == prograd.load("p.pb").sha256
    assert found["experiment"] == prograd.load("p.pb").program.name


def test_a_server_that_does_not_answer_ends_the_run_before_the_first_step():
    pytest.importorskip("mlflow")
    code = (
        "import prograd; from prograd.callbacks import MlflowLogger\n"
        "try: prograd.load('p.pb').train(callbacks=[MlflowLogger('http://127.0.0.1:9')], progress=False)\n"
        "except prograd.UsageError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.startswith("MLflow at http://127.0.0.1:9 takes no run: ")
    assert done.stdout.count("\n") == 1


def test_tensorboard_is_a_callback_too(capsys: Capture):
    pytest.importorskip("tensorboardX")
    prograd.load("p.pb").train(callbacks=[TensorBoardLogger("board")], progress=False)
    assert len(list(Path("board").glob("events.out.tfevents.*"))) == 1
    with pytest.raises(prograd.UsageError) as caught:
        prograd.load("p.pb").train(callbacks=[TensorBoardLogger("board")], progress=False)
    assert str(caught.value) == "board: the folder has events of another run; force=True removes them"
    assert MlflowLogger.__doc__


@pytest.mark.thorough
def test_weights_and_biases_takes_a_run_offline():
    pytest.importorskip("wandb")
    code = "import prograd; from prograd.callbacks import WandbLogger\n" + (
        "prograd.load('p.pb').train(callbacks=[WandbLogger('mine', mode='offline')], progress=False)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert list(Path("wandb").glob("offline-run-*/run-*.wandb"))
