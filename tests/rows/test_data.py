import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from subjects.small_programs import BATCH, TEST, TRAIN, arrays, linear, save, write_data

import runtime
from compiler import CompileError, Program, ops
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.files import load as load_desc
from prograd_proto.files import save as save_desc
from runtime.__main__ import main
from runtime.entries import bound_entries
from runtime.files import tensor_files
from runtime.philox import permutation
from runtime.rows.data import Data
from runtime.runs.evaluation import run_over


def refused(action, folder: Path) -> str:
    """The sentence of a DataError, with the folder's name left out."""
    with pytest.raises(runtime.DataError) as caught:
        action()
    return str(caught.value).replace(f"{folder}/", "")


def train_once(program: Path, **options):
    return list(runtime.load(program, **options).events(epochs=1))


def test_a_split_named_by_a_key_selects_its_rows(tmp_path):
    run = runtime.load(save(linear(), tmp_path))
    rows = run.session.rows("evaluate", "test")
    feeds = {"x": np.zeros((TEST, 3), np.float32), "y": np.zeros(TEST, np.float32)}
    rows.fill(feeds, 0)
    np.testing.assert_array_equal(feeds["x"], arrays()["x"][TRAIN:])
    np.testing.assert_array_equal(feeds["y"], arrays()["y"][TRAIN:])


@pytest.mark.parametrize(
    ("selection", "numbers"),
    [
        (slice(0, 10), range(10)),
        (slice(5, None, 7), range(5, 43, 7)),
        (slice(None), range(43)),
        (slice(2, 43, 40), [2, 42]),
    ],
)
def test_a_split_named_by_a_range_selects_its_rows(tmp_path, selection, numbers):
    write_data(tmp_path)
    program = linear()
    program.data("rows.safetensors", splits={"some": selection}, shuffle=False, remainder="drop")
    program.compile(batch=BATCH).save(tmp_path / "p.pb")
    assert list(runtime.load(tmp_path / "p.pb").session.rows("evaluate", "some").numbers) == list(numbers)


def test_without_a_split_all_rows_are_taken(tmp_path):
    run = runtime.load(save(linear(), tmp_path))
    assert list(run.session.rows("evaluate", None).numbers) == list(range(43))


def test_training_sees_the_rows_in_the_order_of_the_epochs_permutation(tmp_path):
    program = linear()
    program.fetch("largest", ops.max(program.block.value("y")))
    run = runtime.load(save(program, tmp_path, epochs=2, evaluate=None, keep_best=None))
    seen = [event.metrics["largest"] for event in run.events() if isinstance(event, runtime.StepEnd)]
    y = arrays()["y"]
    orders = [permutation(5, epoch, TRAIN) for epoch in range(2)]
    assert seen == [float(y[order[i : i + BATCH]].max()) for order in orders for i in range(0, 28, BATCH)]
    assert list(orders[0]) != list(orders[1])


def test_without_shuffling_rows_come_in_the_order_of_the_split(tmp_path):
    write_data(tmp_path, train=np.array([7, 3, 7, 1]))
    program = linear()
    program.fetch("all", program.block.value("y"))
    program.data("rows.safetensors", splits={"train": "train"}, shuffle=False, remainder="drop")
    program.compile(batch=4).save(tmp_path / "p.pb")
    run = runtime.load(tmp_path / "p.pb")
    for _ in run.events(epochs=1):
        pass
    np.testing.assert_array_equal(run.fetched["all"], arrays()["y"][[7, 3, 7, 1]])


def test_the_remainder_is_dropped_and_said_once(tmp_path, caplog):
    caplog.set_level("INFO", "prograd")
    run = runtime.load(save(linear(), tmp_path, epochs=3, evaluate=None, keep_best=None))
    assert sum(isinstance(event, runtime.StepEnd) for event in run.events()) == 3 * 7
    assert caplog.messages == ["3 of 31 rows do not fill a step of 4 and are left out of each epoch"]


