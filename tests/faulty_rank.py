"""A process of a run with a fault: `python tests/faulty_rank.py KIND:RANK:STEP execute p.pb --mpi …`.

The launcher starts it as every rank; the rank that is named has the fault, in the middle of the step that is named or
from the start. The others are ordinary processes of `runtime`.
"""

import ctypes
import errno
import os
import signal
import sys
import time
from pathlib import Path

KIND, RANK, STEP = sys.argv[1].split(":")
HERE = int(os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK", "0"))) == int(RANK)
ARGUMENTS = sys.argv[2:]

BEGINNING = Path("fault-begins-at")
"""File with the reading of the monotonic clock just before the fault, from which the deadline counts."""


def replaced(old: str, new: list[str]) -> list[str]:
    """Return the arguments with some words in place of one."""
    return [word for argument in ARGUMENTS for word in (new if argument == old else [argument])]


FROM_THE_START = {
    "other_file": lambda: replaced("net.pb", ["other.pb"]),
    "other_seed": lambda: replaced("net.pb", ["net.pb", "--seed", "7"]),
    "other_rows": lambda: replaced("net.pb", ["net.pb", "--data", "other.safetensors"]),
    "other_engine": lambda: [word.replace("native", "native.sse2") for word in ARGUMENTS],
    "other_steps": lambda: [*ARGUMENTS, "--epochs", "3"],
    "no_file": lambda: replaced("net.pb", ["none.pb"]),
}


def note_beginning() -> None:
    """Write when the fault begins, unless it has already begun."""
    if not BEGINNING.exists():
        BEGINNING.write_text(str(time.monotonic()))


def disk_full(*_: object) -> None:
    """Find that the disk is full."""
    note_beginning()
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "step.safetensors")


def raises() -> None:
    """Raise an error that nobody foresaw."""
    raise RuntimeError("a fault of the test")


IN_A_STEP = {
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "parent_killed": lambda: os.kill(os.getppid(), signal.SIGKILL) or time.sleep(60),
    "stopped": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "aborts": os.abort,
    "raises": raises,
    "sleeps": lambda: time.sleep(1e6),
    "exits": lambda: sys.exit(0),
    "exits_at_once": lambda: os._exit(0),
    "exits_in_c": lambda: ctypes.CDLL(None)._exit(0),
    "terminated": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "no_memory": lambda: bytearray(1 << 60),
}


def break_step() -> None:
    """Let the named step of this rank fail."""
    from runtime.runs.stepper import Stepper

    step, made = Stepper.step, [0]

    def faulty(self: Stepper, executor: object, **options: object) -> None:
        made[0] += 1
        if made[0] == int(STEP):
            note_beginning()
            IN_A_STEP[KIND]()
        step(self, executor, **options)  # pyright: ignore[reportArgumentType]: whatever the caller gives

    Stepper.step = faulty


def break_writes() -> None:
    """Let this rank find the disk full from its second checkpoint on."""
    from runtime.runs.checkpoints import checkpoint_folder

    write, made = checkpoint_folder.write_checkpoint, [0]

    def faulty(*arguments: object, **options: object) -> None:
        made[0] += 1
        if made[0] >= 2:
            disk_full()
        write(*arguments, **options)  # pyright: ignore[reportArgumentType]: whatever the caller gives

    checkpoint_folder.write_checkpoint = faulty


def main() -> int:
    """Run the command with the fault."""
    from runtime.command_line.process import run_process
    from runtime.commands import run_command

    sys.argv = ["runtime", *ARGUMENTS]
    if HERE and KIND in FROM_THE_START:
        sys.argv = ["runtime", *FROM_THE_START[KIND]()]
    elif HERE and KIND == "disk_full":
        break_writes()
    elif HERE and KIND in IN_A_STEP:
        break_step()
    return run_process("runtime", run_command)


if __name__ == "__main__":
    sys.exit(main())
