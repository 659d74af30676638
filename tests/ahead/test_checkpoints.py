"""Checkpoints of a run in C: the runtime goes on from them, and C from those of the runtime; one hash at the end."""

# pyright: basic

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ahead.hosts import Net, built, needs_cc
from ahead.runs import Checkpoints, classifier, rows_of_program, run_in_c

import prograd

pytestmark = needs_cc
ROOT = Path(__file__).parents[2]
RUN = {"epochs": 6, "evaluate": "test", "keep_best": "loss", "stop_after": 4}
NO_FILE, DAMAGED, OTHER_PROGRAM, NO_ROWS = 3, 4, 5, 8


def python(path, checkpoint=None, epochs=None, resume=None, **options):
    """Make a run with Python, and return it."""
    run = prograd.load(path, engine="native.avx2", threads=1)
    if resume is not None:
        run.resume(resume)
    run.train(epochs=epochs, checkpoint=checkpoint, **options)
    return run


def in_c(path, folder, epochs=0, checkpoints=None, code=0, out="out"):
    """Make a run in C; return the instance."""
    net = Net(path, path.parent / out, "--cpu", "avx2")
    kept = Checkpoints(str(folder).encode(), **{"resumes": 1, **(checkpoints or {})})
    found, heard = run_in_c(net, *rows_of_program(net.run, path.parent), epochs, kept)
    assert found == code, net.error
    net.damaged, net.heard = kept.damaged, heard
    return net


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = classifier(tmp_path_factory.mktemp("run"), **RUN)
    built(path, path.parent / "out", "--cpu", "avx2")
    return path


@pytest.fixture(scope="module")
def whole(path):
    """The hash of the run that nothing interrupts."""
    return python(path).states.sha256()


@pytest.mark.thorough
def test_a_checkpoint_of_c_has_the_bytes_of_one_of_python(path, tmp_path):
    python(path, tmp_path / "python", keep=100)
    in_c(path, tmp_path / "c", checkpoints={"keep": 100})
    assert len(names(tmp_path / "python")) > 3
    assert names(tmp_path / "c") == names(tmp_path / "python")
    for name in names(tmp_path / "python"):
        assert (tmp_path / "c" / name).read_bytes() == (tmp_path / "python" / name).read_bytes(), name


def test_python_c_and_python_again_end_with_the_hash_of_one_run(path, whole, tmp_path):
    folder = tmp_path / "kept"

    def stop(event):
        if event.step == 9:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        python(path, folder, every=5, callbacks=[stop])
    assert names(folder) == ["step-0000000005.safetensors"]
    script = f"""
import os, signal
from pathlib import Path
from ahead import runs, test_checkpoints
def kill(report):
    if report.step >= 21:
        os.kill(os.getpid(), signal.SIGKILL)
runs.heard_by.append(kill)
test_checkpoints.in_c(Path({str(path)!r}), {str(folder)!r}, checkpoints={{"every": 5}})
"""
    done = subprocess.run([sys.executable, "-c", script], env={"PYTHONPATH": f"{ROOT / 'tests'}:{ROOT}"}, check=False)
    assert done.returncode == -9
    assert names(folder)[-1] == "step-0000000020.safetensors"
    assert python(path, folder, resume=folder, every=5).states.sha256() == whole


def test_c_goes_on_from_every_checkpoint_of_python(path, whole, tmp_path):
    python(path, tmp_path / "python", every=4, keep=100)
    for number, checkpoint in enumerate(sorted((tmp_path / "python").iterdir())):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / checkpoint.name).write_bytes(checkpoint.read_bytes())
        assert in_c(path, folder).sha256() == whole, checkpoint.name


def test_the_newest_are_kept(path, tmp_path):
    in_c(path, tmp_path / "kept", epochs=3, checkpoints={"every": 2, "keep": 2})
    assert names(tmp_path / "kept") == ["step-0000000020.safetensors", "step-0000000021.safetensors"]


def test_a_folder_with_a_run_is_refused_unless_it_goes_on(path, tmp_path):
    in_c(path, tmp_path / "kept", epochs=1)
    net = in_c(path, tmp_path / "kept", epochs=1, checkpoints={"resumes": 0}, code=NO_FILE)
    assert net.error == (f"{tmp_path / 'kept'}: there are checkpoints already; go on from them, or name another folder")