def test_a_column_may_have_another_key_than_its_feed(tmp_path):
    write_data(tmp_path, target=np.ones(43, np.float32))
    program = linear()
    program.data("rows.safetensors", columns={"y": "target"}, shuffle=False, remainder="drop")
    program.compile(batch=BATCH).save(tmp_path / "p.pb")
    rows = runtime.load(tmp_path / "p.pb").session.rows("evaluate", None)
    assert rows.columns["y"].sum() == 43


@pytest.mark.parametrize("compressed", [False, True])
def test_npz_gives_the_same_training_as_safetensors(tmp_path, compressed):
    path = save(linear(), tmp_path)
    (np.savez_compressed if compressed else np.savez)(tmp_path / "rows.npz", **arrays())
    hashes = set()
    for data in (None, tmp_path / "rows.npz"):
        run = runtime.load(path, data=data)
        list(run.events())
        hashes.add(run.states.sha256())
    assert len(hashes) == 1


def test_npz_arrays_of_another_byte_order_and_layout_are_the_same_rows(tmp_path):
    path = save(linear(), tmp_path)
    given = arrays() | {"x": np.asfortranarray(arrays()["x"]).astype(">f4")}
    np.savez(tmp_path / "rows.npz", **given)
    rows = runtime.load(path, data=tmp_path / "rows.npz").session.rows("evaluate", None)
    np.testing.assert_array_equal(rows.columns["x"], arrays()["x"])


WRONG_CONTENT = [
    ({"y": np.zeros((43, 2), np.int32)}, "rows.safetensors: 'y' is int32[43, 2], the feed 'y' is float32[rows]"),
    ({"x": arrays()["x"][:, :2].copy()}, "rows.safetensors: 'x' is float32[43, 2], the feed 'x' is float32[rows, 3]"),
    ({"y": arrays()["y"][:, None]}, "rows.safetensors: 'y' is float32[43, 1], the feed 'y' is float32[rows]"),
    ({"y": arrays()["y"][:40]}, "the columns differ in their number of rows: 'x' has 43, 'y' 40"),
    ({"train": np.array([0, 1, 43, 2, 3])}, "rows.safetensors: the split 'train' has row 43, there are 43 rows"),
    ({"train": np.array([0, -1, 5, 6])}, "rows.safetensors: the split 'train' has row -1, there are 43 rows"),
    (
        {"train": np.array([0, 1], np.int32)},
        "rows.safetensors: 'train' is int32[2], the row numbers of a split are int64[rows]",
    ),
    ({"train": np.zeros(0, np.int64)}, "rows.safetensors: the split 'train' has no rows"),
    ({"train": np.array([0, 1])}, "the split 'train' has 2 rows, a step takes 4"),
]


@pytest.mark.parametrize(("changes", "sentence"), WRONG_CONTENT)
def test_every_fault_in_the_content_is_one_sentence(tmp_path, changes, sentence):
    path = save(linear(), tmp_path)
    write_data(tmp_path, **changes)
    file = tmp_path / "rows.safetensors"
    assert refused(lambda: train_once(path, data=file), tmp_path) == sentence


def test_a_key_that_is_not_there_is_named_with_the_closest(tmp_path):
    path = save(linear(), tmp_path)
    content = arrays()
    content["xx"] = content.pop("x")
    save_file(content, tmp_path / "other.safetensors")
    np.savez(tmp_path / "other.npz", **content)
    for name in ("other.safetensors", "other.npz"):
        found = refused(lambda file=tmp_path / name: train_once(path, data=file), tmp_path)
        assert found == f"{name}: there is no key 'x' in the file; did you mean 'xx'?"


def test_rows_that_are_left_are_refused_where_the_remainder_must_be_exact(tmp_path):
    write_data(tmp_path)
    program = linear()
    program.data("rows.safetensors", splits={"train": "train"}, remainder="exact", shuffle=False)
    program.compile(batch=BATCH).save(tmp_path / "p.pb")
    found = refused(lambda: train_once(tmp_path / "p.pb"), tmp_path)
    assert found == "the split 'train' has 31 rows, and steps of 4 leave 3 of them"


