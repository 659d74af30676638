"""Only regular files are read: a pipe, device, folder or loop of links is a sentence, for every reader."""

import ast
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from mutations import limited
from subjects.sources import tree_of

from compiler import Program, from_file, ops, optimizers
from compiler.__main__ import main as compile_
from prograd_proto.regular_files import open_regular
from runtime.__main__ import main as run
from runtime.files.tensor_files import write_safetensors

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has no such files in its folders")

LOOP = "Too many levels of symbolic links"
KINDS = {
    "pipe": (os.mkfifo, "this is not a regular file"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "this is not a regular file"),
    "folder": (Path.mkdir, "this is a folder, not a file"),
    "loop": (lambda path: path.symlink_to(path.name), LOOP),
}

each_kind = pytest.mark.parametrize("kind", KINDS)


def in_place_of(path: Path, kind: str) -> str:
    """Put what is no regular file at a path; what is said of it."""
    make, words = KINDS[kind]
    path.unlink(missing_ok=True)
    make(path)
    return words


@pytest.fixture(scope="session")
def compiled(tmp_path_factory) -> Path:
    """A folder with a program that reads a data file and a file of initial values."""
    folder = tmp_path_factory.mktemp("compiled")
    x, y = np.zeros((4, 2), np.float32), np.zeros(4, np.float32)
    write_safetensors(folder / "d.safetensors", {"x": x, "y": y}, {}, force=True)
    write_safetensors(folder / "i.safetensors", {"w": np.zeros(2, np.float32)}, {}, force=True)
    program = Program("small")
    x, y = program.input("x", "float32", ("batch", 2)), program.input("y", "float32", ("batch",))
    w = program.parameter("w", (2,), from_file("i.safetensors"))
    program.minimize(ops.mean(ops.square(ops.sum(x * w, axis=(1,)) - y)), optimizers.sgd(0.1))
    program.data("d.safetensors", shuffle=False, remainder="drop")
    program.compile(batch=2).save(folder / "p.pb", force=True)
    return folder