def test_a_full_disk_leaves_the_old_checkpoint(path, whole, tmp_path):
    folder = tmp_path / "kept"
    python(path, folder, every=7)
    for name in names(folder)[1:]:
        (folder / name).unlink()
    [old] = folder.iterdir()
    before = old.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        net = in_c(path, folder, code=NO_FILE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert net.error.endswith(".safetensors: cannot be written")
    assert names(folder) == [old.name]
    assert old.read_bytes() == before
    assert in_c(path, folder).sha256() == whole


def test_damaged_checkpoints_are_put_aside(path, whole, tmp_path):
    folder = tmp_path / "kept"
    python(path, folder, every=7)
    newest = sorted(folder.iterdir())[-1]
    content = bytearray(newest.read_bytes())
    content[-1] ^= 1
    newest.write_bytes(content)
    net = in_c(path, folder)
    assert net.damaged == 1
    assert net.sha256() == whole
    assert f"{newest.name}.damaged" in names(folder)
    for file in folder.glob("*.safetensors"):
        file.write_bytes(file.read_bytes()[:-3])
    net = in_c(path, folder, code=DAMAGED)
    assert net.error == f"{folder}: all checkpoints are damaged"


def test_any_damage_of_a_checkpoint_is_found(path, tmp_path):
    folder = tmp_path / "kept"
    python(path, folder, epochs=2)
    newest = sorted(folder.iterdir())[-1]
    content = newest.read_bytes()
    rng = np.random.default_rng(0)
    start = 8 + int.from_bytes(content[:8], "little")
    net = Net(path, path.parent / "out")
    before = net.sha256()
    places = [*rng.integers(8, start, 60).tolist(), *rng.integers(0, len(content), 20).tolist()]
    for at in places:
        for file in folder.iterdir():
            file.unlink()
        changed = bytearray(content)
        changed[at] ^= int(rng.integers(1, 256))
        newest.write_bytes(changed)
        kept = Checkpoints(str(folder).encode(), resumes=1)
        code, _ = run_in_c(net, *rows_of_program(net.run, path.parent), 2, kept)
        if code:
            assert code in (DAMAGED, OTHER_PROGRAM), net.error
            assert net.sha256() == before, at
        else:  # a blank of the header, or a name that nobody reads
            assert at < start
            net = Net(path, path.parent / "out")
            before = net.sha256()


def test_checkpoints_of_another_run_are_refused(path, tmp_path):
    folder = tmp_path / "kept"
    other = classifier(tmp_path, hidden=16, **RUN)
    python(other, folder, epochs=1)
    [file] = folder.iterdir()
    assert in_c(path, folder, code=OTHER_PROGRAM).error == f"{file}: the checkpoint is of another program"
    file.unlink()
    python(path, folder, epochs=1, change_data=True)
    net = Net(path, path.parent / "out")
    train, evaluated = rows_of_program(net.run, path.parent)
    train.kept[2][0][:] += 1
    code, _ = run_in_c(net, train, evaluated, 0, Checkpoints(str(folder).encode(), resumes=1))
    assert (code, net.error) == (NO_ROWS, f"{sorted(folder.iterdir())[-1]}: the run began with other rows than these")


def test_a_run_that_goes_on_keeps_its_length(path, tmp_path):
    folder = tmp_path / "kept"
    python(path, folder, epochs=1)
    net = in_c(path, folder, epochs=2, code=2)
    assert net.error == "the run began with 7 steps in all, this would be 14, which changes schedules"
    assert in_c(path, folder).heard == []  # it is at its end


def test_one_process_at_a_time_writes_into_a_folder(path, tmp_path):
    folder = tmp_path / "kept"
    folder.mkdir()
    script = (
        "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX); print(flush=True); input()"
    )
    command = [sys.executable, "-c", script, str(folder / ".prograd-lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        net = in_c(path, folder, code=NO_FILE)
        process.communicate(b"\n")
    assert net.error == f"{folder}: another process writes checkpoints here"