def test_a_range_that_ends_after_the_last_row_is_refused(tmp_path):
    write_data(tmp_path)
    program = linear()
    program.data("rows.safetensors", splits={"train": slice(0, 44)}, shuffle=False, remainder="drop")
    program.compile(batch=BATCH).save(tmp_path / "p.pb")
    found = refused(lambda: train_once(tmp_path / "p.pb"), tmp_path)
    assert found == "rows.safetensors: the split 'train' ends at row 44, there are 43"


def test_a_missing_file_is_one_sentence(tmp_path):
    path = save(linear(), tmp_path)
    (tmp_path / "rows.safetensors").unlink()
    found = refused(lambda: train_once(path), tmp_path)
    assert found == "rows.safetensors: the program's file cannot be read: No such file or directory"
    found = refused(lambda: train_once(path, data=tmp_path / "none.npz"), tmp_path)
    assert found == "none.npz: no such file"
    found = refused(lambda: train_once(path, data=tmp_path / "none.safetensors"), tmp_path)
    assert found == "none.safetensors: no such file"


def test_a_file_of_another_size_or_hash_is_not_the_programs(tmp_path):
    path = save(linear(), tmp_path)
    file = tmp_path / "rows.safetensors"
    raw = file.read_bytes()
    file.write_bytes(raw + b" ")
    assert refused(lambda: train_once(path), tmp_path) == (
        f"rows.safetensors: the file has {len(raw) + 1} bytes, the program was compiled with one of {len(raw)}; "
        "bring that file back, or compile again"
    )
    file.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    found = refused(lambda: train_once(path), tmp_path)
    assert found.startswith("rows.safetensors: the file's SHA-256 is ")
    assert found.endswith("...; bring that file back, or compile again")
    assert load_desc(path).files[0].sha256.hex()[:16] in found
    assert train_once(path, data=file)  # one that is named on purpose may be any


