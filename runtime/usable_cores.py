"""The default number of threads of a run: the cores that this process may use.

1. The affinity of the process lists the logical CPUs that it may run on.
2. Logical CPUs that share a physical core count once: two threads on one core share its arithmetic units.
3. A CPU quota of a control group, as containers have, is CPU time per period; it is rounded down to whole cores.

The result is the smallest of the three and at least 1. What the system does not tell is left out. An engine uses fewer
threads where a step has too little work for more, unless a number was asked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")

MIN_THREAD_LIMIT = 64
"""Number of threads that a run may have on any machine."""

THREADS_PER_CORE = 4
"""Number of threads per usable core that a run may have; threads that wait for a core make no step faster."""


def why_too_many(threads: int) -> str | None:
    """Return why a run cannot have this number of threads, or None if it can."""
    cores = usable_cores()
    limit = max(MIN_THREAD_LIMIT, THREADS_PER_CORE * cores)
    if threads <= limit:
        return None
    found = f"the {cores} cores" if cores > 1 else "the one core"
    return f"a run takes at most {limit} threads here; threads beyond {found} of this process make no step faster"


class DefaultThreads(int):
    """The default bound on the number of threads of a run. An engine may use fewer."""


def default_threads() -> DefaultThreads:
    """Return the upper bound on the threads of a run that are not given: one for each usable core."""
    return DefaultThreads(usable_cores())


def usable_cores(root: Path = ROOT) -> int:
    """Return the number of cores that this process may use; `root` is the folder that has `sys` and `proc`."""
    allowed = allowed_cpus()
    quota = cpu_quota(root)
    cores = physical_cores(allowed, root)
    return max(min(len(allowed), cores, cores if quota is None else int(quota)), 1)


def physical_cores(allowed: set[int], root: Path) -> int:
    """Return the number of physical cores of these logical CPUs; a CPU of unknown siblings counts as a core."""
    left, cores = set(allowed), 0
    while left:
        left -= siblings(min(left), root)
        cores += 1
    return cores


def siblings(cpu: int, root: Path = ROOT) -> set[int]:
    """Return the logical CPUs on the physical core of this one, itself among them."""
    text = _text(root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    return {cpu, *_cpus(text)}


def cpu_quota(root: Path) -> float | None:
    """Return the smallest CPU quota of the process's control groups and their parents in cores; None without one."""
    quotas = [quota for folder, version in _groups(root) if (quota := _quota(folder, version)) is not None]
    return min(quotas, default=None)


def allowed_cpus() -> set[int]:
    """Return the logical CPUs that this process may use."""
    found = getattr(os, "sched_getaffinity", None)  # exists on Linux
    return set(range(os.cpu_count() or 1)) if found is None else found(0)


def _groups(root: Path) -> Iterator[tuple[Path, int]]:
    """Yield the folders of the control groups that may limit CPU time, each with the version of its files."""
    for mount, inside, version in _mounts(root):
        for line in _text(root / "proc/self/cgroup").splitlines():
            _, controllers, path = [*line.split(":", 2), "", ""][:3]
            if "cpu" in controllers.split(",") if version == 1 else not controllers:
                yield from ((folder, version) for folder in _upwards(root, mount, inside, path))


def _mounts(root: Path) -> Iterator[tuple[str, str, int]]:
    """Yield where hierarchies of control groups are mounted, which group is mounted there, and the version."""
    for line in _text(root / "proc/self/mountinfo").splitlines():
        first, _, second = line.partition(" - ")
        left, right = first.split(), second.split()
        if len(left) < 5 or len(right) < 3:
            continue
        if right[0] == "cgroup2":
            yield left[4], left[3], 2
        elif right[0] == "cgroup" and "cpu" in right[2].split(","):
            yield left[4], left[3], 1


def _upwards(root: Path, mount: str, inside: str, path: str) -> Iterator[Path]:
    """Yield the folder of a group and those of its parents, as far as they are mounted."""
    top = root / mount.lstrip("/")
    below = Path(path.removeprefix(inside.rstrip("/")).lstrip("/"))
    if ".." in below.parts:  # a group beside the one that is mounted, as namespaces show it
        below = Path()
    yield top / below
    yield from (top / parent for parent in below.parents)


def _quota(folder: Path, version: int) -> float | None:
    """Return the quota of one group in cores; None where there is none or the files are not readable."""
    if version == 2:
        words = _text(folder / "cpu.max").split()
    else:
        words = [_text(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    if len(words) != 2 or not all(word.isdecimal() and int(word) for word in words):
        return None  # "max", or -1 of version 1
    return int(words[0]) / int(words[1])


def cpus_in(path: Path) -> set[int]:
    """Return the logical CPUs that a file lists, as `0-3,8`; none if it cannot be read."""
    return _cpus(_text(path))


def _cpus(text: str) -> set[int]:
    """Return the numbers of a list as `0-3,8`."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (not last or last.isdecimal()):
            found |= set(range(int(first), int(last or first) + 1))
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
