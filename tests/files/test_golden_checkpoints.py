"""tests/golden/checkpoints and run records: what earlier versions wrote of a run is read by every later one.

A checkpoint of each format stands at step 10 of 21, in the middle of the second epoch.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import runtime
from runtime.runs.checkpoints.checkpoint import FORMAT as CHECKPOINT_FORMAT
from runtime.runs.run_record import FORMAT, read_record

GOLDEN = Path(__file__).parents[1] / "golden"
CHECKPOINTS = sorted((GOLDEN / "checkpoints").glob("v*.safetensors"))
each_checkpoint = pytest.mark.parametrize("path", CHECKPOINTS, ids=lambda path: path.stem)


def test_there_is_a_checkpoint_of_every_format():
    assert [path.name for path in CHECKPOINTS] == [f"v{n}.safetensors" for n in range(1, CHECKPOINT_FORMAT + 1)]


def arrays(run: runtime.Run) -> dict[str, np.ndarray]:
    return {name: run.state[name] for name in run.state}


def close(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-4, atol=1e-6, err_msg=name)


@each_checkpoint
def test_an_old_checkpoint_has_the_states_and_the_position_of_the_run(path: Path):
    run = runtime.load(GOLDEN / "checkpoints" / "program.pb")
    run.resume(path)
    stored = {name: array for name, array in load_file(path).items() if ":" not in name}
    assert {n: a.tobytes() for n, a in arrays(run).items()} == {n: a.tobytes() for n, a in stored.items()}
    assert (run.position.epoch, run.position.step, run.position.steps) == (1, 3, 10)


@each_checkpoint
def test_an_old_checkpoint_goes_on_to_the_end_of_the_run(path: Path, tmp_path: Path):
    resumed = runtime.load(GOLDEN / "checkpoints" / "program.pb")
    resumed.resume(path)
    list(resumed.events())
    whole = runtime.load(GOLDEN / "checkpoints" / "program.pb")
    list(whole.events())
    close(arrays(resumed), arrays(whole))
    assert resumed.position.steps == whole.position.steps
    folder = tmp_path / "ck"
    folder.mkdir()
    shutil.copy(path, folder / "step-0000000010.safetensors")
    from_folder = runtime.load(GOLDEN / "checkpoints" / "program.pb")
    from_folder.resume(folder)
    list(from_folder.events())
    assert {n: a.tobytes() for n, a in arrays(from_folder).items()} == {
        n: a.tobytes() for n, a in arrays(resumed).items()
    }


@each_checkpoint
def test_an_old_checkpoint_gives_its_parameters(path: Path):
    run = runtime.load(GOLDEN / "checkpoints" / "program.pb")
    run.load(path)
    assert run.state["w"].tobytes() == load_file(path)["w"].tobytes()
    assert int(run.state["step"]) == 0


def test_there_is_a_run_record_of_every_format():
    assert [path.name for path in sorted(GOLDEN.glob("run_record_v*.json"))] == [
        f"run_record_v{version}.json" for version in range(1, FORMAT + 1)
    ]


def test_an_old_run_record_is_read():
    record = read_record(GOLDEN / "run_record_v1.json")
    assert (record.entry, record.seed, record.steps, record.resumed) == ("train", 2, 74, False)
    assert record.state_sha256 == "446bb291f449d3fa27ea8c23525db0852410f550792f993419255c16e42c8492"
    assert record.machine["numpy"] == "2.4.6"