def test_a_link_that_leads_out_of_the_folder_is_refused(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    path = save(linear(), inside)
    moved = (inside / "rows.safetensors").rename(tmp_path / "rows.safetensors")
    (inside / "rows.safetensors").symlink_to(moved)
    found = refused(lambda: train_once(path), tmp_path)
    assert found == f"inside/rows.safetensors: the file leads out of the program's folder, to {moved.name}"


def test_a_link_within_the_folder_is_followed(tmp_path):
    path = save(linear(), tmp_path)
    (tmp_path / "rows.safetensors").rename(tmp_path / "moved")
    (tmp_path / "rows.safetensors").symlink_to("moved")
    assert train_once(path)


def test_a_path_in_the_program_that_leaves_the_folder_is_refused_before_any_file_is_opened(tmp_path):
    path = save(linear(), tmp_path)
    desc = load_desc(path)
    desc.data.file = desc.files[0].path = "../rows.safetensors"
    save_desc(desc, path, force=True)
    with pytest.raises(ProgramError, match=r"the path '\.\./rows\.safetensors' leaves the program's folder"):
        runtime.load(path)


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
@pytest.mark.parametrize("keep", [0, 1, 7, 100, -1])
def test_a_file_cut_short_anywhere_is_one_sentence(tmp_path, suffix, keep):
    path = save(linear(), tmp_path)
    file = tmp_path / f"rows.{suffix}"
    np.savez(tmp_path / "rows.npz", **arrays())
    file.write_bytes(file.read_bytes()[:keep])
    found = refused(lambda: train_once(path, data=file), tmp_path)
    assert found.startswith(f"{file.name}: this cannot be read as a {suffix} file: ")


def npz(members: dict[str, bytes]) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return raw.getvalue()


def npy_header(descr: str, shape: tuple[int, ...]) -> bytes:
    raw = io.BytesIO()
    np.lib.format.write_array_header_1_0(raw, {"descr": descr, "fortran_order": False, "shape": shape})
    return raw.getvalue()


def test_an_npz_with_pickled_objects_is_refused_without_unpickling(tmp_path):
    path = save(linear(), tmp_path)
    file = tmp_path / "rows.npz"
    np.savez(file, x=np.array([print, 1], dtype=object))
    found = refused(lambda: train_once(path, data=file), tmp_path)
    assert found == (
        "rows.npz: this cannot be read as a npz file: Object arrays cannot be loaded when allow_pickle=False"
    )


def test_an_npz_that_claims_more_than_it_has_is_refused_before_memory_is_taken(tmp_path):
    path = save(linear(), tmp_path)
    file = tmp_path / "rows.npz"
    file.write_bytes(npz({"x": npy_header("<f4", (1 << 31, 3)) + b"\0" * 10}))
    found = refused(lambda: train_once(path, data=file), tmp_path)
    assert found == (
        f"rows.npz: this cannot be read as a npz file: an array says that it has {12 << 31} bytes, and 10 are there"
    )


def test_an_array_larger_than_the_limit_is_refused(tmp_path, monkeypatch):
    path = save(linear(), tmp_path)
    np.savez_compressed(tmp_path / "rows.npz", **arrays())
    monkeypatch.setattr(tensor_files, "MAX_ARRAY_BYTES", 500)
    found = refused(lambda: train_once(path, data=tmp_path / "rows.npz"), tmp_path)
    assert found == (
        "rows.npz: this cannot be read as a npz file: an array of 516 bytes is more than the 500 that are read"
    )


def test_a_feed_without_a_column_is_named(tmp_path):
    path = save(linear(), tmp_path)
    desc = load_desc(path)
    del desc.data.columns[1]
    save_desc(desc, path, force=True)
    found = refused(lambda: train_once(path), tmp_path)
    assert found == (
        "entry 'train' reads the feed 'y', which no column of the data gives; "
        "name its key by program.data(…, columns={'y': 'KEY'})"
    )


def test_an_unknown_split_is_named_with_the_closest(tmp_path):
    run = runtime.load(save(linear(), tmp_path))
    with pytest.raises(runtime.UsageError) as caught:
        run.evaluate("tset")
    assert str(caught.value) == "the data has no split 'tset'; did you mean 'test'?"
    with pytest.raises(runtime.UsageError) as caught:
        run.evaluate("holdout")
    assert str(caught.value) == "the data has no split 'holdout'; its splits are: train, test"


def test_a_program_that_neither_names_data_nor_trains_takes_no_file_in_its_place(tmp_path):
    program = Program("p")
    program.outputs(y=program.input("x", "float32", ("batch", 4)) * 2.0)
    program.compile(batch=4).save(tmp_path / "p.pb")
    with pytest.raises(runtime.UsageError) as caught:
        runtime.load(tmp_path / "p.pb", data="rows.npz")
    wanted = "the program says nothing of data and trains nothing, so no file can take its place"
    assert str(caught.value) == wanted


def test_a_program_without_data_trains_on_the_arrays_of_a_file_that_have_the_names_of_its_feeds(tmp_path):
    linear().compile(batch=4).save(tmp_path / "p.pb")
    feeds = dict(runtime.load(tmp_path / "p.pb").entries["train"].feeds)
    rng = np.random.default_rng(0)
    rows = {name: rng.normal(size=(32, *type.shape[1:])).astype(type.dtype) for name, type in feeds.items()}
    save_file(rows, tmp_path / "rows.safetensors")
    run = runtime.load(tmp_path / "p.pb", data=tmp_path / "rows.safetensors")
    run.train(progress=False)
    assert run.position.steps == 8
    del rows[next(iter(rows))]
    save_file(rows, tmp_path / "less.safetensors")
    with pytest.raises(runtime.DataError):
        runtime.load(tmp_path / "p.pb", data=tmp_path / "less.safetensors").train(progress=False)


def test_rows_are_read_only_when_they_are_needed(tmp_path):
    path = save(linear(), tmp_path)
    (tmp_path / "rows.safetensors").write_bytes(b"damaged")
    run = runtime.load(path)
    assert run.predict(np.ones((2, 3), np.float32))["prediction"].shape == (2,)


def test_only_the_columns_of_the_entry_are_read(tmp_path):
    path = save(linear(), tmp_path)
    save_file({"x": arrays()["x"]}, tmp_path / "unlabelled.safetensors")
    run = runtime.load(path, data=tmp_path / "unlabelled.safetensors")
    assert run_over(run.session, "predict", run.session.rows("predict", None)).arrays["prediction"].shape == (43,)


def test_initial_values_in_a_file_are_checked_like_data(tmp_path):
    path = save(linear(), tmp_path)
    save_file({"w0": np.array([1, 2, 3], np.float32)}, tmp_path / "w.safetensors")
    desc = load_desc(path)
    state = next(s for s in desc.states if s.name == "w")
    state.external.CopyFrom(pb.ExternalTensor(path="w.safetensors", key="w0"))
    desc.files.append(pb.FileDesc(path="w.safetensors", bytes=1, sha256=b"\0" * 32))
    save_desc(desc, path, force=True)
    size = (tmp_path / "w.safetensors").stat().st_size
    assert refused(lambda: runtime.load(path).events(), tmp_path) == (
        f"w.safetensors: the file has {size} bytes, the program was compiled with one of 1; "
        "bring that file back, or compile again"
    )


def test_a_static_program_reads_the_rows_that_its_feeds_share(tmp_path):
    program = Program("static")
    x = program.input("x", "float32", (4, 3))
    program.entry("evaluate", over="mean", mean=ops.mean(x))
    write_data(tmp_path)
    program.data("rows.safetensors", splits={"test": "test"}, shuffle=False, remainder="drop")
    compiled = program.compile()
    compiled.save(tmp_path / "p.pb")
    bound = bound_entries(compiled.desc, "evaluate")[0]
    assert (bound.rows, len(Data(compiled.desc, tmp_path).rows(bound, "test"))) == (4, 12)
    assert runtime.load(tmp_path / "p.pb").evaluate("test")["mean"] == pytest.approx(
        arrays()["x"][TRAIN:].mean(), rel=1e-6
    )


@pytest.mark.parametrize("absolute", [False, True])
def test_rows_elsewhere_are_named_by_who_runs_the_program(tmp_path, monkeypatch, absolute, capsys):
    """The file has the name without the folder: a program reads nothing outside of its own."""
    monkeypatch.chdir(tmp_path)
    for name in ("models", "rows", "elsewhere"):
        Path(name).mkdir()
    write_data(tmp_path / "rows")
    program = linear()
    path = str(tmp_path / "rows" / "rows.safetensors") if absolute else "../rows/rows.safetensors"
    program.data(path, splits={"train": "train", "test": "test"}, remainder="partial", shuffle=False)
    program.training(epochs=2, evaluate="test")
    compiled = program.compile(batch=4, folder="models")
    compiled.save("models/p.pb")
    desc = load_desc("models/p.pb")
    assert (desc.data.file, [file.path for file in desc.files]) == ("rows.safetensors", ["rows.safetensors"])
    run = runtime.Run(compiled, "models")
    list(run.events())
    named = runtime.load("models/p.pb", data="rows/rows.safetensors")
    list(named.events())
    assert named.position.steps == run.position.steps == 16
    assert named.state_sha256 == run.state_sha256
    assert main(["execute", "models/p.pb", "-q", "--data", "rows/rows.safetensors"]) == 0
    assert main(["execute", "models/p.pb", "-q"]) == 4
    assert capsys.readouterr().err.startswith("runtime: models/rows.safetensors: ")
    if not absolute:
        Path("elsewhere/deeper").mkdir()
        with pytest.raises(CompileError, match=r"rows\.safetensors: no such file"):
            compiled.save("elsewhere/deeper/p.pb")
