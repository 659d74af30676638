"""Files of states in both directions, and the sentences of a library and of the build."""

# pyright: basic

import subprocess
from pathlib import Path

import numpy as np
import pytest
from ahead.hosts import CC, Net, built, needs_cc
from ahead.test_same_bits import feeds_of, network, random_feeds
from safetensors.numpy import save_file

import prograd
from compiler.commands import run_command
from prograd import Program, layers, momentum, ops

EXAMPLES = Path(__file__).parents[2] / "examples"
OK, REFUSED, NO_LENGTH, NO_FILE, DAMAGED, OTHER_PROGRAM, NO_STATE, NO_THREADS = range(8)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return network(tmp_path_factory.mktemp("program") / "network.pb")


@pytest.fixture(scope="module")
def folder(path):
    return built(path, path.parent / "built", "--cpu", "avx2")


@pytest.fixture
def net(path, folder):
    return Net(path, folder)


@pytest.mark.thorough
@needs_cc
def test_python_reads_the_states_that_c_saved_and_c_those_of_python(path, net, tmp_path):
    rng = np.random.default_rng(2)
    for _ in range(3):
        net.step("train", feeds_of(rng))
    net.must("save", str(tmp_path / "c.safetensors").encode())
    run = prograd.load(path, engine="native.avx2", threads=1)
    run.load(tmp_path / "c.safetensors")
    assert np.asarray(run.state["first.w"]).tobytes() == net.state("first.w")
    run.train(data=feeds_of(rng, 64), epochs=1)
    run.save(tmp_path / "python.safetensors")
    net.must("load", str(tmp_path / "python.safetensors").encode())
    assert net.sha256() == run.states.sha256()


@pytest.mark.thorough
@needs_cc
def test_a_library_begins_with_the_weights_of_a_saved_run(path, tmp_path):
    run = prograd.load(path, engine="native.avx2", threads=1)
    run.train(data=feeds_of(np.random.default_rng(2), 64), epochs=1)
    run.save(tmp_path / "trained.safetensors")
    net = Net(path, tmp_path / "out", "--cpu", "avx2", "--load", str(tmp_path / "trained.safetensors"))
    for name in ("first.w", "third.b"):
        assert net.state(name) == np.asarray(run.state[name]).tobytes()
    assert net.state("step") == bytes(8)


@needs_cc
def test_a_file_in_memory_is_read_as_one_on_the_disk(net, tmp_path):
    net.step("train", feeds_of(np.random.default_rng(2)))
    before = net.sha256()
    net.must("save", str(tmp_path / "s.safetensors").encode())
    content = (tmp_path / "s.safetensors").read_bytes()
    net.step("train", feeds_of(np.random.default_rng(3)))
    import ctypes

    net.must("load_bytes", content, ctypes.c_size_t(len(content)))
    assert net.sha256() == before


@needs_cc
def test_damaged_files_leave_the_states_as_they_were(net, tmp_path):
    whole = tmp_path / "whole.safetensors"
    net.must("save", str(whole).encode())
    content, before, wrong = whole.read_bytes(), net.sha256(), tmp_path / "wrong.safetensors"
    start = 8 + int.from_bytes(content[:8], "little")
    rng = np.random.default_rng(0)
    for cut in [0, 1, 7, 8, 9, 100, start - 1, start, len(content) - 1, *rng.integers(0, len(content), 40).tolist()]:
        wrong.write_bytes(content[:cut])
        assert net.code("load", str(wrong).encode()) == DAMAGED
        assert net.error == f"{wrong}: cut short, or no file of tensors"
        assert net.sha256() == before
    for at in rng.integers(0, start, 400).tolist():
        changed = bytearray(content)
        changed[at] = int(rng.integers(0, 256))
        wrong.write_bytes(changed)
        if net.code("load", str(wrong).encode()) != OK:
            assert net.error
            assert net.sha256() == before, at
    net.must("load", str(whole).encode())
    assert net.sha256() == before


