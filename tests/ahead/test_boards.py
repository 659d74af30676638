"""Programs on boards without a system, emulated by qemu: the hash of a workstation, in little memory."""

# pyright: basic

import shutil
import subprocess

import numpy as np
import pytest
from ahead.hosts import built

import prograd
from prograd import Program, layers, ops, sgd
from runtime.ahead.texts import SOURCES

CC = "arm-none-eabi-gcc"
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(
        not shutil.which(CC) or not shutil.which("qemu-system-arm"), reason=f"{CC} or qemu-system-arm is not installed"
    ),
]

LINKING = """
MEMORY { flash (rx) : ORIGIN = 0, LENGTH = 4M
         ram (rw) : ORIGIN = 0x20000000, LENGTH = 4M }
SECTIONS {
  .text : { KEEP(*(.vectors)) *(.text* .rodata*) . = ALIGN(64); } > flash
  .ARM.exidx : { *(.ARM.exidx*) } > flash
  .data : { data_start = .; *(.data*) . = ALIGN(64); data_end = .; } > ram AT > flash
  data_from = LOADADDR(.data);
  .bss (NOLOAD) : { bss_start = .; *(.bss* COMMON) . = ALIGN(64); bss_end = .; } > ram
  stack = 0x20400000;
}
"""

HOST = """
#include "tiny.h"
#include <string.h>

static unsigned char memory[TINY_MEMORY_BYTES];
#ifndef DRAWN
extern const unsigned char states[], states_end[];
__asm__(".section .rodata\\n.balign 8\\n.global states\\nstates:\\n.incbin \\"tiny.states.safetensors\\"\\n"
        ".global states_end\\nstates_end:\\n.previous\\n");
#endif

static int system_call(int number, const void *argument) { /* of the emulator: semihosting */
  register int r0 __asm__("r0") = number;
  register const void *r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

int main(void) {
  static float x[48];
  tiny *net;
  uint32_t seed = 1;
  char digits[66];
#ifdef DRAWN
  int code = tiny_begin(&net, memory);
  if (!code) code = tiny_initialise(net, 1);
#else
  int code = tiny_open_bytes(&net, states, (size_t)(states_end - states), memory);
#endif
  for (int step = 0; code == 0 && step < 20; step++) {
    for (int i = 0; i < 48; i++) {
      seed = seed * 1664525u + 1013904223u;
      x[i] = (float)(seed >> 8) / 16777216;
    }
    code = tiny_train(net, x, NULL, NULL);
  }
  tiny_state_sha256(net, digits);
  system_call(4, code ? tiny_error(net) : digits); /* SYS_WRITE0 */
  return code;
}

extern unsigned char data_start[], data_end[], data_from[], bss_start[], bss_end[], stack[];

void reset(void) {
  *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20; /* the floating point unit is on */
  memcpy(data_start, data_from, (size_t)(data_end - data_start));
  memset(bss_start, 0, (size_t)(bss_end - bss_start));
  main();
  system_call(0x18, (void *)0x20026); /* SYS_EXIT */
}

void fault(void) { system_call(4, "fault"), system_call(0x18, (void *)0x20026); }

__attribute__((section(".vectors"), used)) static void *const vectors[] = {
    stack, reset, fault, fault, fault, fault, fault};
"""


def autoencoder(path):
    """Write an autoencoder 48-24-12-24-48 that SGD trains row by row."""
    program = Program("tiny", seed=1)
    x = program.input("x", "float32", ("batch", 48))
    h = x
    for name, width in (("a", 24), ("b", 12), ("c", 24)):
        h = ops.relu(layers.dense(h, name, width))
    y = layers.dense(h, "d", 48)
    program.minimize(ops.mean(ops.square(y - x)), sgd(rate=0.05))
    program.outputs(error=ops.mean(ops.square(y - x), axis=1))
    program.compile(batch=1).save(path)
    return path


def hash_of_steps(path):
    """Return the hash after the steps of the host."""
    run = prograd.load(path, engine="native.avx2", threads=1)
    step, seed = run.stepper("train"), 1
    for _ in range(20):
        row = []
        for _ in range(48):
            seed = (seed * 1664525 + 1013904223) % 2**32
            row.append((seed >> 8) / 16777216)
        step(np.array([row], np.float32))
    return run.states.sha256()


@pytest.mark.parametrize(
    ("target", "cpu", "fpu", "board"),
    [
        ("cortex-m7", "cortex-m7", "fpv5-d16", "mps2-an500"),
        ("cortex-m4", "cortex-m4", "fpv4-sp-d16", "mps2-an386"),
    ],
)
@pytest.mark.parametrize("draws", [True, False])
def test_a_board_ends_with_the_hash_of_a_workstation(tmp_path, target, cpu, fpu, board, draws):
    """A board that draws the initial values has no file of them in its flash."""
    path = autoencoder(tmp_path / "tiny.pb")
    options = ("--target", target, "--entry", "train", "--entry", "predict", "--rows", "1")
    folder = built(path, tmp_path / "out", *options)
    (folder / "host.c").write_text(HOST)
    (folder / "board.ld").write_text(LINKING)
    flags = [f"-mcpu={cpu}", f"-mfpu={fpu}", "-mfloat-abi=softfp", "-mthumb", "-Os", "-DPROGRAD_NO_FILES", "-I."]
    flags += ["-ffunction-sections", "-Wl,--gc-sections", "-nostartfiles", "-Tboard.ld", "--specs=nano.specs"]
    sources = [*SOURCES, *(["-DDRAWN"] if draws else [])]
    linked = ["host.c", *sources, "-L.", "-ltiny", "-lm", "-o", "host.elf"]
    subprocess.run([CC, *flags, *linked], cwd=folder, check=True)
    emulator = ["qemu-system-arm", "-M", board, "-nographic", "-semihosting", "-kernel", "host.elf"]
    done = subprocess.run(emulator, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert hash_of_steps(path) in done.stdout + done.stderr
    sizes = subprocess.run(["arm-none-eabi-size", "host.elf"], cwd=folder, capture_output=True, text=True, check=True)
    text, data, bss, *_ = map(int, sizes.stdout.splitlines()[1].split()[:4])
    assert text + data < (20 if draws else 31) << 10
    assert data + bss < 20 << 10
