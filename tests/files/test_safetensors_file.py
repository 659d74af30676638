"""Our reader of safetensors beside the package's, on whole, cut and changed files, and on files that change."""

import io
import json
import random
from pathlib import Path

import numpy as np
import pytest
from safetensors import SafetensorError
from safetensors.numpy import load, save, save_file
from subjects.small_programs import linear, write_data
from subjects.small_programs import save as save_program

import runtime
from compiler import Program, from_file, ops, sgd
from runtime.errors import Damaged
from runtime.files import tensor_files
from runtime.files.file_reader import FileReader
from runtime.files.tensor_files import read_arrays, read_safetensors

ARRAYS = {
    "wide": np.arange(6, dtype=np.float64).reshape(2, 3),
    "none": np.zeros((0, 4), np.float32),
    "one": np.array(7, np.int64),
    "small": np.arange(5, dtype=np.uint8),
    "truth": np.array([True, False, True]),
    "half": np.arange(3, dtype=np.float16),
    "short": np.arange(3, dtype=np.int16),
}


def written(folder: Path, raw: bytes) -> Path:
    path = folder / "t.safetensors"
    path.write_bytes(raw)
    return path


def test_a_whole_file_is_read_as_the_package_reads_it(tmp_path):
    raw = save(ARRAYS, metadata={"a": "b", "ü": "\n"})
    tensors, metadata = read_safetensors(written(tmp_path, raw))
    assert metadata == {"a": "b", "ü": "\n"}
    assert tensors.keys() == ARRAYS.keys()
    for name, array in load(raw).items():
        assert (tensors[name].dtype, tensors[name].shape) == (array.dtype, array.shape)
        assert tensors[name].tobytes() == array.tobytes()