@pytest.fixture
def folder(compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(compiled, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def outcome(capsys, *command: str) -> tuple[int, str]:
    """The code and the last line of stderr of a command, which has a minute: one that reads a pipe waits for ever."""
    with limited(60):
        code = {"runtime": run, "compiler": compile_}[command[0]](command[1:])
    return code, capsys.readouterr().err.splitlines()[-1]


@each_kind
def test_nothing_but_a_regular_file_is_opened(kind: str, tmp_path: Path):
    words = in_place_of(tmp_path / "f", kind)
    with pytest.raises(OSError, match=words):
        open_regular(tmp_path / "f")


def test_a_link_to_a_regular_file_is_opened(tmp_path: Path):
    (tmp_path / "f").write_bytes(b"bytes")
    (tmp_path / "link").symlink_to("f")
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"bytes"


@pytest.mark.sampled(6)
@each_kind
@pytest.mark.parametrize("command", ["runtime check", "runtime execute", "compiler check", "compiler show"])
def test_a_program_is_a_regular_file(kind: str, command: str, folder: Path, capsys):
    words = in_place_of(folder / "p.pb", kind)
    name = command.partition(" ")[0]
    assert outcome(capsys, *command.split(), "p.pb") == (3, f"{name}: p.pb: the file cannot be read: {words}")


@pytest.mark.sampled(6)
@each_kind
@pytest.mark.parametrize("verb", ["check", "execute"])
@pytest.mark.parametrize("file", ["d.safetensors", "i.safetensors"])
def test_a_file_beside_a_program_is_regular(kind: str, verb: str, file: str, folder: Path, capsys):
    words = in_place_of(folder / file, kind)
    code, said = outcome(capsys, "runtime", verb, "p.pb")
    outside = f"runtime: {file}: the file leads out of the program's folder, to /dev/zero"
    expected = outside if kind == "device" else f"runtime: {file}: the program's file cannot be read: {words}"
    assert (code, said) == (4, expected)


OPTIONS = {
    "data.safetensors": ("safetensors", "--data=data.safetensors"),
    "data.npz": ("npz", "--data=data.npz"),
    "x.npy": ("npy", "--feed=x=@x.npy"),
    "want.npy": ("npy", "--expect=loss=@want.npy"),
    "s.safetensors": ("safetensors", "--load=s.safetensors"),
}


@each_kind
@pytest.mark.parametrize("file", OPTIONS)
def test_a_file_that_an_option_names_is_regular(kind: str, file: str, folder: Path, capsys):
    form, option = OPTIONS[file]
    words = in_place_of(folder / file, kind)
    expected = f"this cannot be read as a {form} file: {words}"
    if (kind, option.split("=")[0]) == ("folder", "--data"):
        expected = f"this is a folder; name the files of rows in it, as in '{file}/part-*.safetensors'"
    assert run(["execute", "p.pb", "-q", option]) == 4
    assert capsys.readouterr().err == f"runtime: {file}: {expected}\n"


@each_kind
def test_a_text_form_is_regular(kind: str, folder: Path, capsys):
    words = in_place_of(folder / "p.txt", kind)
    assert compile_(["compile", "p.txt"]) == 3
    assert capsys.readouterr().err == f"compiler: p.txt: the file cannot be read: {words}\n"


@each_kind
def test_a_record_and_the_metrics_beside_it_are_regular(kind: str, folder: Path, capsys):
    command = ["execute", "p.pb", "-q", "--record", "r.json", "--metrics", "m.csv"]
    assert run(command) == 0
    capsys.readouterr()
    words = in_place_of(folder / "m.csv", kind)
    assert outcome(capsys, "runtime", "replay", "p.pb", "-q", "--record", "r.json", "--expect-metrics", "m.csv")[
        1
    ].endswith(words)
    words = in_place_of(folder / "r.json", kind)
    assert outcome(capsys, "runtime", "replay", "p.pb", "-q", "--record", "r.json") == (
        4, f"runtime: r.json: the record cannot be read: {words}"
    )  # fmt: skip


@pytest.mark.sampled(2)
@each_kind
def test_a_token_a_log_of_requests_and_runs_of_a_sweep_are_regular(kind: str, folder: Path, capsys):
    pytest.importorskip("aiohttp")
    words = in_place_of(folder / "f", kind)
    for option, said in (
        ("--token-file", "the token cannot be read"),
        ("--access-log", "the log cannot be written"),
    ):
        code, err = outcome(capsys, "runtime", "serve", "p.pb", "--port", "0", "--entry", "evaluate", option, "f")
        assert (code, err) == (2, f"runtime: {option} f: {said}: {words}")
    if kind == "folder":
        assert run(["sweep", "p.pb", "--merge", "f"]) == 4
        assert capsys.readouterr().err == "runtime: there is no run in these files\n"
        return
    code, err = outcome(capsys, "runtime", "sweep", "p.pb", "--merge", "f")
    assert (code, err) == (4, f"runtime: f: the file cannot be read: {words}")


@each_kind
def test_an_onnx_file_and_its_data_are_regular(kind: str, tmp_path: Path, monkeypatch, capsys):
    onnx = pytest.importorskip("onnx")
    monkeypatch.chdir(tmp_path)
    words = in_place_of(tmp_path / "m.onnx", kind)
    code, err = outcome(capsys, "compiler", "import", "onnx", "m.onnx", "-o", "m.pb")
    assert (code, err) == (3, f"compiler: m.onnx: the file cannot be read: {words}")
    (tmp_path / "m.onnx").rmdir() if kind == "folder" else (tmp_path / "m.onnx").unlink()
    helper = onnx.helper
    weight = onnx.numpy_helper.from_array(np.zeros((64, 64), np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    float_, value = onnx.TensorProto.FLOAT, helper.make_tensor_value_info
    graph = helper.make_graph([node], "g", [value("x", float_, [1, 64])], [value("y", float_, [1, 64])], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save_model(model, "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    in_place_of(tmp_path / "w.bin", kind)
    code, err = outcome(capsys, "compiler", "import", "onnx", "m.onnx", "-o", "m.pb")
    why = "which is not a file within the folder of the model" if kind == "device" else "and there is no such file"
    assert (code, err) == (3, f"compiler: m.onnx: the tensor 'w' is in 'w.bin', {why}")


@each_kind
def test_an_array_to_compare_a_model_with_is_regular(kind: str, folder: Path, capsys):
    words = in_place_of(folder / "x.npy", kind)
    command = ("compiler", "compare", "p.pb", "p.pb", "--entry", "evaluate", "--feed", "x=@x.npy")
    code, err = outcome(capsys, *command)
    assert (code, err) == (4, f"compiler: --feed x=@x.npy: the file cannot be read: {words}")


PLAIN = {
    "compiler/commands/imports/process_limits.py": "files of the kernel",
    "runtime/rows/tables/image_files.py": "Pillow opens what open_regular has opened",
    "proto/prograd_proto/atomic.py": "a new file under a name of its own",
    "proto/prograd_proto/regular_files.py": "the functions that everything else uses",
    "proto/prograd_proto/wording.py": "the record of an installed package",
    "runtime/ahead/browser.py": "files of the package, and those that its linker writes",
    "runtime/ahead/folder.py": "files of the package",
    "runtime/command_line/streams.py": "the null device",
    "runtime/commands/execute.py": "methods of metrics files",
    "runtime/commands/parts/cluster.py": "files that this process has written into a folder of its own",
    "runtime/commands/ranks.py": "the null device",
    "runtime/commands/reports/metrics_file.py": "a file that is made here, or was read by this class before",
    "runtime/commands/sandbox.py": "files of the kernel",
    "runtime/engines/native/amx.py": "files of the kernel",
    "runtime/engines/native/cache/folder.py": "files of the cache, opened without waiting and examined",
    "runtime/engines/native/cache/key.py": "files of installed packages",
    "runtime/engines/native/cpu.py": "files of the kernel",
    "runtime/engines/native/release_memory.py": "files of the kernel",
    "runtime/files/tensor_files.py": "members of an archive that open_regular has opened",
    "runtime/memory/first_touch.py": "files of the kernel",
    "runtime/memory/limit.py": "files of the kernel",
    "runtime/runs/checkpoints/folder_lock.py": "a lock, opened without waiting and examined",
    "runtime/runs/machine.py": "files of the kernel",
    "runtime/sinks/logger.py": "methods of sinks",
    "runtime/sinks/opened.py": "methods of sinks",
    "runtime/usable_cores.py": "files of the kernel",
    "prograd/data.py": "sample rows of the package, and a copy of them",
}
"""Files that may open files by other functions, with the reason."""

OPENING = {"open", "read_text", "read_bytes", "fromfile", "memmap"}


@pytest.mark.rule
def test_every_input_is_opened_by_one_function():
    root = Path(__file__).parents[2]
    found: set[str] = set()
    for package in ("compiler", "prograd", "proto", "registry", "runtime"):
        for path in (root / package).rglob("*.py"):
            if not re.search(rf"\b({'|'.join(OPENING)})\b", path.read_text(encoding="utf-8")):
                continue
            calls = [node.func for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
            names = [getattr(function, "attr", getattr(function, "id", "")) for function in calls]
            if OPENING.intersection(names):
                found.add(path.relative_to(root).as_posix())
    assert found == set(PLAIN)
