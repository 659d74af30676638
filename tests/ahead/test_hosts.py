"""Hosts in C, Fortran and Rust, and on emulated processors: each ends with the hash of the run in Python."""

# pyright: basic

import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from ahead.hosts import built, compiled, needs_cc

import prograd
from compiler.commands import run_command
from runtime.ahead.texts import SOURCES

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits_mlp.pb"


def noise(seed):
    """Yield the numbers of example.c."""
    while True:
        seed = (seed * 1664525 + 1013904223) % 2**32
        yield seed >> 8


def hash_of_example(engine):
    """Return the hash after the twenty steps of example.c for digits_mlp."""
    run = prograd.load(DIGITS, engine=engine, threads=1)
    run.state["total_steps"] = 20
    numbers = noise(1)
    step = run.stepper("train")
    for _ in range(20):
        image = np.array([next(numbers) & 1 for _ in range(32 * 64)], np.uint8).reshape(32, 8, 8, 1)
        step(image, np.array([next(numbers) & 1 for _ in range(32)], np.int64))
    return run.states.sha256()


@needs_cc
def test_the_commands_of_the_page_about_libraries_ahead_build_a_host_that_ends_with_the_hash_of_python(
    tmp_path, monkeypatch, capsys
):
    page = (ROOT / "docs" / "ahead.md").read_text()
    build, cc = [line[6:] for line in page.splitlines() if line.startswith("    $ ")][:2]
    monkeypatch.chdir(tmp_path)
    shutil.copy(DIGITS, tmp_path)
    assert run_command(shlex.split(build)[1:]) == 0
    said = subprocess.run(cc, shell=True, capture_output=True, text=True, check=True).stdout
    lines, expected = said.splitlines(), page.partition(cc)[2].splitlines()[1:4]
    assert lines[0] == expected[0].strip()
    assert lines[-1].startswith(expected[2].strip().rstrip("…"))
    assert lines[-1] == f"OK trained.safetensors state_sha256={hash_of_example('native')}"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("target", "compiler", "emulator"),
    [
        ("aarch64-linux", "aarch64-linux-gnu-gcc", "qemu-aarch64"),
        ("riscv64-linux", "riscv64-linux-gnu-gcc", "qemu-riscv64"),
        ("armv7-linux", "arm-linux-gnueabihf-gcc", "qemu-arm"),
    ],
)
def test_other_processors_end_with_the_same_hash(tmp_path, target, compiler, emulator):
    if not shutil.which(compiler) or not shutil.which(emulator):
        pytest.skip(f"{compiler} or {emulator} is not installed")
    folder = built(DIGITS, tmp_path / "out", "--target", target)
    said = compiled(folder, "example.c", "-static", compiler=compiler, run=(emulator,))
    assert said.splitlines()[-1].endswith(hash_of_example("native.avx2"))


@pytest.mark.thorough
@pytest.mark.parametrize("architecture", ["aarch64", "riscv64"])
def test_threads_of_other_processors_end_with_the_same_hash(tmp_path, architecture):
    compiler, emulator = f"{architecture}-linux-gnu-gcc", f"qemu-{architecture}"
    if not shutil.which(compiler) or not shutil.which(emulator):
        pytest.skip(f"{compiler} or {emulator} is not installed")
    folder = built(DIGITS, tmp_path / "out", "--target", f"{architecture}-linux", "--threads", "3")
    text = (folder / "example.c").read_text()
    begin, end = "  for (int step = 0", "  char digits[65];"
    text = text.replace(begin, f"  if (code == 0) code = digits_mlp_threads(self, 3);\n{begin}")
    (folder / "shared.c").write_text(text.replace(end, f"  digits_mlp_threads(self, 1);\n{end}"))
    said = compiled(folder, "shared.c", "-static", compiler=compiler, run=(emulator,))
    assert said.splitlines()[-1].endswith(hash_of_example("native.avx2"))


