"""A library in C beside the engine that Python drives, and beside libtorch: python benchmarks/peers/library.py.

A perceptron 784-256-128-10 trains by SGD with momentum, 32 rows a step, one thread. Microseconds of a step are medians
of rounds in which all take turns. "Start" is a process that opens, makes one step and ends: milliseconds and resident
memory. libtorch is that of the installed package torch; without it, its column is left out.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from compiler.commands import run_command
from prograd import Program, layers, load, momentum, ops
from runtime.ahead.texts import SOURCES

STEPS = 400
"""Steps of a round."""

RESIDENT = r"""
#include <stdio.h>
#include <string.h>
static void resident(void) { /* print the most KiB that the process had in memory */
  char line[256];
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file))
    if (!strncmp(line, "VmHWM:", 6)) printf("%s", line + 6);
}
"""

IN_C = r"""
#include "net.h"
#include <stdlib.h>
#include <time.h>
static unsigned char memory[NET_MEMORY_BYTES];
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
int main(int count, char **words) {
  static float x[32 * 784], loss;
  static int64_t label[32];
  int steps = atoi(words[1]);
  net *self;
  (void)count;
  for (int i = 0; i < 32 * 784; i++) x[i] = (float)(i * 7919 % 1000) / 1000;
  for (int i = 0; i < 32; i++) label[i] = i % 10;
  if (net_open(&self, "net.states.safetensors", memory)) return 1;
  if (net_train(self, x, label, &loss, NULL)) return 1;
  double start = now();
  for (int i = 0; i < steps; i++) net_train(self, x, label, &loss, NULL);
  if (steps) printf("%g\n", (now() - start) / steps);
  else resident();
  return 0;
}
"""

IN_TORCH = r"""
#include <torch/torch.h>
#include <chrono>
int main(int, char **words) {
  int steps = atoi(words[1]);
  torch::set_num_threads(1);
  torch::nn::Sequential net(torch::nn::Linear(784, 256), torch::nn::ReLU(), torch::nn::Linear(256, 128),
                            torch::nn::ReLU(), torch::nn::Linear(128, 10));
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(1e-6).momentum(0.9));
  auto x = torch::rand({32, 784});
  auto label = torch::arange(32).remainder(10);
  auto step = [&] {
    sgd.zero_grad();
    auto loss = torch::nn::functional::cross_entropy(net->forward(x), label);
    loss.backward();
    sgd.step();
  };
  step();
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; i++) step();
  if (steps) printf("%g\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / steps);
  else resident();
}
"""


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        run = made(folder)
        hosts = {"C": in_c(folder)} | ({"libtorch": in_torch(folder)} if find_spec("torch") else {})
        turns = {"Python": lambda: by_python(run)}
        turns |= {name: lambda command=command: float(said(command, STEPS)) for name, (command, _) in hosts.items()}
        found = {name: [] for name in turns}
        for _ in range(options.rounds):
            for name, turn in turns.items():
                found[name].append(turn())
        for name, seconds in found.items():
            print(f"{name:10} step {median(seconds) * 1e6:8.1f} us")
        for name, (command, shipped) in hosts.items():
            starts = [started(command) for _ in range(4 * options.rounds)]
            took, memory = (median(column) for column in zip(*starts, strict=True))
            print(f"{name:10} start {took * 1e3:7.2f} ms {memory / 2**20:6.1f} MiB, shipped {shipped / 2**20:.2f} MiB")


def made(folder):
    """Build the program and its library; return a run of it."""
    program = Program("net", seed=1)
    x = program.input("x", "float32", ("batch", 784))
    label = program.input("label", "int64", ("batch",))
    h = ops.relu(layers.dense(ops.relu(layers.dense(x, "a", 256)), "b", 128))
    loss = ops.softmax_cross_entropy(layers.dense(h, "c", 10), label)
    program.minimize(loss, momentum(rate=1e-6))  # gradients that fade become denormal
    program.compile(batch=32).save(folder / "net.pb")
    assert run_command(["build", str(folder / "net.pb"), "--entry", "train", "-o", str(folder / "out")]) == 0
    return load(folder / "net.pb", threads=1)


def in_c(folder):
    """Return the command of the host in C, and the bytes that are shipped with it."""
    out = folder / "out"
    (out / "host.c").write_text(RESIDENT + IN_C)
    sources = ["host.c", *SOURCES, "-I.", "-L.", "-lnet", "-lm"]
    subprocess.run(["cc", "-O2", *sources, "-o", "host"], cwd=out, check=True)
    return (["./host"], out), (out / "host").stat().st_size + (out / "net.states.safetensors").stat().st_size


def in_torch(folder):
    """Return the command of the host with libtorch, and the bytes that are shipped with it."""
    root = Path(find_spec("torch").origin).parent
    (folder / "host.cpp").write_text(RESIDENT + IN_TORCH)
    include = [f"-I{root / 'include'}", f"-I{root / 'include/torch/csrc/api/include'}"]
    libraries = [f"-L{root / 'lib'}", "-ltorch", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{root / 'lib'}"]
    command = [shutil.which("c++"), "-O2", "-std=c++20", *include, "host.cpp", *libraries, "-o", "torch_host"]
    subprocess.run(command, cwd=folder, check=True)
    shipped = sum((root / "lib" / name).stat().st_size for name in ("libtorch_cpu.so", "libtorch.so", "libc10.so"))
    return (["./torch_host"], folder), (folder / "torch_host").stat().st_size + shipped


def by_python(run):
    """Return the seconds of a step that a stepper makes."""
    x = (np.arange(32 * 784) * 7919 % 1000 / 1000).astype(np.float32).reshape(32, 784)
    label = np.arange(32) % 10
    with run.stepper("train") as step:
        step(x, label)
        start = perf_counter()
        for _ in range(STEPS):
            step(x, label)
        return (perf_counter() - start) / STEPS


def said(command, steps):
    """Return the number that a host prints after `steps` steps."""
    words, folder = command
    done = subprocess.run([*words, str(steps)], cwd=folder, capture_output=True, text=True, check=True, env=ALONE)
    return re.search(r"[\d.e+-]+", done.stdout)[0]


def started(command):
    """Return the seconds of a process that makes one step, and its resident bytes."""
    start = perf_counter()
    kib = float(said(command, 0))
    return perf_counter() - start, kib * 1024


ALONE = os.environ | {"OMP_NUM_THREADS": "1"}


if __name__ == "__main__":
    sys.exit(main())