@needs_cc
def test_states_of_another_program_are_refused(net, tmp_path):
    program = Program("other", seed=3)
    x = program.input("x", "float32", ("batch", 40))
    program.minimize(ops.mean(ops.square(layers.dense(x, "first", 8))), momentum(rate=0.05))
    program.compile(batch=32).save(tmp_path / "other.pb")
    run = prograd.load(tmp_path / "other.pb", engine="reference", threads=1)
    run.train(data={"x": np.ones((32, 40), np.float32)}, epochs=1)
    run.save(tmp_path / "other.safetensors")
    before = net.sha256()
    assert net.code("load", str(tmp_path / "other.safetensors").encode()) == OTHER_PROGRAM
    assert net.error == "first.b has another type or shape in the file than in the program"
    assert net.sha256() == before


@needs_cc
def test_a_tensor_that_is_no_state_is_named(net, tmp_path):
    save_file({"second.v": np.zeros(4, np.float32)}, tmp_path / "v.safetensors")
    assert net.code("load", str(tmp_path / "v.safetensors").encode()) == OTHER_PROGRAM
    assert net.error == "second.v is in the file and is no state of the program"


@needs_cc
def test_every_fault_has_its_number_and_its_sentence(net, tmp_path):
    rng = np.random.default_rng(0)
    assert net.code("load", b"/nowhere/s.safetensors") == NO_FILE
    assert net.error == "/nowhere/s.safetensors: cannot be opened"
    assert net.code("save", b"/nowhere/s.safetensors") == NO_FILE
    assert net.error == "/nowhere/s.safetensors: cannot be written"
    assert net.code("set", b"rate", b"12345678", 8) == NO_STATE
    assert net.error == "rate is no state of the program"
    assert net.code("set", b"seed", b"1234", 4) == NO_STATE
    assert net.error == "seed has another number of bytes"
    feeds = feeds_of(rng)
    feeds["label"][7] = 10
    for wrong in (10, -3, 2**31 - 1):
        feeds["label"][9] = wrong
        assert net.tried("train", feeds)[0] == REFUSED
        assert net.error == sentence_of_python(net.run, feeds)
    assert net.tried("train", feeds_of(rng))[0] == OK  # nothing is stuck


def sentence_of_python(run, feeds):
    """Return the sentence of Python for feeds that have a number out of range."""
    with pytest.raises(prograd.ExecutionError) as caught:
        run.stepper("train")(*(feeds[name] for name in run.entries["train"].feeds))
    return str(caught.value)


@pytest.mark.thorough
@needs_cc
def test_a_schedule_needs_the_length_of_the_run(tmp_path):
    net = Net(EXAMPLES / "digits_mlp.pb", tmp_path / "out", "--cpu", "avx2")
    feeds = random_feeds(net.run, "train", np.random.default_rng(0))
    assert net.tried("train", feeds)[0] == NO_LENGTH
    assert net.error == "train reads total_steps, the steps of the whole run; set it before the first"


@needs_cc
def test_a_full_disk_leaves_the_old_file(net, tmp_path):
    target = tmp_path / "s.safetensors"
    net.must("save", str(target).encode())
    old = target.read_bytes()
    net.step("train", feeds_of(np.random.default_rng(0)))
    (tmp_path / "s.safetensors.new").symlink_to("/dev/full")
    assert net.code("save", str(target).encode()) == NO_FILE
    assert net.error == f"{target}: cannot be written"
    assert target.read_bytes() == old


@pytest.mark.thorough
@needs_cc
def test_truth_values_are_0_or_1(tmp_path):
    program = Program("masked", seed=3)
    x = program.input("x", "float32", ("batch", 40))
    mask = program.input("mask", "bool", ("batch", 40))
    program.outputs(y=ops.sum(ops.where(mask, x, x * 0.5), axis=1))
    program.compile(batch=32).save(tmp_path / "masked.pb")
    net = Net(tmp_path / "masked.pb", tmp_path / "out", "--cpu", "avx2")
    feeds = {"x": np.ones((32, 40), np.float32), "mask": np.ones((32, 40), np.uint8)}
    assert net.step("predict", feeds)["y"].tolist() == [40.0] * 32
    feeds["mask"][3, 3] = 2
    assert net.tried("predict", feeds)[0] == REFUSED
    assert net.error == "mask has a byte that is neither 0 nor 1, and its elements are bool"


