"""The folder of a program for browsers and node: a module of WebAssembly, its loader with types, and a page."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from importlib.resources import files
from itertools import chain
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from prograd_proto import program_pb2 as pb
from prograd_proto.states import trains
from runtime.ahead.folder import link, write_files
from runtime.ahead.initial import INITIAL
from runtime.ahead.library import Function, Library, require_free
from runtime.ahead.texts import Parameter, description_of, parameters_of, states_file
from runtime.dtypes import Array
from runtime.errors import UsageError

SITE_FILES: Final = ("prograd.mjs", "run.mjs", "columns.mjs", "worker.mjs", "index.html")
"""Files that are the same for every program."""

ARRAYS: Final = {
    "uint8_t": "Uint8Array",
    "uint16_t": "Uint16Array",
    "int32_t": "Int32Array",
    "int64_t": "BigInt64Array",
    "float": "Float32Array",
    "double": "Float64Array",
}
"""Arrays of JavaScript by type of C."""


def write_site(folder: Path, program: pb.ProgramDesc, library: Library, states: Mapping[str, Array]) -> Path:
    """Write all files, and return the module; equal arguments give equal bytes with one linker.

    Raises UsageError if no linker for WebAssembly is installed or if an entry has the name of a member of the loader,
    and errors as `write_output` does.
    """
    name = library.name
    contents = {path: (files("runtime.ahead") / "site" / path).read_bytes() for path in SITE_FILES}
    members = re.findall(r"^  (?:async )?(\w+)\(|\bthis\.(\w+) = ", contents["prograd.mjs"].decode(), re.MULTILINE)
    require_free([function.method for function in library.functions], {*chain.from_iterable(members)})
    contents[f"{name}.wasm"] = _linked(library, "program")
    if library.initialises:
        contents[f"{name}.{INITIAL}.wasm"] = _linked(library, f"{INITIAL}.program")
    contents[f"{name}.states.safetensors"] = states_file(program, library, states)
    contents[f"{name}.json"] = description_of(program, library, states).encode()
    contents[f"{name}.d.ts"] = types_of(library).encode()
    contents["about.json"] = _about(program, library).encode()
    write_files(folder, contents)
    return folder / f"{name}.wasm"


def _linked(library: Library, program: str) -> bytes:
    """Return the module of the object files that a program needs."""
    linker = shutil.which("wasm-ld")
    if linker is None:
        raise UsageError(
            "--target wasm32 needs the linker wasm-ld, which is not installed; Debian and Ubuntu have it as lld"
        )
    with TemporaryDirectory() as text:
        folder = Path(text)
        objects = [folder / f"{number}.o" for number in range(len(library.members))]
        for path, member in zip(objects, library.members, strict=True):
            path.write_bytes(member.content)
        exported = [f"--export={library.name}.{symbol}" for symbol in (program, "drive")]
        link(linker, ["--no-entry", "--strip-all", *exported, *map(str, objects)], folder / "module.wasm")
        return (folder / "module.wasm").read_bytes()


def _about(program: pb.ProgramDesc, library: Library) -> str:
    """Return what the page must know: the steps with their feeds, and the columns of rows."""
    column_of = {column.feed: column.key for column in program.data.columns}
    splits = {split.name: split.key for split in program.data.splits}
    steps = [
        {
            "method": function.method,
            "entry": function.bound.name,
            "rows": function.bound.rows,
            "trains": trains(program, function.bound.block),
            "feeds": [
                {
                    "name": feed,
                    "column": column_of.get(feed, feed),
                    "array": ARRAYS[parameter.c_type],
                    "elements": prod(parameter.type.static_shape),
                    "by_row": function.bound.feeds[feed].by_row,
                }
                for feed, parameter in zip(function.bound.feeds, parameters_of(function), strict=False)
            ],
        }
        for function in library.functions
    ]
    return json.dumps({"name": library.name, "split": splits.get("train", ""), "steps": steps}, indent=1) + "\n"


def types_of(library: Library) -> str:
    """Return NAME.d.ts: the methods of an instance for TypeScript."""
    lines = [
        f'// An instance of {library.name}: const net = (await open("{library.name}", …)) as Net;',
        "export type Metrics = Record<string, number>;",
        "export interface Net {",
    ]
    for function in library.functions:
        lines += _method(function)
    lines += [
        "  beginEpoch(): void;",
        "  beginEvaluation(): void;",
        *(
            ["  initialise(seed: number | bigint, module: Response | BufferSource): Promise<void>;"]
            if library.initialises
            else []
        ),
        "  run(columns: Record<string, ArrayBufferView>, options?: {",
        "    train?: ArrayLike<number | bigint>; evaluated?: ArrayLike<number | bigint>; epochs?: number;",
        "    said?: (report: { epoch: number; metrics: Metrics; evaluation?: Metrics }) => void;",
        "  }): { metrics: Metrics; evaluation?: Metrics; epochs: number; best?: number };",
        "  state(name: string): ArrayBufferView;",
        "  set(name: string, array: ArrayBufferView): void;",
        "  load(file: ArrayBuffer): void;",
        "  save(): Uint8Array;",
        "  stateSha256(): Promise<string>;",
        "}",
        "",
    ]
    return "\n".join(lines)


def _method(function: Function) -> list[str]:
    names = [*function.bound.feeds, *(fetch.name for fetch in function.bound.block.fetches)]
    parameters = list(zip(names, parameters_of(function), strict=True))
    fed = "; ".join(f"{json.dumps(name)}: {ARRAYS[p.c_type]}" for name, p in parameters if p.is_fed)
    given = "; ".join(f"{json.dumps(name)}: {_result(p)}" for name, p in parameters if not p.is_fed)
    return [
        f"  /** A step of {function.bound.name} for {function.bound.rows} rows. */",
        f"  {function.method}(feeds{'' if fed else '?'}: {{ {fed} }}): {{ {given} }};",
    ]


def _result(parameter: Parameter) -> str:
    is_number = prod(parameter.type.static_shape) == 1
    number = "bigint" if parameter.c_type == "int64_t" else "number"
    return number if is_number else ARRAYS[parameter.c_type]
