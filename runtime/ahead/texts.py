"""The texts of a library's folder that depend on the program: header, example, build files and description."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from prograd_proto import TensorType, type_of
from prograd_proto import program_pb2 as pb
from prograd_proto.states import held
from runtime.ahead.layout import file_header
from runtime.ahead.library import Function, Library, spelled
from runtime.ahead.machines import Machine
from runtime.dtypes import Array, as_little
from runtime.files.safetensors_file import safetensors_header
from runtime.runs.states import tensors_sha256

C_TYPES: Final = {
    "bool": "uint8_t",
    "uint8": "uint8_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "float32": "float",
    "float64": "double",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
}
"""Types of C by dtype; halves are bits. A fetch of bfloat16 is a `float`."""

SOURCES: Final = ("prograd.c", "prograd_checks.c", "prograd_files.c", "prograd_sha256.c", "prograd_initialise.c")
"""Files of the runtime in C that the functions of NAME.h need."""

WIDTH: Final = 100

_WORDS: Final = """
auto break case char const continue default do double else enum extern float for goto if int long register return short
signed sizeof static struct switch typedef union unsigned void volatile while class new delete this template typename
namespace operator private protected public virtual bool true false and or not self fn let match mod move mut pub ref
type use where impl trait loop in as
"""

_LOCALS: Final = "self memory noise seed steps step states folder code count arguments digits"
"""Names that `example.c` has itself."""

NO_NAMES: Final = frozenset((*_WORDS.split(), *_LOCALS.split()))
"""Words of C, C++, Rust and of the example that cannot be names of parameters."""


class Parameter(NamedTuple):
    """A feed or a fetch as a parameter of C: its name, its type there, and the type of its tensor."""

    name: str
    c_type: str
    type: TensorType
    is_fed: bool


def parameters_of(function: Function) -> list[Parameter]:
    """Return the feeds, then the fetches, with names of C that differ."""
    bound = function.bound
    given = [(name, feed.type, True) for name, feed in bound.feeds.items()]
    given += [(fetch.name, bound.types[fetch.tensor], False) for fetch in bound.block.fetches]
    found: list[Parameter] = []
    library = function.name.removesuffix(f"_{function.method}")  # a type of C
    for name, type, is_fed in given:
        short = spelled(name)
        while any(short.lower() == other.name.lower() for other in found) or short in NO_NAMES or short == library:
            short += "_"
        c_type = "float" if type.dtype == "bfloat16" and not is_fed else C_TYPES[type.dtype]
        found.append(Parameter(short, c_type, type, is_fed))
    return found


def shards_of(library: Library) -> list[tuple[str, int, int]]:
    """Return for each step in shards its method, the number of shards, and the number of the entry of their sums."""
    methods = [function.method for function in library.functions]
    return [(method, shards, methods.index(f"{method}_sums")) for method, shards in library.shards.items()]


def header_of(program: pb.ProgramDesc, library: Library, machine: Machine) -> str:
    """Return NAME.h."""
    name, guard = library.name, library.name.upper()
    lines = [
        f"/* {program.name or name}, as compiler build wrote it; prograd.h says what functions do.",
        f" * program_sha256 {library.sha256}",
        f" * for {library.builds[0].target.triple}, {library.instructions} */",
        f"#ifndef {guard}_H",
        f"#define {guard}_H",
        "",
        '#include "prograd.h"',
        "",
        f"#define {guard}_MEMORY_BYTES {library.memory_bytes} /* of an instance, states included */",
        f"#define {guard}_THREADS {library.threads} /* most threads of a step */",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        f"typedef prograd {name};",
        f"extern const prograd_program *const {name}_programs[];",
        "",
    ]
    if machine.has_files:
        lines.append(f"int {name}_open({name} **self, const char *states, void *memory);")
    lines += [
        f"int {name}_begin({name} **self, void *memory);",
        f"int {name}_open_bytes({name} **self, const void *states, size_t bytes, void *memory);",
        f"void {name}_begin_epoch({name} *self);",
        f"void {name}_begin_evaluation({name} *self);",
    ]
    if machine.has_files:
        lines += [
            f"int {name}_load({name} *self, const char *path);",
            f"int {name}_save({name} *self, const char *path);",
        ]
    lines += [
        f"int {name}_load_bytes({name} *self, const void *states, size_t bytes);",
        f"const void *{name}_state(const {name} *self, const char *state, size_t *bytes);",
        f"int {name}_set({name} *self, const char *state, const void *elements, size_t bytes);",
        *([f"int {name}_initialise({name} *self, int64_t seed);"] if library.initialises else []),
        f"void {name}_state_sha256(const {name} *self, char digits[65]);",
        f"const char *{name}_error(const {name} *self);",
    ]
    lines += [
        f"#define {name}_run prograd_run /* link prograd_run.c and prograd_rows.c */",
        f"#define {name}_run_bytes prograd_run_bytes",
    ]
    if machine.has_files:
        lines.append(f"#define {name}_run_checkpointed prograd_run_checkpointed /* and prograd_checkpoint.c */")
    if library.threads > 1:
        lines.append(f"int {name}_threads({name} *self, int threads);")
    for method, shards, sums in shards_of(library):
        lines.append(f"#define {guard}_{method.upper()}_SHARDS {shards} /* see prograd_step_in_shards */")
        lines.append(f"#define {guard}_{method.upper()}_SUMS_ENTRY {sums}")
    for function in library.functions:
        lines += ["", *_declared(name, function)]
    return "\n".join([*lines, "", "#ifdef __cplusplus", "}", "#endif", "#endif", ""])


def _declared(name: str, function: Function) -> list[str]:
    bound, parameters = function.bound, parameters_of(function)
    rows = f"{bound.rows} row{'s' * (bound.rows != 1)}"
    lines = [f"/* A step of {bound.name} for {rows}:"]
    for each in parameters:
        shape = " x ".join(map(str, each.type.static_shape)) or "a number"
        lines.append(f" *   {each.name}  {each.type.dtype}, {shape}{'' if each.is_fed else '; or NULL'}")
    lines[-1] += " */"
    text = f"int {function.name}({name} *self"
    for each in parameters:
        part = f"{'const ' if each.is_fed else ''}{each.c_type} *{each.name}"
        if len(text.splitlines()[-1]) + len(part) + 4 > WIDTH:
            text += f",\n    {part}"
        else:
            text += f", {part}"
    return [*lines, *f"{text});".splitlines()]


def example_of(library: Library) -> str:
    """Return example.c: a host that makes twenty steps of rows that it makes up, and prints the states' hash."""
    name, guard = library.name, library.name.upper()
    function = next((f for f in library.functions if f.bound.block.updates), library.functions[0])
    parameters = parameters_of(function)
    shown = next((p for p in parameters if not p.is_fed and p.c_type in ("float", "double")), None)
    passed = ", ".join(["self", *(each.name for each in parameters)])
    lines = [
        f"/* A host of {name}: twenty steps with rows that it makes up. Put your own rows in their place. */",
        f'#include "{name}.h"',
        "",
        "#include <stdio.h>",
        "#include <string.h>",
        "",
        f"static unsigned char memory[{guard}_MEMORY_BYTES];",
        "",
        "static uint32_t noise(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }",
        "",
        "int main(int count, char **arguments) {",
        *(f"  static {p.c_type} {p.name}[{max(math.prod(p.type.static_shape), 1)}];" for p in parameters),
        f"  {name} *self;",
        "  uint32_t seed = 1;",
        "  int64_t steps = 20; /* of the whole run: schedules of the rate read it */",
        "  char states[1024]; /* beside this source, unless a file is named */",
        "  int folder = strrchr(__FILE__, '/') ? (int)(strrchr(__FILE__, '/') - __FILE__) + 1 : 0;",
        f'  snprintf(states, sizeof states, "%.*s{name}.states.safetensors", folder, __FILE__);',
        f"  int code = {name}_open(&self, count > 1 ? arguments[1] : states, memory);",
        f'  if (code == 0) code = {name}_set(self, "total_steps", &steps, sizeof steps);',
        "  for (int step = 0; code == 0 && step < steps; step++) {",
        *(line for each in parameters if each.is_fed for line in _filled(each)),
        f"    code = {function.name}({passed});",
        *([f'    printf("step %d  {shown.name} %g\\n", step + 1, (double)*{shown.name});'] if shown else []),
        "  }",
        f'  if (code == 0) code = {name}_save(self, "trained.safetensors");',
        "  if (code != 0) {",
        f'    fprintf(stderr, "%s\\n", {name}_error(self));',
        "    return 1;",
        "  }",
        "  char digits[65];",
        f"  {name}_state_sha256(self, digits);",
        '  printf("OK trained.safetensors state_sha256=%s\\n", digits);',
        "  return 0;",
        "}",
        "",
    ]
    return "\n".join(lines)