@pytest.mark.thorough
@needs_cc
def test_more_threads_than_were_built_are_refused(path, tmp_path):
    net = Net(path, tmp_path / "out", "--cpu", "avx2", "--threads", "2")
    assert net.code("threads", 3) == NO_THREADS
    assert net.error == "network: the library was not built for that number of threads"


@needs_cc
def test_the_headers_are_c99_and_c17(folder):
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I."]
    for source in [*(path.name for path in folder.glob("prograd*.c")), "example.c"]:
        subprocess.run([CC, "-std=c99", *strict, source], cwd=folder, check=True)
    if subprocess.run(["c++", "--version"], capture_output=True, check=False).returncode == 0:
        for header in ("network.h", "prograd.h", "prograd_tables.h"):
            subprocess.run(["c++", "-std=c++17", "-x", "c++", *strict, header], cwd=folder, check=True)


@pytest.mark.thorough
@needs_cc
def test_names_of_the_program_and_of_the_example_are_no_names_of_parameters(tmp_path):
    program = Program("sharpness", seed=3)
    steps, self = program.input("steps", "float32", ("batch", 4)), program.input("self", "float32", ("batch", 4))
    program.outputs(sharpness=ops.sum(steps * self, axis=1), seed=ops.sum(self))
    program.compile(batch=2).save(tmp_path / "sharpness.pb")
    folder = built(tmp_path / "sharpness.pb", tmp_path / "out", "--cpu", "avx2")
    subprocess.run([CC, "-Wall", "-Werror", "-fsyntax-only", "-I.", "example.c"], cwd=folder, check=True)


def refused(capsys, *options):
    """Return the sentence with which the build refuses."""
    assert run_command(["build", *map(str, options)]) != 0
    return capsys.readouterr().err.strip()


def test_the_build_says_what_it_cannot_do(path, tmp_path, capsys):
    out = tmp_path / "out"
    assert refused(capsys, path, "-o", out, "--target", "vax") == (
        "compiler: --target vax: no such machine; there are x86_64-linux, aarch64-linux, aarch64-android, "
        "riscv64-linux, armv7-linux, cortex-m7, cortex-m4, wasm32"
    )
    assert refused(capsys, path, "-o", out, "--target", "aarch64-linux", "--cpu", "avx2") == (
        "compiler: --cpu avx2: aarch64-linux has neon, neon_dotprod"
    )
    assert refused(capsys, path, "-o", out, "--target", "x86_64-linux", "--cpu", "avx2,sse2") == (
        "compiler: --cpu: sets with and without a fused multiply-add have different bits; build two libraries"
    )
    assert refused(capsys, path, "-o", out, "--target", "armv7-linux", "--threads", "2") == (
        "compiler: --threads 2: a library for armv7-linux has one thread"
    )
    assert refused(capsys, path, "-o", out, "--rows", "5") == (
        "compiler: entry 'train' has steps of 32 rows, and none of 5; compile the program for them, as in "
        "compiler compile --batch"
    )
    assert refused(capsys, path, "-o", out, "--entry", "trian").startswith(
        "compiler: there is no entry 'trian'; did you mean 'train'"
    )
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    assert refused(capsys, path, "-o", out) == f"compiler: {out}: the folder is not empty; --force writes into it"
    assert refused(capsys, path, "-o", out / "mine.txt", "--force") == (
        f"compiler: {out / 'mine.txt'}: it is a file; -o names a folder"
    )


def test_an_op_that_only_numpy_computes_is_refused_by_name(tmp_path, capsys):
    program = Program("decomposed", seed=3)
    x = program.input("x", "float32", (8, 8))
    program.outputs(y=ops.cholesky(x))
    program.compile().save(tmp_path / "decomposed.pb")
    assert refused(capsys, tmp_path / "decomposed.pb", "-o", tmp_path / "out") == (
        "compiler: entry 'predict' has ops that only NumPy computes, so no library can: cholesky; build other entries "
        "by --entry, or take them out of the program"
    )


def test_a_library_needs_a_name_of_its_own(path, tmp_path, capsys):
    (tmp_path / "prograd.pb").write_bytes(path.read_bytes())
    assert refused(capsys, tmp_path / "prograd.pb", "-o", tmp_path / "out") == (
        "compiler: a library cannot be called prograd, as its runtime is; give the program's file another name"
    )
