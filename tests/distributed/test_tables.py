"""Tables of new rows, predicted by the ranks of a job: the file of one process judges theirs."""

import csv
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mpi4py", reason="mpi4py is an extra")
from subjects.ranks import ENGINES, LAUNCHER, alone, job, starts_jobs

import prograd
from compiler import Program, adam, ops
from prograd import layers

pytestmark = starts_jobs
NEW_ROWS = 9000
"""Rows of the new table: two pieces, and a last step that is not full."""


def write_table(path: Path, count: int, seed: int, *, labelled: bool = True) -> None:
    """Write rows of two numbers, a place and a kind, each with a name."""
    rng = np.random.default_rng(seed)
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["id", "length", "mass", "place", *(["kind"] if labelled else [])])
        for number in range(count):
            kind = ("red", "green", "blue")[number % 3]
            numbers = [round(float(value), 2) for value in rng.normal(number % 3, 1, 2)]
            out.writerow([f"r{number}", *numbers, ("sea", "land")[number % 2], *([kind] if labelled else [])])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program, its encoding, and a table of new rows."""
    folder = tmp_path_factory.mktemp("tables")
    write_table(folder / "train.csv", 96, 0)
    names = ["length", "mass"]
    prograd.data.pack(
        folder / "train.csv", folder / "rows.safetensors", drop=["id"], join={"x": names}, standardise=names
    )
    program = Program("kinds", seed=1)
    x, place = program.input("x", "float32", ("batch", 2)), program.input("place", "int64", ("batch",))
    kind = program.input("kind", "int64", ("batch",))
    h = ops.concat(x, layers.embedding(place, "places", count=2, size=4), axis=1)
    scores = layers.dense(ops.relu(layers.dense(h, "hidden", 64)), "out", 3)
    program.minimize(ops.cross_entropy(scores, kind), adam(0.01))
    program.outputs(probabilities=ops.softmax(scores))
    program.data("rows.safetensors", shuffle=True, remainder="drop")
    program.training(epochs=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        program.compile(batch=64, shards=4).save("p.pb")
    write_table(folder / "new.csv", NEW_ROWS, 1, labelled=False)
    return folder


def predict(*more: str, engine: str = "native") -> list[str]:
    """Return the words of a prediction."""
    return ["execute", "p.pb", "--entry", "predict", "-q", "--threads", "1", "--engine", engine, *more]


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
def test_a_table_of_new_rows_has_the_bytes_of_one_process(engine, folder):
    one = alone(predict("--data", "new.csv", "--out", f"{engine}-one.csv", engine=engine), folder)
    assert one.code == 0, one
    many = job(3, predict("--data", "new.csv", "--out", f"{engine}-many.csv", "--mpi", engine=engine), folder, LAUNCHER)
    assert many.code == 0, many
    assert many.out.count("OK ") == 1
    assert (many.field("rows"), many.field("state_sha256")) == (str(NEW_ROWS), one.field("state_sha256"))
    found, wanted = ((folder / f"{engine}-{name}.csv").read_bytes() for name in ("many", "one"))
    assert found == wanted
    assert wanted.count(b"\n") == NEW_ROWS + 1


def test_ranks_with_other_tables_are_refused(folder):
    shutil.copy(folder / "new.csv", folder / "new-0.csv")
    write_table(folder / "new-1.csv", NEW_ROWS, 2, labelled=False)
    table = 'exec "$@" --data new-${PMI_RANK:-$OMPI_COMM_WORLD_RANK}.csv'
    program = ["sh", "-c", table, "sh", sys.executable, "-m", "runtime"]
    ended = job(2, predict("--out", "none.csv", "--mpi"), folder, LAUNCHER, program=program)
    assert ended.code == 2
    assert "runtime: rank 0 of 2: the processes differ in the rows: rank 0 has " in ended.err
    assert not (folder / "none.csv").exists()


def test_a_table_with_a_fault_is_one_error_and_no_file(folder):
    rows = (folder / "new.csv").read_text().splitlines()
    (folder / "faulty.csv").write_text("\n".join([*rows[:8500], "r8499,much,1.0,sea", *rows[8500:]]) + "\n")
    ended = job(2, predict("--data", "faulty.csv", "--out", "none.csv", "--mpi"), folder, LAUNCHER)
    assert ended.code == 4
    said = [line for line in ended.err.splitlines() if line.startswith("runtime:")]
    assert said[0].startswith("runtime: rank 0 of 2: faulty.csv: ")
    assert not (folder / "none.csv").exists()
