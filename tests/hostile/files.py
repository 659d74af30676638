"""Changes to the files beside a program, each with the words that read it: (files by name, words of a command)."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from mutations import changed_bytes
from subjects.small_programs import arrays

from hostile.judge import call
from hostile.messages import STRINGS, mutated
from hostile.programs import furnish, parsed, training_programs
from prograd_proto.text import to_text
from runtime.__main__ import main as runtime

Case = tuple[dict[str, bytes], list[str]]
EXECUTE = ["runtime execute", "good.pb", "-q", "--steps", "2", "--max-memory", "64MiB", "--max-time", "5"]
PREDICT = [*EXECUTE[:3], "--entry", "predict", "--max-memory", "64MiB", "--max-time", "5"]
WORDS = ("F64", "F32", "F16", "BF16", "F4", "F8_E4M3", "F8_E8M0", "I64", "I8", "U16", "U64", "BOOL", "C64", "", "x")
DTYPES = ("<f4", "<f8", ">f4", "<i8", "|b1", "|u1", "<u8", "<c8", "|O", "<U3", "|V4", "<M8[s]", "nonsense", "")
SIZES = (0, 1, 2, 3, -1, 7, 1 << 31, 1 << 62, 1 << 63, 1 << 64, 10**20, True, 1.5, None, "3", [])


@cache
def checkpoint() -> bytes:
    """Return the files that two steps of a good program save."""
    with TemporaryDirectory() as folder:
        furnish(Path(folder))
        path = Path(folder) / "s.safetensors"
        call(runtime, ["execute", f"{folder}/good.pb", "-q", "--steps", "2", "--save", str(path)])
        return path.read_bytes()


@cache
def good_rows() -> bytes:
    with TemporaryDirectory() as folder:
        furnish(Path(folder))
        return (Path(folder) / "rows.safetensors").read_bytes()


def a_file(rng: random.Random) -> Case:
    """One of the cases below."""
    return rng.choice(KINDS)(rng)


def rows(rng: random.Random) -> Case:
    """Data in safetensors."""
    return {"d.safetensors": safetensors(rng, good_rows())}, [*EXECUTE, "--data", "d.safetensors"]


def loaded(rng: random.Random) -> Case:
    """States, to be loaded or to be resumed."""
    how = rng.choice(([], ["--resume"]))
    return {"d.safetensors": safetensors(rng, checkpoint())}, [*EXECUTE, "--load", "d.safetensors", *how]


def resumed(rng: random.Random) -> Case:
    """The newest checkpoint of a folder."""
    name = "points/step-0000000002.safetensors"
    return {name: safetensors(rng, checkpoint())}, [*EXECUTE[:3], "--checkpoint", "points", "--resume"]


def rows_in_npz(rng: random.Random) -> Case:
    """Data in npz."""
    return {"d.npz": npz(rng)}, [*EXECUTE, "--data", "d.npz"]


def fed(rng: random.Random) -> Case:
    """A feed in npy."""
    option = rng.choice((["--feed", "x=@d.npy"], ["--feed", "x=[[1, 2, 3]]", "--expect", "prediction=@d.npy"]))
    return {"d.npy": npy(rng, arrays()["x"])}, [*PREDICT, *option]


def fed_in_json(rng: random.Random) -> Case:
    """A feed as JSON."""
    return {}, [*PREDICT, "--feed", f"x={json_text(rng)}"]


def in_text(rng: random.Random) -> Case:
    """The text form, changed as text or as the message behind it."""
    lines = _text(rng).split("\n")
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        i, other = rng.randrange(len(lines)), rng.choice(lines)
        lines[i : i + 1] = rng.choice(([], [other], *[[_words_changed(rng, lines[i], other)]] * 4))
        lines = lines or [""]
    return {"mutated.txt": "\n".join(lines).encode("utf-8", "surrogatepass")}, ["compiler compile", "mutated.txt"]


def _text(rng: random.Random) -> str:
    if rng.random() < 0.7:
        return to_text(parsed(training_programs()[0]))
    try:
        return to_text(parsed(mutated(rng)))
    except Exception:  # a file that does not parse, which is for other cases
        return "program x\n"


def _words_changed(rng: random.Random, line: str, other: str) -> str:
    words = line.split(" ")
    odd = (
        *STRINGS,
        "9" * 30,
        "%",
        "<-",
        "0x",
        "nan",
        "-1",
        "[",
        "{",
        "#",
        '"',
        '"\\ud800"',
        "(" * 500,
        "block",
        "state",
        "é",
    )
    at = rng.randrange(len(words))
    words[at : at + rng.choice((0, 1, 1))] = rng.choice(([], [rng.choice(odd)], [rng.choice(other.split(" "))]))
    return " ".join(words)


def metrics(rng: random.Random) -> Case:
    """The metrics of a run that is resumed."""
    name = rng.choice(("m.csv", "m.jsonl"))
    good = b"event,epoch,step,loss,rate\nstep,1,1,0.5,0.1\nstep,1,2,0.25,0.1\n"
    if name == "m.jsonl":
        good = b'{"event": "step", "epoch": 1, "step": 1, "loss": 0.5}\n{"event": "step", "epoch": 1, "step": 2}\n'
    files = {"s.safetensors": checkpoint(), name: changed_bytes(rng, good)}
    return files, [*EXECUTE[:3], "--load", "s.safetensors", "--resume", "--metrics", name]


KINDS: tuple[Callable[[random.Random], Case], ...] = (
    rows, loaded, resumed, rows_in_npz, fed, fed_in_json, in_text, in_text, metrics,
)  # fmt: skip


def safetensors(rng: random.Random, raw: bytes) -> bytes:
    """A file with another header, or other bytes."""
    if rng.random() < 0.25:
        return changed_bytes(rng, raw)
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(list(header))
        if name == "__metadata__":
            header[name]["prograd"] = json_changed(rng, header[name].get("prograd", "{}"))
        else:
            _entry_changed(rng, header, name)
        header = header or {"x": {}}
    text = json.dumps(header).encode()
    claimed = len(text) if rng.random() < 0.95 else rng.choice((0, 1, len(text) + 8, 1 << 40, (1 << 64) - 1))
    return claimed.to_bytes(8, "little") + text + raw[8 + size :]


def _entry_changed(rng: random.Random, header: dict[str, Any], name: str) -> None:
    entry = header.pop(name)
    sizes = [rng.choice(SIZES) for _ in range(rng.choice((0, 1, 2, 3, 40)))]
    field, value = rng.choice(
        (
            ("dtype", rng.choice(WORDS)),
            ("shape", sizes),
            ("data_offsets", sizes[:2]),
            (rng.choice(("dtype", "shape", "data_offsets", "more")), rng.choice(SIZES)),
        )
    )
    kind = rng.random()
    if kind < 0.15:
        return
    header[rng.choice(STRINGS) if kind < 0.3 else name] = entry if kind < 0.3 else entry | {field: value}


def json_changed(rng: random.Random, text: str) -> str:
    """A line of JSON with a value somewhere that is another one."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    places: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        at = waiting.pop()
        keys = list(at) if isinstance(at, dict) else range(len(at)) if isinstance(at, list) else ()
        places += [(at, key) for key in keys]
        waiting += [at[key] for key in keys]
    if places:
        at, key = rng.choice(places)
        at[key] = rng.choice((*SIZES, *STRINGS[:6], {}, {"a": 1}, [[]], float("nan"), -0.0, 1e308, 5))
    return json.dumps(value) if rng.random() < 0.9 else "[" * 100_000


