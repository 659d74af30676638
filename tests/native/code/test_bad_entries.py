"""Entries of the cache with a right checksum that are no code of ours: absent, rebuilt, and printed harmlessly."""

import os
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from subjects.commands import run_runtime as command

from runtime.codegen.code_bytes import from_bytes as from_step_bytes
from runtime.codegen.code_bytes import to_bytes as to_step_bytes
from runtime.codegen.elf import HEADER, UnknownObject, read_object
from runtime.engines.native.cache.entries import keep
from runtime.engines.native.cache.entry import Entry, Label, from_bytes, to_bytes
from runtime.engines.native.objects.image import image_of

EXAMPLE = Path(__file__).parents[3] / "examples" / "linear_regression.pb"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PROGRAD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def empty(entry):
    return Entry(entry.label._replace(part_bytes=[0]), b"")


def without_parts(entry):
    return Entry(entry.label._replace(part_bytes=[]), b"")


def halved(entry):
    contents = entry.contents[: len(entry.contents) // 2]
    return Entry(entry.label._replace(part_bytes=[len(contents)]), contents)


def without_functions(entry):
    return Entry(entry.label._replace(functions=[["missing"]] if entry.label.kernels else []), entry.contents)


def of_other_functions(entry):
    functions = [["missing" for _ in names] for names in entry.label.functions]
    return Entry(entry.label._replace(functions=functions), entry.contents.replace(b"group_0_0", b"group_0_9"))


def of_other_lengths(entry):
    return Entry(entry.label._replace(part_bytes=[len(entry.contents) - 1]), entry.contents)


def of_other_types(entry):
    return Entry(entry.label._replace(functions=7, part_bytes="all", kernels=[]), entry.contents)


def of_other_kernels(entry):
    """Steps whose functions are not kept, and functions that say that they are a step."""
    return Entry(entry.label._replace(kernels="0" * 64), entry.contents)


def without_section_headers(entry):
    if entry.label.kernels:
        return entry
    fields = list(HEADER.unpack_from(entry.contents))
    fields[12] = 0
    return Entry(entry.label, HEADER.pack(*fields) + entry.contents[HEADER.size :])


def changed_code(change):
    """Change the value of a step, and no functions."""

    def changed(entry):
        if not entry.label.kernels:
            return entry
        contents = to_step_bytes(change(from_step_bytes(entry.contents)))
        return Entry(entry.label._replace(part_bytes=[len(contents)]), contents)

    return changed


def doubled(name):
    return changed_code(lambda code: replace(code, **{name: getattr(code, name) + 2**40}))


def run(folder):
    """Run the example in a process of its own, as a fault there may be a signal."""
    arguments = ["execute", str(EXAMPLE), "--engine", "native", "--steps", "2", "-q"]
    command = [sys.executable, "-P", "-m", "runtime", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PROGRAD_CACHE": str(folder)})
    return done.returncode, done.stderr, done.stdout.rpartition("state_sha256=")[2]


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """Return what the first run says, and the entries that it keeps, by their names."""
    folder = tmp_path_factory.mktemp("first")
    done = run(folder)
    assert done[:2] == (0, "")
    return done, {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "change",
    [
        empty,
        without_parts,
        halved,
        without_functions,
        of_other_functions,
        of_other_lengths,
        of_other_types,
        of_other_kernels,
        without_section_headers,
        *map(doubled, ("words", "chunks", "phases", "tensors", "threads", "phase_count", "group_ops")),
        changed_code(lambda code: replace(code, functions=("missing",) * len(code.functions))),
        changed_code(lambda code: replace(code, feeds=())),
    ],
)
def test_an_entry_that_is_no_code_of_ours_is_built_again(first, folder, change):
    folder.mkdir()
    done, whole = first
    for name, content in whole.items():
        (folder / name).write_bytes(to_bytes(change(from_bytes(content))))
    assert run(folder) == done
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == whole


def test_the_command_prints_nothing_that_acts_from_an_entry(folder, capsys):
    for key, program, instructions in (("a" * 64, "red\x1b[31m\nKEPT files=0", "avx2"), ("b" * 64, "x", "\x1b[2J\n")):
        keep(Entry(Label(key, program, instructions, [["group_0"]], [1]), b"x"))
    code, out, _ = command(capsys, "cache")
    assert code == 0
    assert len(out) == 4
    assert not any(character < " " or character == "\x7f" for line in out for character in line)
    assert sum(line.startswith("KEPT ") for line in out) == 1
    assert any(line.endswith("not used: not whole, or not safe") for line in out)


@pytest.mark.thorough
def test_sections_that_overlap_take_no_more_memory_than_the_object_has(folder):
    run(folder)
    entry = next(found for path in folder.iterdir() if not (found := from_bytes(path.read_bytes())).label.kernels)
    content = entry.parts()[0]
    fields = list(HEADER.unpack_from(content))
    at, count = fields[6], fields[12]
    rows = [content[at + 64 * i : at + 64 * (i + 1)] for i in range(count)]
    code = next(row for row in rows if struct.unpack_from("<Q", row, 8)[0] & 4 and struct.unpack_from("<Q", row, 32)[0])
    fields[6], fields[12] = len(content), count + 1000
    crafted = HEADER.pack(*fields) + content[HEADER.size :] + b"".join(rows) + code * 1000
    with pytest.raises(UnknownObject, match=r"^the sections of the object overlap$"):
        image_of(read_object(crafted))