@pytest.mark.thorough
@needs_cc
@pytest.mark.skipif(not shutil.which("qemu-x86_64"), reason="qemu-x86_64 is not installed")
def test_an_instance_takes_the_best_instructions_that_its_cpu_has(tmp_path):
    folder = built(DIGITS, tmp_path / "out", "--target", "x86_64-linux", "--cpu", "avx2,avx512")
    wanted = hash_of_example("native.avx2")
    assert compiled(folder, "example.c", "-static").splitlines()[-1].endswith(wanted)
    haswell = compiled(folder, "example.c", "-static", run=("qemu-x86_64", "-cpu", "Haswell"))
    assert haswell.splitlines()[-1].endswith(wanted)
    nehalem = ["qemu-x86_64", "-cpu", "Nehalem", "./host"]
    done = subprocess.run(nehalem, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    said = "digits_mlp: this CPU lacks the instructions that the library was built for"
    assert done.stderr.strip().splitlines()[-1] == said


FORTRAN = """
program host
  use digits_mlp
  implicit none
  integer(c_int8_t), allocatable, target :: memory(:)
  integer(c_int8_t) :: image(1, 8, 8, 32)
  integer(c_int64_t) :: label(32)
  integer(c_int64_t), target :: steps = 20
  real(c_float) :: loss
  character(kind=c_char) :: digits(65)
  type(c_ptr) :: net
  integer(c_int64_t) :: seed = 1
  integer :: step, i, j, k
  allocate(memory(digits_mlp_memory_bytes))
  call must(digits_mlp_open(net, "digits_mlp.states.safetensors" // c_null_char, c_loc(memory)))
  call must(digits_mlp_set(net, "total_steps" // c_null_char, c_loc(steps), 8_c_size_t))
  do step = 1, 20
    do k = 1, 32
      do j = 1, 8
        do i = 1, 8
          image(1, i, j, k) = int(bit(), c_int8_t)
        end do
      end do
    end do
    do k = 1, 32
      label(k) = bit()
    end do
    call must(digits_mlp_train(net, image, label, loss))
  end do
  call digits_mlp_state_sha256(net, digits)
  print "(64a1)", digits(1:64)
contains
  subroutine must(code)
    integer(c_int), intent(in) :: code
    if (code /= 0) error stop code
  end subroutine
  integer(c_int64_t) function bit()
    seed = iand(seed * 1664525_c_int64_t + 1013904223_c_int64_t, 4294967295_c_int64_t)
    bit = iand(shiftr(seed, 8), 1_c_int64_t)
  end function
end program
"""


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("gfortran"), reason="gfortran is not installed")
def test_a_host_in_fortran_ends_with_the_hash_of_python(tmp_path):
    folder = built(DIGITS, tmp_path / "out", "--cpu", "avx2")
    (folder / "host.f90").write_text(FORTRAN)
    subprocess.run(["cc", "-O2", "-c", *SOURCES], cwd=folder, check=True)
    objects = [source.replace(".c", ".o") for source in SOURCES]
    sources = ["digits_mlp.f90", "host.f90", *objects]
    subprocess.run(["gfortran", "-Wall", *sources, "-L.", "-ldigits_mlp", "-o", "host"], cwd=folder, check=True)
    said = subprocess.run(["./host"], cwd=folder, capture_output=True, text=True, check=True).stdout
    assert said.strip() == hash_of_example("native.avx2")


RUST = """
use digits_mlp::Net;

fn main() -> Result<(), String> {
    let mut net = Net::open("../digits_mlp.states.safetensors")?;
    net.set("total_steps", &[20i64])?;
    let mut seed = 1u32;
    let mut bit = || {
        seed = seed.wrapping_mul(1664525).wrapping_add(1013904223);
        (seed >> 8) & 1
    };
    for _ in 0..20 {
        let mut image = [0u8; 2048];
        image.iter_mut().for_each(|x| *x = bit() as u8);
        let mut label = [0i64; 32];
        label.iter_mut().for_each(|x| *x = bit() as i64);
        let mut loss = [0f32];
        net.train(&image, &label, Some(&mut loss), None, None, None)?;
    }
    println!("{}", net.state_sha256());
    Ok(())
}
"""


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("cargo"), reason="cargo is not installed")
def test_a_host_in_rust_ends_with_the_hash_of_python(tmp_path):
    folder = built(DIGITS, tmp_path / "out", "--cpu", "avx2") / "rust"
    (folder / "src" / "main.rs").write_text(RUST)
    done = subprocess.run(["cargo", "run", "-q", "--offline"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == hash_of_example("native.avx2")


@pytest.mark.thorough
@needs_cc
@pytest.mark.skipif(not shutil.which("cmake"), reason="cmake is not installed")
def test_cmake_builds_the_example(tmp_path):
    folder = built(DIGITS, tmp_path / "out", "--cpu", "avx2", "--threads", "2")
    subprocess.run(["cmake", "-S", ".", "-B", "b"], cwd=folder, capture_output=True, check=True)
    subprocess.run(["cmake", "--build", "b"], cwd=folder, capture_output=True, check=True)
    said = subprocess.run(["b/example"], cwd=folder, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert hash_of_example("native.avx2") in said.stdout


@pytest.mark.thorough
@needs_cc
def test_the_runtime_in_c_is_clean_under_sanitizers(tmp_path):
    folder = built(DIGITS, tmp_path / "out", "--cpu", "avx2")
    said = compiled(folder, "example.c", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")
    assert hash_of_example("native.avx2") in said
    sources = [path.name for path in folder.glob("prograd*.c")]
    subprocess.run(["cc", "-std=c99", "-O2", "-Werror", "-fanalyzer", "-c", *sources], cwd=folder, check=True)


@pytest.mark.thorough
@needs_cc
@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
def test_the_runtime_in_c_is_clean_under_valgrind(tmp_path):
    folder = built(DIGITS, tmp_path / "out", "--cpu", "sse2")  # valgrind 3.19 lacks an instruction of AVX
    checked = ("valgrind", "-q", "--leak-check=full", "--error-exitcode=9")
    assert hash_of_example("native.sse2") in compiled(folder, "example.c", "-g", run=checked)
