"""A case from a seed: files in a folder and the calls that read them; and a smaller case that fails alike."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hostile.files import a_file
from hostile.judge import call, faults, strays
from hostile.messages import mutated
from hostile.verbs import PROGRAM, Verb, verbs
from prograd_proto import program_pb2 as pb

KEPT = {"rows.safetensors", "good.pb"}


class Case(NamedTuple):
    """Files by name, and calls: a verb's name and its words."""

    files: dict[str, bytes]
    calls: list[tuple[str, list[str]]]


class Fault(NamedTuple):
    """Fault, and the call that has it."""

    call: str
    what: str


def case_of(seed: int, share_of_files: float = 0.15) -> Case:
    """The case of a seed; equal seeds give equal cases of one version of the code."""
    rng = random.Random(seed)
    if rng.random() < share_of_files:
        files, (name, *words) = a_file(rng)
        return Case(files, [(name, [name.partition(" ")[2], *words])])
    asked = [verb for verb in verbs() if PROGRAM in verb.files or rng.random() < 0.02]
    return Case({PROGRAM: mutated(rng)}, [(verb.name, verb.words(rng)) for verb in asked])


def try_case(case: Case, folder: Path) -> tuple[list[Fault], dict[str, dict[object, int]]]:
    """Every fault of a case, and how often each call ended with which code."""
    for name, content in case.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    found: list[Fault] = []
    codes: dict[str, dict[object, int]] = {}
    known: dict[str, Verb] = {verb.name: verb for verb in verbs()}
    for name, words in case.calls:
        code, out, err, seconds = call(known[name].command, words)
        wrong = faults(name, words, code, out, err, seconds) + [f"writes {path}" for path in strays(folder)]
        wrong += _damage(case, folder)
        found += [Fault(name, f"{what}: {' '.join(words)[:200]}: {err[:700]!r}") for what in wrong]
        codes.setdefault(name, {})[code] = 1
    clear(folder)
    return found, codes


def _damage(case: Case, folder: Path) -> Iterator[str]:
    """Return files of the folder that are unexpected or changed."""
    for name in case.files:
        same = name.startswith(("points/", "m.")) or (folder / name).read_bytes() == case.files[name]
        if not same:
            yield f"{name} was changed"
    for path in folder.iterdir():
        if path.name.endswith(".tmp"):
            yield f"{path.name} is left"
            path.unlink()


def clear(folder: Path) -> None:
    """Leave only what programs read."""
    for path in folder.iterdir():
        if path.name in KEPT:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def smaller(case: Case, folder: Path, kind: str) -> Case:
    """A case of one call and as few parts of the program as still end with a fault of that kind, in a few seconds."""
    until = time.monotonic() + 5
    calls = [one for one in case.calls if _fails(Case(case.files, [one]), folder, kind)][:1] or case.calls
    case = Case(case.files, calls)
    raw = case.files.get("mutated.pb")
    if raw is None:
        return case
    try:
        program = pb.ProgramDesc.FromString(raw)
    except Exception:
        return case
    for _ in range(2):
        for list_of in ("locations", "files", "operators", "states", "entries", "blocks"):
            _drop(program, list_of, case, folder, kind, until)
        for block in program.blocks:
            for list_of in ("fetches", "updates", "results", "ops", "parameters", "tensors"):
                _drop(block, list_of, case, folder, kind, until, program)
    return Case({"mutated.pb": program.SerializeToString(deterministic=True)}, calls)


def _drop(message, name, case, folder, kind, until, program=None) -> None:
    """Leave out the items of a list without which the fault stays."""
    program = message if program is None else program
    items = getattr(message, name)
    for i in reversed(range(len(items))):
        if time.monotonic() > until:
            return
        before = message.__class__.FromString(message.SerializeToString())
        del items[i]
        files = {"mutated.pb": program.SerializeToString(deterministic=True)}
        if not _fails(Case(files, case.calls), folder, kind):
            message.CopyFrom(before)
            items = getattr(message, name)


def _fails(case: Case, folder: Path, kind: str) -> bool:
    return any(fault.what.startswith(kind) for fault in try_case(case, folder)[0])
