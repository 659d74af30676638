"""Hostile language models: `python -m fuzz.language_folders [--count N] [--seed N]`, in tests/.

A small folder, or a GGUF file of it, is changed: keys of JSON, bytes of any file, missing files, templates. Importing
it, packing rows by it and answering must succeed or end in a sentence: no other exception, no code run, memory held.
"""

# pyright: basic
# JSON has no types here.

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import shutil
import sys
import tempfile
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
from subjects.language_model import GPT2, LLAMA, made_folder

from compiler.__main__ import main as compiler
from runtime.__main__ import main as runtime

MOST_BYTES = 6 << 30
"""Bytes of address space that the campaign may have."""

ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    3,
    1 << 40,
    1e308,
    -0.5,
    "",
    "x",
    "\0",
    [],
    [1],
    {},
    {"a": 1},
    ["q"] * 5,
    1 << 200,
]
TEMPLATES = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}", "{% for i in range(10**9) %}{% endfor %}", "{{ 'a' * 10**9 }}",
    "{{ cycler.__init__.__globals__.os.system('touch ran') }}", "{% raise %}", "{{ messages[99].x.y }}", "{{",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
]  # fmt: skip
TALK = {"messages": [{"role": "user", "content": "who ?"}, {"role": "assistant", "content": "i am ."}]}


def main() -> None:
    """Run the campaign, and print what failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)
        sources = _sources()
        faults = sum(_case(sources, seed) for seed in range(options.seed, options.seed + options.count))
        ran = sum(_RAN.values())
        print(f"{options.count} folders: {_RAN['accepted']} accepted, {_RAN['refused']} refused, {faults} faults")
        sys.exit(int(faults > 0 or ran == 0))


_RAN = {"accepted": 0, "refused": 0}


def _sources() -> list[Path]:
    found = []
    for name, config in (("llama", LLAMA), ("gpt2", GPT2)):
        folder = made_folder(Path(f"{name}.folder"), config)
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            assert compiler(["import", "lm", str(folder), "-o", f"{name}.pb"]) == 0
            assert compiler(["merge", f"{name}.pb", "--layout", "gguf", "-o", f"{name}.gguf"]) == 0
        found += [folder, Path(f"{name}.gguf")]
    Path("talk.jsonl").write_text(json.dumps(TALK) + "\n")
    return found


def _case(sources: list[Path], seed: int) -> int:
    """Return the number of faults of a changed model."""
    rng = np.random.default_rng(seed)
    source = sources[int(rng.integers(len(sources)))]
    target = Path("case.gguf" if source.suffix == ".gguf" else "case")
    shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    told = [_change(rng, target) for _ in range(int(rng.integers(1, 3)))]
    words = [
        (compiler, ["import", "lm", str(target), "--length", "16", "-o", "case.pb", "--force"]),
        (
            compiler,
            ["data", "pack", "talk.jsonl", "--chat", str(target), "--length", "16", "-o", "c.safetensors", "--force"],
        ),
        (runtime, ["chat", "case.pb", "--engine", "reference", "--message", "who ?", "--most", "2"]),
    ]
    faults = 0
    for command, given in words:
        err = io.StringIO()
        try:
            with redirect_stdout(io.StringIO()), redirect_stderr(err):
                code = command(given)
        except SystemExit as error:
            code = error.code
        except BaseException:  # what must not be
            print(f"seed {seed}: {given[:2]} after {told}:\n{traceback.format_exc()}")
            faults += 1
            continue
        _RAN["refused" if code else "accepted"] += 1
        if "Traceback" in err.getvalue() or (code and not err.getvalue().strip()) or code not in (0, 1, 2, 3, 4, 5):
            print(f"seed {seed}: {given[:2]} after {told}: {code}: {err.getvalue()[-800:]}")
            faults += 1
        if code and given[:2] == ["import", "lm"]:
            break
    if Path("ran").exists():
        print(f"seed {seed}: the template ran a command")
        faults += 1
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    for path in Path().glob("case.*"):
        path.unlink()
    return faults


def _change(rng: np.random.Generator, target: Path) -> str:
    files = sorted(target.iterdir()) if target.is_dir() else [target]
    if not files:
        return "nothing"
    file = files[int(rng.integers(len(files)))]
    if file.suffix == ".json" and rng.random() < 0.7:
        return _change_json(rng, file)
    if target.is_dir() and rng.random() < 0.15:
        (target / "chat_template.jinja").write_text(TEMPLATES[int(rng.integers(len(TEMPLATES)))])
        return "a template"
    raw = bytearray(file.read_bytes())
    way = int(rng.integers(4))
    if way == 0:
        file.unlink() if target.is_dir() else file.write_bytes(b"")
    elif way == 1:
        file.write_bytes(raw[: int(rng.integers(len(raw) + 1))])
    else:
        reach = len(raw) if way == 2 else min(len(raw), 4096)
        for _ in range(int(rng.integers(1, 9))):
            if reach:
                raw[int(rng.integers(reach))] = int(rng.integers(256))
        file.write_bytes(raw)
    return f"{file.name} in the way {way}"


def _change_json(rng: np.random.Generator, file: Path) -> str:
    try:
        given = json.loads(file.read_text())
    except (ValueError, RecursionError):
        return "nothing"
    at, path = given, ""
    while isinstance(at, dict | list) and len(at):
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = keys[int(rng.integers(len(keys)))]
        path += f".{key}"
        if not isinstance(at[key], dict | list) or not at[key] or rng.random() < 0.3:
            at[key] = ODD[int(rng.integers(len(ODD)))]
            break
        at = at[key]
    file.write_text(json.dumps(given))
    return f"{file.name}{path}"


if __name__ == "__main__":
    main()