def test_every_cut_is_found_and_what_is_read_of_changed_files_is_what_the_package_reads(tmp_path):
    raw = save(ARRAYS)
    draw = random.Random(5)
    for trial in range(800):
        changed = bytearray(raw)
        if trial * 3 < len(raw):
            del changed[trial * 3 :]
        else:
            for _ in range(draw.randrange(1, 4)):
                changed[draw.randrange(len(raw) // 2)] = draw.randrange(256)
        path = written(tmp_path, bytes(changed))
        try:
            ours = read_safetensors(path)[0]
        except Damaged:
            continue
        theirs = load(bytes(changed))  # what we read, the package reads, and reads the same
        assert {n: a.tobytes() for n, a in ours.items()} == {n: a.tobytes() for n, a in theirs.items()}


def described(header: object, elements: bytes = b"") -> bytes:
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    return len(text).to_bytes(8, "little") + text + elements


def entry(dtype: object, shape: object, *offsets: object) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": list(offsets)}


CRAFTED = [
    (b"", "it ends too early"),
    (b"\xff" * 8 + b"{}", f"its header claims {2**64 - 1} bytes, and the file has 10"),
    (described([]), "its header is no JSON object"),
    (described(b"[" * 100_000), "its header is nested too deeply"),
    (described(b'{"a":1,"a":1}'), "its header has a name twice"),
    (described({"__metadata__": 5}), "its metadata are no texts by name"),
    (described({"__metadata__": {"a": 5}}), "its metadata are no texts by name"),
    (described({"a": 5}), "what it says of 'a' is no type, shape and place"),
    (described({"a": entry("U8", [1], 0)}, b"1"), "what it says of 'a' is no type, shape and place"),
    (described({"a": entry("U8", [-1], 0, 1)}, b"1"), "what it says of 'a' has numbers that are no counts"),
    (described({"a": entry("U8", [True], 0, 1)}, b"1"), "what it says of 'a' has numbers that are no counts"),
    (described({"a": entry("U8", 5, 0, 1)}, b"1"), "what it says of 'a' has numbers that are no counts"),
    (described({"a": entry("F32", [9], 0, 1)}, b"1"), "the elements of 'a' take 1 bytes, which is not F32[9]"),
    (described({"a": entry("U8", [1], 1, 2)}, b"12"), "the elements of 'a' begin at 1, those before end at 0"),
    (described({"a": entry("U8", [1], 0, 1)}, b"12"), "its tensors take 1 bytes, and 2 are there"),
    (described({"a": entry("F4", [2], 0, 1)}, b"1"), "the elements of 'a' are F4, which prograd does not read"),
    (described({"a": entry("BOOL", [1], 0, 1)}, b"\2"), "'a' has a bool that is neither 0 nor 1"),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "reason"), CRAFTED)
def test_what_is_crafted_is_one_sentence(tmp_path, raw, reason):
    path = written(tmp_path, raw)
    with pytest.raises(Damaged) as caught:
        read_safetensors(path)
    assert str(caught.value) == f"{path}: this cannot be read as a safetensors file: {reason}"
    if "which prograd" not in reason and "bool" not in reason:  # these two the package takes
        with pytest.raises(SafetensorError):
            load(raw)


def test_a_reader_that_hashes_sees_every_byte_once_whatever_is_taken(tmp_path):
    path = written(tmp_path, bytes(range(256)) * 9000)

    class Bytes(io.BytesIO):
        update = io.BytesIO.write
        digest = io.BytesIO.getvalue

    with path.open("rb") as stream:
        reader = FileReader(stream, Bytes())
        assert reader.take(3) == b"\0\1\2"
        reader.skip(2_000_000)
        reader.take(5)
        assert reader.sha256() == path.read_bytes()


def with_values_from_a_file(folder: Path) -> Path:
    """A program whose buffer `table` begins each epoch with what a file has."""
    save_file({"table": np.arange(3, dtype=np.float32)}, folder / "table.safetensors")
    write_data(folder)
    program = Program("table", seed=1)
    x = program.input("x", "float32", ("batch", 3))
    w = program.parameter("w", (3,))
    table = program.buffer("table", (3,), from_file("table.safetensors", "table"), lifespan="epoch")
    program.update(table, table + ops.sum(x, axis=(0,)))
    program.minimize(ops.mean(ops.square(x * (w - table))), sgd(rate=0.1))
    return save_program(program, folder, evaluate=None, keep_best=None)


def test_a_file_that_is_replaced_in_mid_run_changes_nothing(tmp_path):
    path = with_values_from_a_file(tmp_path)
    whole = runtime.load(path)
    list(whole.events())
    run = runtime.load(path)
    events = run.events()
    next(events)
    save_file({"table": np.full(3, 9, np.float32)}, tmp_path / "table.safetensors")
    list(events)
    assert run.states.sha256() == whole.states.sha256()
    with pytest.raises(runtime.DataError, match="the file's SHA-256 is "):
        runtime.load(path).events()


def test_what_a_file_has_when_it_is_read_is_what_was_verified(tmp_path, monkeypatch):
    path = save_program(linear(), tmp_path)
    file = tmp_path / "rows.safetensors"
    fill = FileReader.fill

    def cut_short(self: FileReader, out: memoryview) -> None:
        file.write_bytes(file.read_bytes()[:-8])  # while it is open, after its size was looked at
        fill(self, out)

    monkeypatch.setattr(FileReader, "fill", cut_short)
    with pytest.raises(runtime.DataError) as caught:
        list(runtime.load(path).events())
    assert str(caught.value).startswith(f"{file}: the file's SHA-256 is ")


def test_tensors_are_read_into_arrays_of_their_type_and_shape(tmp_path):
    tensors = {"a": np.arange(6, dtype="float32").reshape(2, 3), "b": np.arange(4), "c": np.array([True, False])}
    path = tmp_path / "x.safetensors"
    save_file(tensors, path)
    into = {"a": np.zeros((2, 3), "float32"), "b": np.zeros(4, "float32"), "c": np.zeros(2, bool)}
    with path.open("rb") as stream:
        found = read_arrays(path, FileReader(stream), tensors, into=into)
    assert found["a"] is into["a"]
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(found[name], tensor)
    assert not into["b"].any(), "another type, which has memory of its own"


def test_initial_values_that_changed_leave_zeros_and_one_sentence(tmp_path):
    save_file({"w": np.arange(1, 4, dtype=np.float32)}, tmp_path / "w.safetensors")
    write_data(tmp_path)
    program = Program("table", seed=1)
    x = program.input("x", "float32", ("batch", 3))
    w = program.parameter("w", (3,), from_file("w.safetensors", "w"))
    program.minimize(ops.mean(ops.square(x * w)), sgd(rate=0.1))
    path = save_program(program, tmp_path, evaluate=None, keep_best=None)
    np.testing.assert_array_equal(runtime.load(path).state["w"], [1, 2, 3])
    save_file({"w": np.arange(2, 5, dtype=np.float32)}, tmp_path / "w.safetensors")
    run = runtime.load(path)
    assert not run.states.arrays["w"].any()
    with pytest.raises(runtime.DataError, match="the file's SHA-256 is "):
        run.events()


def test_a_file_has_arrays_only_if_every_part_of_their_bytes_is_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_files, "PART_BYTES", 16)
    path, arrays = tmp_path / "w.safetensors", {"a": np.arange(9, dtype="f4"), "b": np.arange(4, dtype="f4")}
    tensor_files.write_safetensors(path, arrays, {}, force=False)
    assert tensor_files.has_safetensors(path, arrays, {})
    for name, i in (("a", 0), ("a", 8), ("b", 3)):
        others = {key: array.copy() for key, array in arrays.items()}
        others[name][i] += 1
        assert not tensor_files.has_safetensors(path, others, {})
    content = path.read_bytes()
    for changed in (content[:-1], content + b"\0"):
        path.write_bytes(changed)
        assert not tensor_files.has_safetensors(path, arrays, {})
