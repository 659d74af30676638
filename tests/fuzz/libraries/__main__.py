"""Random training programs as libraries: python -m fuzz.libraries --count 1000 --jobs 2.

A host in C, compiled with the address sanitizer, makes the steps of each entry. Every fetch and every state has the
bits of the native engine. The programs are those of `instruction_sets.py`.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from fuzz import campaign, engines, instruction_sets, judging
from fuzz.building import Building
from fuzz.campaign import Trial
from fuzz.engines import Results
from fuzz.verdict import Verdict
from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from runtime import Run
from runtime.ahead.folder import write_folder
from runtime.ahead.library import Library, library_of
from runtime.ahead.machines import machine_of, target_of
from runtime.ahead.texts import SOURCES
from runtime.dtypes import numpy_dtype
from runtime.errors import UsageError

JUDGE = "libraries"
"""Prefix of the names of this judge's findings."""

INSTRUCTIONS = "avx2"

HOST = r"""
#include "prograd_tables.h"
#include <stdio.h>
#include <stdlib.h>
extern const prograd_program *const net_programs[];
int main(int count, char **words) {
  (void)count;
  int number = atoi(words[1]), steps = atoi(words[2]);
  const prograd_program *program = net_programs[0];
  const prograd_entry *entry = program->entries + number;
  void *memory = aligned_alloc(64, (size_t)program->sizes->bytes), *feeds[64], *fetches[64];
  int64_t length = 10;
  prograd *net;
  if (prograd_open(&net, net_programs, "net.states.safetensors", memory)) return puts(prograd_error(net)), 1;
  prograd_set(net, "total_steps", &length, sizeof length);
  FILE *in = fopen("feeds.bin", "rb"), *out = fopen("results.bin", "wb");
  for (int64_t i = 0; i < entry->feed_count; i++) {
    size_t bytes = (size_t)program->places[entry->feeds + i].bytes;
    feeds[i] = malloc(bytes);
    if (fread(feeds[i], 1, bytes, in) != bytes) return 2;
  }
  for (int step = 0; step < steps; step++) {
    for (int64_t i = 0; i < entry->fetch_count; i++) {
      const prograd_place *place = program->places + entry->fetches + i;
      fetches[i] = malloc((size_t)place->bytes * (place->widened ? 2 : 1));
    }
    if (prograd_step(net, number, (const void *const *)feeds, fetches)) return puts(prograd_error(net)), 1;
    for (int64_t i = 0; i < entry->fetch_count; i++) {
      const prograd_place *place = program->places + entry->fetches + i;
      fwrite(fetches[i], 1, (size_t)place->bytes * (place->widened ? 2 : 1), out);
      free(fetches[i]);
    }
  }
  for (int64_t i = 0; i < program->sizes->states; i++) {
    const prograd_state_place *state = program->states + i;
    fwrite(net->memory + state->at, 1, (size_t)state->bytes, out);
  }
  for (int64_t i = 0; i < entry->feed_count; i++) free(feeds[i]);
  fclose(in);
  free(memory);
  return fclose(out);
}
"""


def tried(seed: int) -> Trial:
    """Try one program with and without mixed precision."""
    return instruction_sets.tried(seed, compared, JUDGE)


def of_building(building: Building, name: str) -> Verdict:
    """Compare the library of a program that a recipe builds with its run."""
    return instruction_sets.of_building(building, name, compared)