def npy(rng: random.Random, array: np.ndarray) -> bytes:
    """An array file with another header, or other bytes."""
    out = io.BytesIO()
    np.save(out, array)
    raw = out.getvalue()
    if rng.random() < 0.3:
        return changed_bytes(rng, raw)
    shape = (
        tuple(rng.choice(SIZES[:12]) for _ in range(rng.choice((0, 1, 2, 3, 70))))
        if rng.random() < 0.6
        else array.shape
    )
    dtype = rng.choice(DTYPES) if rng.random() < 0.6 else array.dtype.str
    order = rng.choice(("False", "True", "None", "3"))
    text = f"{{'descr': {dtype!r}, 'fortran_order': {order}, 'shape': {shape!r}, }}"
    if rng.random() < 0.2:
        text = rng.choice((text[:-8], text + "x" * 70_000, "(" * 300, "{}", "__import__('os')", "[" * 3000, "1" * 5000))
    version = rng.choice((b"\1\0", b"\1\0", b"\2\0", b"\3\0", b"\4\0", b"\0\0"))
    width = 2 if version[0] < 2 else 4
    header = text.encode() + b"\n"
    return b"\x93NUMPY" + version + (len(header) % (1 << 8 * width)).to_bytes(width, "little") + header + raw[128:]


def npz(rng: random.Random) -> bytes:
    """An archive of arrays with changed members, ways of compression, marks or bytes."""
    out = io.BytesIO()
    ways = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    with zipfile.ZipFile(out, "w", rng.choice(ways)) as archive:
        for name, array in arrays().items():
            good = io.BytesIO()
            np.save(good, array)
            archive.writestr(f"{name}.npy", npy(rng, array) if rng.random() < 0.3 else good.getvalue())
    raw = bytearray(out.getvalue())
    for mark in (b"PK\3\4", b"PK\1\2"):
        at = raw.find(mark) + (6 if mark == b"PK\3\4" else 8)
        if rng.random() < 0.15:
            raw[at] |= 1  # encrypted
        if rng.random() < 0.1:
            raw[at + 2] = rng.choice((1, 9, 12, 14, 93, 99))  # another way of compression
    return bytes(raw) if rng.random() < 0.5 else changed_bytes(rng, bytes(raw))


def json_text(rng: random.Random) -> str:
    """A value, deep, long, of mixed kinds, or no JSON at all."""
    choices: tuple[Callable[[], str], ...] = (
        lambda: "[" * rng.choice((10, 70, 2000, 200_000)),
        lambda: "[" * (n := rng.choice((2, 33, 65, 2000))) + "1" + "]" * n,
        lambda: json.dumps([[rng.choice(SIZES) for _ in range(3)] for _ in range(2)]),
        lambda: rng.choice(("NaN", "-Infinity", "1e999", "9" * 5000, "{}", '{"a": [1]}', '"x"', "null", "true", "")),
        lambda: json.dumps(rng.choice(STRINGS)),
        lambda: json.dumps([[1, 2, 3], [4, 5]]),
    )
    return rng.choice(choices)()
