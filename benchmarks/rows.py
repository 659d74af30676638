"""Rows that stay in their files: the memory of a process that trains on 1, 2 and 4 GiB, and how fast they are read.

python benchmarks/rows.py FOLDER      the folder takes up to 4.3 GB of files, which are deleted afterwards
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

import runtime
from prograd import Program, ops, sgd
from prograd_proto.files import copy_of
from prograd_proto.files import load as load_program
from runtime.rows import data_files

WIDTH = 255  # of float32, and a target: rows of a KiB
BATCH = 4096
EXAMPLE = Path(__file__).parents[1] / "examples" / "digits_cnn.pb"


def write_rows(folder: Path, gigabytes: int, files: int) -> None:
    """Several files of rows, written piece by piece: no array of all is ever in memory."""
    rows = gigabytes * (1 << 20) // files
    piece = np.random.default_rng(0).random((1 << 14, WIDTH), np.float32)
    for number in range(files):
        split = rows * WIDTH * 4
        header = (
            f'{{"x":{{"dtype":"F32","shape":[{rows},{WIDTH}],"data_offsets":[0,{split}]}},'
            f'"y":{{"dtype":"F32","shape":[{rows}],"data_offsets":[{split},{split + rows * 4}]}}}}'
        ).encode()
        with (folder / f"part-{number}.safetensors").open("wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            for start in range(0, rows, len(piece)):
                file.write(piece[: rows - start].data)
            file.write(np.zeros(rows, np.float32).data)


def write_program(folder: Path) -> None:
    program = Program("rows", seed=1)
    x, y = program.input("x", "float32", ("batch", WIDTH)), program.input("y", "float32", ("batch",))
    guess = ops.sum(x * program.parameter("w", (WIDTH,)), axis=(1,))
    program.minimize(ops.squared_error(guess, y), sgd(1e-4))
    program.data("part-*.safetensors", shuffle=16384, remainder="drop")
    program.training(epochs=1)
    program.compile(batch=BATCH).save(folder / "p.pb", force=True)


def memory_of(folder: Path, gigabytes: int) -> None:
    write_rows(folder, gigabytes, files=4)
    write_program(folder)
    start = perf_counter()
    command = [sys.executable, "-m", "runtime", "execute", str(folder / "p.pb"), "--progress", "none"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    [rss] = re.findall(r"rss=(\d+)", said)
    print(f"{gigabytes} GiB in 4 files: {int(rss) / 2**20:6.1f} MiB resident at most, {perf_counter() - start:.0f} s")
    for path in folder.glob("part-*.safetensors"):
        path.unlink()


def speed_of(window: int, in_memory: int) -> tuple[float, float, str]:
    """Seconds of the clock and of the processor for two epochs of the example, and the hash of what was trained."""
    data_files.IN_MEMORY = in_memory
    program = copy_of(load_program(EXAMPLE))
    program.data.shuffle_rows = window
    program.run.ClearField("evaluate")
    run = runtime.Run(program, EXAMPLE.parent)
    events = run.events(epochs=2)
    next(events)
    wall, cpu = perf_counter(), process_time()
    for _ in events:
        pass
    return perf_counter() - wall, process_time() - cpu, run.states.sha256()


def compare() -> None:
    for window, name in ((0, "all rows shuffled"), (1024, "within 1,024 rows")):
        ratios: list[tuple[float, float]] = []
        for _ in range(7):
            memory, files = speed_of(window, 1 << 30), speed_of(window, 0)
            assert memory[2] == files[2], "the same bits"
            ratios.append((memory[0] / files[0], memory[1] / files[1]))
        wall, cpu = np.median(ratios, axis=0)
        print(f"digits_cnn, {name}: rows from files at {wall:.2f} of the speed in memory, {cpu:.2f} by processor time")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    compare()
    print("once before, because an engine may have to compile:", end=" ")
    for gigabytes in (1, 1, 2, 4):
        memory_of(folder, gigabytes)