def _filled(parameter: Parameter) -> list[str]:
    """Return the loop that fills a feed: numbers below 1, or 0 and 1."""
    name, c_type = parameter.name, parameter.c_type
    is_real = c_type in ("float", "double")
    value = f"({c_type})noise(&seed) / 16777216" if is_real else f"({c_type})(noise(&seed) & 1)"
    return [f"    for (size_t i = 0; i < sizeof {name} / sizeof *{name}; i++) {name}[i] = {value};"]


def cmake_of(library: Library) -> str:
    """Return CMakeLists.txt."""
    name = library.name
    threads = library.threads > 1
    sources = [f"${{CMAKE_CURRENT_SOURCE_DIR}}/{source}" for source in (*SOURCES, *["prograd_threads.c"] * threads)]
    lines = [
        "cmake_minimum_required(VERSION 3.13)",
        f"project({name} C)",
        f"add_library({name} INTERFACE)  # its runtime in C is compiled with what uses it",
        f'target_sources({name} INTERFACE "{";".join(sources)}")',
        f"target_include_directories({name} INTERFACE ${{CMAKE_CURRENT_SOURCE_DIR}})",
        f"target_link_libraries({name} INTERFACE ${{CMAKE_CURRENT_SOURCE_DIR}}/lib{name}.a)",
    ]
    if threads:
        lines += ["find_package(Threads REQUIRED)", f"target_link_libraries({name} INTERFACE Threads::Threads)"]
    lines += ["add_executable(example example.c)", f"target_link_libraries(example {name})", ""]
    return "\n".join(lines)