def compared(program: pb.ProgramDesc, feeds: Mapping[str, np.ndarray], name: str) -> Verdict:
    """Build the library, and run every entry in both; programs with an odd number of ops get short code."""
    is_compact = sum(len(block.ops) for block in program.blocks) % 2 == 1
    try:
        with TemporaryDirectory() as text:
            folder = Path(text)
            run = Run(program, engine="reference", spill=text)
            machine = machine_of("x86_64-linux")
            try:
                library = library_of(
                    program,
                    "net",
                    [target_of("x86_64-linux", machine, INSTRUCTIONS, is_compact=is_compact)],
                    run.states.arrays,
                )
            except UsageError as error:
                return Verdict("skipped", name, "bits", str(error).partition("ops that ")[2][:24] or str(error)[:40])
            write_folder(folder, program, library, machine._replace(compilers=()), run.states.arrays)
            _compile(folder)
            for number, function in enumerate(library.functions):
                entry = function.bound.name
                if function.name != f"net_{entry}":
                    continue  # a step of another number of rows
                steps = engines.STEPS if entry == "train" else 1
                wanted = engines.stepped(program, entry, feeds, steps, f"native.{INSTRUCTIONS}")
                found = _replayed(folder, program, library, number, feeds, steps, wanted)
                if isinstance(found, str):
                    return Verdict("differs", name, f"{entry}, host", found)
                passing = {s.name for s in program.states if s.lifespan == pb.LIFESPAN_EPOCH}
                kept = [*wanted[:-1], {key: array for key, array in wanted[-1].items() if key not in passing}]
                if what := instruction_sets.differing(kept, found):
                    return Verdict("differs", name, f"{entry}, {what}", "library and run")
    except Exception as error:
        return judging.raised(name, error)
    return Verdict("agreed", name, "bits")


FLAGS = ["-std=c11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


@cache
def _objects() -> TemporaryDirectory[str]:
    """Compile the host and the runtime, which are the same for every program."""
    folder = TemporaryDirectory()
    host = Path(folder.name) / "host.c"
    host.write_text(HOST)
    runtime = Path(str(files("runtime.ahead"))) / "host"
    sources = [str(host), *(str(runtime / source) for source in SOURCES)]
    _run([*FLAGS, "-c", f"-I{runtime}", *sources], folder.name)
    return folder


def _compile(folder: Path) -> None:
    objects = map(str, sorted(Path(_objects().name).glob("*.o")))
    _run([*FLAGS, *objects, "-L.", "-lnet", "-o", "host"], str(folder))


def _run(arguments: list[str], folder: str) -> None:
    subprocess.run([shutil.which("cc") or "cc", *arguments], cwd=folder, check=True, capture_output=True)


def _replayed(
    folder: Path,
    program: pb.ProgramDesc,
    library: Library,
    number: int,
    feeds: Mapping[str, np.ndarray],
    steps: int,
    wanted: Results,
) -> Results | str:
    """Return the results of the host, or what it says."""
    bound = library.functions[number].bound
    with (folder / "feeds.bin").open("wb") as file:
        for name, feed in bound.feeds.items():
            file.write(_bytes(feeds[name], feed.type.dtype))
    done = subprocess.run(["./host", str(number), str(steps)], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"{done.returncode}: {(done.stdout + done.stderr)[:300]}"
    content, at = (folder / "results.bin").read_bytes(), 0
    results: Results = []
    for i in range(steps + 1):
        row: dict[str, np.ndarray] = {}
        if i == steps:
            types = {state.name: type_of(state) for state in program.states}
            shapes = {
                name: (numpy_dtype(types[name].dtype), types[name].static_shape)
                for name in library.builds[0].layout.states
            }
        else:
            shapes = {
                fetch.name: (wanted[i][fetch.name].dtype, wanted[i][fetch.name].shape) for fetch in bound.block.fetches
            }
        for name, (dtype, shape) in shapes.items():
            row[name] = np.frombuffer(content, dtype, int(np.prod(shape)), at).reshape(shape)
            at += row[name].nbytes
        results.append(row)
    return results


def _bytes(array: np.ndarray, dtype: str) -> bytes:
    """Return a feed as the library takes it."""
    if dtype == "bfloat16":
        return (np.ascontiguousarray(array, np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()
    return np.ascontiguousarray(array).astype(numpy_dtype(dtype)).tobytes()


def fails_again(building: Building, like: Verdict) -> bool:
    """Return True if it fails in the same way."""
    found = of_building(building, like.judge)
    return (found.word, found.judge) == (like.word, like.judge) and (found.word != "raised" or found.what == like.what)


def main() -> None:
    campaign.run_uncached(tried, __doc__ or "")


if __name__ == "__main__":
    main()
