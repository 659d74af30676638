"""The start of a run of several processes: a process becomes a rank of the job that its launcher started."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from runtime.errors import UsageError
from runtime.extras import extra

if TYPE_CHECKING:
    from runtime.ranks.group import Group

SIZES: Final = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
"""Variables by which launchers tell how many processes they started: Open MPI, MPICH and Intel MPI, Slurm."""

RANKS: Final = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
"""Variables by which they tell a process its number, in the same order."""


def launched(environment: Mapping[str, str] = os.environ) -> int:
    """Return how many processes the launcher started, 0 if there is none."""
    return next((int(text) for name in SIZES if (text := environment.get(name, "")).isdecimal()), 0)


def number_by_launcher(environment: Mapping[str, str] = os.environ) -> int:
    """Return the number that the launcher gave this process, 0 if there is none."""
    return next((int(text) for name in RANKS if (text := environment.get(name, "")).isdecimal()), 0)


def without_launcher(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what a launcher says, for a process that runs by itself."""
    return {name: text for name, text in environment.items() if name not in (*SIZES, *RANKS)}


def require_alone() -> None:
    """Raise UsageError for a run without --mpi if a launcher started several processes."""
    count = launched()
    if count > 1:
        raise UsageError(
            f"a launcher started {count} processes, and each would make the whole run; "
            "--mpi lets them share it, and without it one process is enough"
        )


def join(timeout: float, *, cuts_states: bool = False) -> Group:
    """Return the group of all processes that the launcher started; for the arguments see `Group`.

    Raises UsageError if mpi4py or an MPI library is missing, or if the library is not that of the launcher.
    """
    from runtime.ranks.current import enter  # few runs have several processes
    from runtime.ranks.group import Group

    mpi4py = extra("mpi4py", "mpi", "--mpi")
    mpi4py.rc.thread_level, mpi4py.rc.finalize = "serialized", False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a library that is not that of the launcher: an error follows
            mpi = extra("mpi4py.MPI", "mpi", "--mpi")
    except (ImportError, RuntimeError) as error:
        first = str(error).partition("\n")[0]
        raise UsageError(
            f"--mpi finds no MPI library ({first}); install one, as by pip install mpich, "
            "or let MPI4PY_LIBMPI name the file of yours"
        ) from None
    group = Group(mpi, timeout, cuts_states=cuts_states)
    count = launched()
    if count and count != group.size:
        raise UsageError(
            f"the launcher started {count} processes, and the MPI library of this process knows of {group.size}; "
            "take the mpiexec that came with the library, or let MPI4PY_LIBMPI name the library of your mpiexec"
        )
    enter(group)
    return group