def pkg_config_of(library: Library) -> str:
    """Return NAME.pc."""
    name = library.name
    return "\n".join(
        [
            "prefix=${pcfiledir}",
            f"Name: {name}",
            "Description: a program of prograd as a library",
            "Version: 1",
            f"Libs: -L${{prefix}} -l{name}{' -pthread' if library.threads > 1 else ''}",
            "Cflags: -I${prefix}",
            "",
        ]
    )


def states_file(program: pb.ProgramDesc, library: Library, states: Mapping[str, Array]) -> bytes:
    """Return NAME.states.safetensors."""
    names, _ = safetensors_header({state.name: type_of(state) for state in held(program)}, {})
    return file_header(program, library.sha256) + b"".join(as_little(states[name]).tobytes() for name in names)


def description_of(program: pb.ProgramDesc, library: Library, states: Mapping[str, Array]) -> str:
    """Return NAME.json: sizes, functions, states, hashes and the machine."""
    name = library.name
    functions = [
        {
            "name": function.name,
            "entry": function.bound.name,
            "rows": function.bound.rows,
            "feeds": {p.name: str(p.type) for p in parameters_of(function) if p.is_fed},
            "fetches": {p.name: str(p.type) for p in parameters_of(function) if not p.is_fed},
        }
        for function in library.functions
    ]
    described = {
        "name": name,
        "program_sha256": library.sha256,
        "state_sha256": tensors_sha256(states, {state.name: type_of(state) for state in held(program)}),
        "triple": library.builds[0].target.triple,
        "instructions": library.instructions,
        "fused_multiply_add": library.builds[0].target.fma,
        "threads": library.threads,
        "memory_bytes": library.memory_bytes,
        "functions": functions,
        "states": {state.name: str(type_of(state)) for state in held(program)},
    }
    return json.dumps(described, indent=1) + "\n"
