"""The limit of memory is of the process: attacks that were larger than it, each in a process whose peak is measured."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from subjects.small_programs import linear, rich, save

from compiler import Program, ops, sgd
from prograd_proto import program_pb2 as pb
from prograd_proto.files import END
from runtime import ResourceLimit
from runtime.files.tensor_files import write_safetensors
from runtime.memory.limit import UNCOUNTED_BYTES, MemoryLimit

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process occupies now")

MIB = 1 << 20
LIMIT = 100
MEASURED = """
import sys
from runtime.__main__ import main
try:
    code = main(sys.argv[1:])
finally:
    status = open("/proc/self/status").read()  # not ru_maxrss: that is no less than what the parent occupied
    print(status.partition("VmHWM:")[2].split()[0], file=sys.stderr)
sys.exit(code)
"""


def measured(folder: Path, *arguments: str, limit: int = LIMIT) -> tuple[int, int, str]:
    """The code of `execute`, the most MiB that its process occupied, and what it said."""
    command = [sys.executable, "-P", "-c", MEASURED, "execute", "p.pb", "-q", f"--max-memory={limit}MiB", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    *said, peak = done.stderr.splitlines()
    return done.returncode, int(peak) // 1024, "\n".join(said)


def many_fetches(folder: Path) -> list[str]:
    """One tensor of 16 MiB, fetched 40 times."""
    program = Program("fetches")
    x = program.input("x", "float32", ())
    big = ops.broadcast_to(x, shape=(4 * MIB,))
    program.outputs(**{f"y{i}": big for i in range(40)})
    program.compile().save(folder / "p.pb", force=True)
    return ["--feed=x=1.0"]


def many_rows(folder: Path) -> list[str]:
    """A thousand rows of one number, of which each becomes 256 KiB."""
    program = Program("rows")
    x = program.input("x", "float32", ("batch", 1))
    program.outputs(y=ops.broadcast_to(x, shape=("batch", 1 << 16)))
    program.compile(batch=1).save(folder / "p.pb", force=True)
    np.save(folder / "x.npy", np.zeros((1000, 1), np.float32))
    return ["--feed=x=@x.npy"]


def empty_rows(folder: Path) -> list[str]:
    """2^26 rows without elements: a file of a hundred bytes."""
    program = Program("empty")
    x = program.input("x", "float32", ("batch", 0))
    program.outputs(y=ops.sum(x))
    program.compile(batch=1).save(folder / "p.pb", force=True)
    np.save(folder / "x.npy", np.zeros((1 << 26, 0), np.float32))
    return ["--feed=x=@x.npy"]


def training(folder: Path, file: str, rows: dict[str, np.ndarray]) -> list[str]:
    program = linear()
    program.data(file, shuffle=False, remainder="drop")
    write = np.savez_compressed if file.endswith("npz") else None
    if write is not None:
        write(folder / file, **rows)
    else:
        write_safetensors(folder / file, rows, {}, force=True)
    program.training(epochs=1)
    program.compile(batch=4).save(folder / "p.pb", force=True)
    return []


def compressed_columns(folder: Path) -> list[str]:
    """150 MiB of zeros in a file of 150 KiB."""
    n = 10 * MIB
    return training(folder, "rows.npz", {"x": np.zeros((n, 3), np.float32), "y": np.zeros(n, np.float32)})


def large_initial_value(folder: Path) -> list[str]:
    """An orthogonal matrix, which is made in float64 with room for random words beside it."""
    program = Program("initial")
    w = program.parameter("w", (2500, 2500), initial())
    program.minimize(ops.sum(w), sgd(rate=0.1))
    program.compile().save(folder / "p.pb", force=True)
    return ["--steps=1"]


def initial():
    from compiler import orthogonal

    return orthogonal()


def best_states(folder: Path) -> list[str]:
    """States of 40 MiB, of which the best are kept, and no room for both."""
    program = Program("best")
    x, y = program.input("x", "float32", ("batch",)), program.input("y", "float32", ("batch",))
    w = program.parameter("w", (10 * MIB,))
    program.minimize(ops.mean(ops.square(x - y)) + ops.sum(w) * 0.0, sgd(rate=0.1))
    write_safetensors(folder / "rows.safetensors", {k: np.zeros(8, np.float32) for k in "xy"}, {}, force=True)
    program.data(
        "rows.safetensors", splits={"train": slice(0, 4), "test": slice(4, 8)}, shuffle=False, remainder="drop"
    )
    program.training(epochs=1, split="train", evaluate="test", keep_best="loss", best="min")
    program.compile(batch=4).save(folder / "p.pb", force=True)
    return []


def many_messages(folder: Path) -> list[str]:
    """A file of 6 MB that is parsed to three million ops, of which each takes two bytes in it."""
    ops_ = b"\x1a\x00" * 3_000_000
    length, size = len(ops_), b""
    while length > 127:
        size, length = size + bytes([length & 127 | 128]), length >> 7
    block = b"\x3a" + size + bytes([length]) + ops_
    (folder / "p.pb").write_bytes(pb.ProgramDesc(format_version=1).SerializeToString() + block + END)
    return []


ATTACKS = {
    many_fetches: "the copies of what is fetched or watched",
    many_rows: "the rows of 'y'",
    empty_rows: "the numbers of the rows",
    compressed_columns: "the array 'x'",
    large_initial_value: "an initial value",
    best_states: "the best states",
    many_messages: "the parsed program",
}


@pytest.mark.sampled(7)
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_the_process_stays_below_the_limit_and_says_what_was_too_much(attack: Callable[[Path], list[str]], tmp_path):
    code, peak, said = measured(tmp_path, *attack(tmp_path))
    assert said.startswith(f"runtime: with {ATTACKS[attack]} the process needs ")
    assert said.endswith(f", and the limit is {LIMIT * MIB} bytes ({LIMIT}.0 MiB); allow more by --max-memory")
    assert code == 6
    assert peak < LIMIT


@pytest.mark.thorough
def test_a_pooling_of_many_taps_keeps_no_list_of_them(tmp_path: Path):
    program = Program("pooling")
    x = program.input("x", "float32", (1, 600, 600, 1))
    y = ops.max_pool2d(x, window=(600, 600), stride=(600, 600))
    from compiler import gradients

    program.outputs(dx=gradients(ops.sum(y), [x])[0])
    program.compile().save(tmp_path / "p.pb")
    np.save(tmp_path / "x.npy", np.zeros((1, 600, 600, 1), np.float32))
    code, peak, said = measured(tmp_path, "--feed=x=@x.npy")
    assert (code, said) == (0, "")
    assert peak < LIMIT


def test_a_program_that_fits_runs_within_the_limit(tmp_path: Path):
    save(rich(), tmp_path)
    code, peak, said = measured(tmp_path, "--save", "s.safetensors")
    assert (code, said) == (0, "")
    assert peak < LIMIT


def test_what_the_process_has_counts_for_the_command_and_not_for_the_library():
    library = MemoryLimit(1000)
    library.take(1000, "the states")
    with pytest.raises(
        ResourceLimit,
        match=r"^with the arena the run needs 1001 bytes, and the limit is 1000 bytes; allow more by",
    ):
        library.take(1, "the arena")
    library.give_back(1)
    library.take(1, "the arena")
    with pytest.raises(
        ResourceLimit,
        match=r"^with the states the process needs .*, and the limit is 8388608 bytes \(8.0 MiB\)",
    ):
        MemoryLimit(UNCOUNTED_BYTES, of_process=True).take(1, "the states")


def test_what_is_lent_is_given_back_after_an_error_too():
    limit = MemoryLimit(10)
    with pytest.raises(ZeroDivisionError), limit.lent(10, "a copy"):
        raise ZeroDivisionError
    limit.take(10, "a copy")
