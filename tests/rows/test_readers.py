"""Readers of users' files: what ends a row, which line an error names, how much memory is taken, what is refused."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from mutations import limited
from safetensors.numpy import load_file

import prograd
from compiler.__main__ import main as compiler
from prograd import DataError, Program, UsageError
from runtime.memory.limit import MemoryLimit
from runtime.rows.encoding import csv_lines
from runtime.rows.encoding.csv_rows import read_csv
from runtime.rows.tables.image_files import MAX_PIXELS

pytestmark = pytest.mark.usefixtures("here")

MIB = 1 << 20
MEASURED = """
import sys
from runtime.__main__ import main
try:
    code = main(sys.argv[1:])
finally:
    status = open("/proc/self/status").read()
    print(status.partition("VmHWM:")[2].split()[0], file=sys.stderr)
sys.exit(code)
"""


def refused(source: object, kind: type[Exception] = DataError, **options: object) -> str:
    with pytest.raises(kind) as caught:
        prograd.data.pack(source, "rows.safetensors", force=True, **options)
    return str(caught.value)


@pytest.mark.parametrize("letter", ["\u2028", "\u2029", "\x85", "\f", "\v", "\x1c", "\x1d", "\x1e"])
def test_only_the_ends_of_csv_end_a_row(letter: str):
    for name, text in (("a.csv", f"t,n\na{letter}b,1\nc,2\n"), ("a.txt", f"a{letter}b\nc\n")):
        Path(name).write_text(text, newline="", encoding="utf-8")
        prograd.data.pack(name, "rows.safetensors", force=True, classes=["t"] if name == "a.csv" else ["text"])
        found = load_file("rows.safetensors")
        assert {array.shape for array in found.values()} == {(2,)}
        column = "t" if name == "a.csv" else "text"
        assert prograd.data.decode(found[column], column, "rows.safetensors").tolist() == [f"a{letter}b", "c"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_end_of_a_line_that_csv_has_ends_a_row(end: str):
    Path("a.csv").write_text(end.join(["x", "1", "", "2", ""]), newline="")
    prograd.data.pack("a.csv", "rows.safetensors")
    assert load_file("rows.safetensors")["x"].tolist() == [1, 2]
    Path("a.txt").write_text(end.join(["b", "", "a", ""]), newline="")
    prograd.data.pack("a.txt", "rows.safetensors", force=True, classes=["text"])
    assert load_file("rows.safetensors")["text"].tolist() == [1, 0]


TEXT = '\n"a","b"\n1,"two\nlines"\n\n2,"x"\nthree,"y"\n4,"z"\n'


def test_an_error_names_the_line_of_the_file():
    Path("a.csv").write_text(TEXT)
    assert refused("a.csv").startswith("line 7: 'a' is 'three', and 3 rows have numbers; ")
    Path("a.csv").write_text(TEXT.replace("three,", "3,9,"))
    assert refused("a.csv") == "a.csv: line 7 has 3 values, and the first line names 2 columns"
    Path("a.csv").write_text(TEXT.replace('"z"', '"z'))
    assert refused("a.csv") == "a.csv: this is no table: a quote in line 8 is not closed"
    Path("a.csv").write_text(TEXT.replace("three", ""))
    assert refused("a.csv").startswith("line 7: 'a' has no value; say what stands for it")
    Path("a.csv").write_text("a,b\n,1\n2,1\n3,x\n4,1\n5,1\n")
    assert refused("a.csv", missing={"a": "drop"}).startswith("line 4: 'b' is 'x', and 3 rows have numbers")
    assert refused({"a": [None, 1, 2, 3], "b": [1, 2, "x", 3]}, missing={"a": "drop"}, whole=["b"]).startswith(
        "row 2 of 'b' is 'x', and 2 rows have numbers"
    )


def test_an_error_about_a_list_names_its_row():
    prograd.data.pack({"x": [[1.5, 2.0], [3.0]]}, "rows.safetensors")
    with pytest.raises(DataError, match=r"^row 2 of 'x' has 1e\+300, which float32 does not hold$"):
        prograd.data.encode({"x": [[1.0, 2.0], [3.0], [4.0, 1e300]]}, "rows.safetensors")


def test_an_error_about_a_whole_number_names_its_row():
    prograd.data.pack({"x": [1, 2]}, "rows.safetensors", whole=["x"])
    with pytest.raises(DataError, match=r"^row 2 of 'x' is 'b', which is no number; write one, as in 3\.5$"):
        prograd.data.encode({"x": ["1", "2", "b"]}, "rows.safetensors")


@pytest.mark.sampled(4)
@pytest.mark.skipif(os.name != "posix", reason="Windows has no such files in its folders")
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.parquet", "a.npz", "a.npy", "f/c/a.png"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_source_is_a_regular_file(capsys: pytest.CaptureFixture[str], name: str, kind: str):
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with limited(60):  # a command that reads a pipe waits for ever
        code = compiler(["data", "pack", name.partition("/")[0], "-o", "r.safetensors"])
    err = capsys.readouterr().err
    assert code == 4
    assert err.count("\n") == 1
    said = (
        "this link leads out of f, to /dev/zero" if name.endswith(".png") and kind == "device" else "not a regular file"
    )
    assert said in err


def test_links_that_lead_out_of_a_folder_of_images_are_refused(here: Path):
    image = pytest.importorskip("PIL.Image", reason='pip install -e ".[test]" brings it')
    Path("f/c").mkdir(parents=True)
    Path("out").mkdir()
    image.new("L", (2, 2)).save("f/c/1.png")
    image.new("L", (2, 2)).save("out/2.png")
    Path("f/c/2.png").symlink_to(here / "out/2.png")
    wanted = f"this link leads out of f, to {here}/out/2.png; copy what it leads to into the folder"
    assert refused("f") == f"f/c/2.png: {wanted}"
    Path("f/c/2.png").unlink()
    Path("f/d").symlink_to(here / "out")
    wanted = f"this link leads out of f, to {here}/out; copy what it leads to into the folder"
    assert refused("f") == f"f/d: {wanted}"
    Path("f/d").unlink()
    Path("f/c/2.png").symlink_to("1.png")
    prograd.data.pack("f", "rows.safetensors")
    assert load_file("rows.safetensors")["image"].shape == (2, 2, 2, 3)
    Path("notes").write_text("")
    Path("f/notes.txt").symlink_to(here / "notes")
    Path("f/zeros").symlink_to("/dev/zero")
    prograd.data.pack("f", "rows.safetensors", force=True)
    assert load_file("rows.safetensors")["image"].shape == (2, 2, 2, 3)


@pytest.mark.parametrize(("link", "to", "inside"), [("f/d", "c", "f/c"), ("f/c/d", "..", "f"), ("f/d.png", "c", "f/c")])
def test_links_to_folders_inside_a_folder_of_images_are_refused(link: str, to: str, inside: str):
    image = pytest.importorskip("PIL.Image", reason='pip install -e ".[test]" brings it')
    Path("f/c").mkdir(parents=True)
    image.new("L", (2, 2)).save("f/c/1.png")
    Path(link).symlink_to(to)
    assert refused("f") == f"{link}: this link leads to {inside}, whose images are packed already; remove it"


@pytest.mark.parametrize("link", ["f/c/2.png", "f/d"])
def test_links_that_lead_nowhere_are_refused(link: str):
    Path("f/c").mkdir(parents=True)
    Path(link).symlink_to("nothing")
    assert refused("f") == f"{link}: this link leads nowhere; remove it"
    Path(link).unlink()
    Path(link).symlink_to(Path(link).name)
    assert refused("f") == f"{link}: this link leads nowhere; remove it"


def test_an_image_of_too_many_pixels_is_refused_before_it_is_decoded(recwarn: pytest.WarningsRecorder):
    pytest.importorskip("PIL.Image", reason='pip install -e ".[test]" brings it')
    Path("f/c").mkdir(parents=True)
    Path("f/c/1.png").write_bytes(png_header(12_000, 12_000))
    assert refused("f") == (
        "f/c/1.png: the image cannot be read: it has 12000 x 12000 pixels, and at most "
        f"{MAX_PIXELS} are read; make it smaller before"
    )
    Path("f/c/1.png").write_bytes(png_header(1 << 20, 1 << 20))
    assert refused("f").startswith("f/c/1.png: the image cannot be read: Image size (1099511627776 pixels) exceeds")
    assert not recwarn.list


def png_header(width: int, height: int) -> bytes:
    """A PNG that says its size, and has no pixels."""
    from struct import pack
    from zlib import compress, crc32

    def chunk(name: bytes, data: bytes) -> bytes:
        return pack(">I", len(data)) + name + data + pack(">I", crc32(name + data))

    head = chunk(b"IHDR", pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", compress(b"")) + chunk(b"IEND", b"")


def test_dates_that_python_lacks_are_one_sentence():
    arrow = pytest.importorskip("pyarrow", reason='pip install -e ".[test]" brings it')
    parquet = pytest.importorskip("pyarrow.parquet")
    dates = arrow.array([1, 10_000_000], arrow.int32()).cast(arrow.date32())
    parquet.write_table(arrow.table({"x": [1, 2], "day": dates}), "a.parquet")
    assert refused("a.parquet").startswith(
        "a.parquet: the column 'day' cannot be read: Python cannot hold its values of type date32[day]: "
    )


def test_a_member_of_an_npz_that_is_no_array_is_one_sentence():
    with zipfile.ZipFile("a.npz", "w") as archive:
        archive.writestr("x.npy", b"hello")
    assert refused("a.npz").startswith("a.npz: this cannot be read as a npz file: ")
    with zipfile.ZipFile("a.npz", "w") as archive:
        archive.writestr("x.txt", b"hello")
    assert refused("a.npz").startswith("a.npz: this cannot be read as a npz file: ")


FLOATS = "only columns of float32 numbers are joined"
NUMBERS = "only numbers that are not whole are standardised"
REPLACED = "only columns of single numbers and of classes have values in place of missing ones"
NAMED = [
    ({"join": {"x": ["age", "city"]}}, f"join: the column 'city' has classes, and {FLOATS}"),
    ({"join": {"x": ["age", "n"]}, "whole": ["n"]}, f"join: the column 'n' has whole numbers, and {FLOATS}"),
    ({"join": {"x": ["age", "l"]}}, f"join: the column 'l' has lists, and {FLOATS}"),
    ({"standardise": ["city"]}, f"standardise: the column 'city' has classes, and {NUMBERS}"),
    (
        {"whole": ["city"]},
        "whole: the column 'city' has classes, and only columns of single numbers become whole numbers",
    ),
    ({"classes": ["l"]}, "classes: the column 'l' has lists, and only columns of single values become classes"),
    ({"text": ["l"]}, "text: the column 'l' has lists, and only columns of texts are kept as text"),
    ({"text": ["city"], "missing": {"city": "x"}}, f"missing: the column 'city' has texts, and {REPLACED}"),
]


@pytest.mark.parametrize(("options", "sentence"), NAMED)
def test_a_column_that_is_named_and_cannot_be_used_is_refused(options: dict[str, object], sentence: str):
    table = {"age": [1, 2], "city": ["a", "b"], "n": [1, 2], "l": [[1], [2, 3]]}
    assert refused(table, UsageError, **options) == f"{sentence}; leave it out"


def test_a_column_that_is_named_and_dropped_is_refused():
    wanted = "standardise: the column 'age' is dropped; leave it out of one of the two options"
    assert refused({"age": [1, 2], "n": [1, 2]}, UsageError, standardise=["age"], drop=["age"]) == wanted


def test_a_pattern_says_what_it_skipped(caplog: pytest.LogCaptureFixture):
    table = {"age": [1, 2], "city": ["a", "b"], "n": [1, 3]}
    prograd.data.pack(table, "rows.safetensors", join={"x": ["*"]}, standardise=["*"])
    assert [record.getMessage() for record in caplog.records] == [
        "join: '*' skips city, which it cannot use",
        "standardise: '*' skips city, which it cannot use",
    ]
    assert load_file("rows.safetensors")["x"].shape == (2, 2)


def test_a_frame_of_polars_is_packed_as_the_same_columns():
    polars = pytest.importorskip("polars", reason='pip install -e ".[test]" brings it')
    columns = {"n": [1, 2, None], "t": ["b", "a", "b"], "l": [[1], [2, 3], []]}
    frame = polars.DataFrame(columns)
    size = polars.Series("size", ["small", "large", "small"], dtype=polars.Enum(["small", "mid", "large"]))
    prograd.data.pack(columns, "wanted.safetensors", missing={"n": "mean"})
    prograd.data.pack(frame, "rows.safetensors", missing={"n": "mean"})
    assert Path("rows.safetensors").read_bytes() == Path("wanted.safetensors").read_bytes()
    encoded = prograd.data.encode(frame, "wanted.safetensors")
    assert encoded["t"].tolist() == [1, 0, 1]
    prograd.data.pack(frame.with_columns(size), "rows.safetensors", missing={"n": "mean"}, force=True)
    assert load_file("rows.safetensors")["size"].tolist() == [0, 2, 0]


def test_a_frame_of_the_interchange_protocol_is_packed():
    arrow = pytest.importorskip("pyarrow", reason='pip install -e ".[test]" brings it')

    class Frame:
        def __dataframe__(self, *arguments: object, **options: object) -> object:
            return arrow.table({"n": [1.5, 2.5], "t": ["b", "a"]}).__dataframe__(*arguments, **options)

    prograd.data.pack(Frame(), "rows.safetensors")
    found = load_file("rows.safetensors")
    assert (found["n"].tolist(), found["t"].tolist()) == ([1.5, 2.5], [1, 0])


@pytest.mark.thorough
def test_many_columns_take_time_in_proportion():
    """A CSV file of 20,000 columns is read and packed in a few times ten times what 2,000 take."""
    from time import process_time

    seconds: list[float] = []
    for count in (2_000, 20_000):
        names = ",".join(f"c{number}" for number in range(count))
        ones = ",".join("1" * count)
        Path("a.csv").write_text(f"{names}\n{ones}\n{ones}\n")
        start = process_time()
        prograd.data.pack("a.csv", "rows.safetensors", join={"x": [f"c{i}" for i in range(count)]}, force=True)
        seconds.append(process_time() - start)
    assert seconds[1] < 30 * seconds[0] + 0.5, seconds


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process occupies now")
@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize(("line", "count"), [("1", 3 * MIB // 2), ("12", MIB), ("", 0)])
def test_a_table_of_short_rows_stays_within_the_memory(engine: str, line: str, count: int):
    prograd.data.pack({"x": [1.0, 2.0]}, "rows.safetensors")
    program = Program("p")
    x = program.input("x", "float32", ("batch",))
    program.outputs(y=x * 2)
    program.data("rows.safetensors", shuffle=False, remainder="drop")
    program.compile(batch=1 << 16).save("p.pb")
    rows = f"{line}\n" * count if line else "9" * 128 * MIB
    Path("new.csv").write_text("x\n" + rows)
    command = ["execute", "p.pb", "--entry", "predict", "-q", "--data", "new.csv", "--max-memory=200MiB"]
    code = [sys.executable, "-P", "-c", MEASURED, *command, "--engine", engine]
    done = subprocess.run(code, capture_output=True, text=True, timeout=300)
    *said, peak = done.stderr.splitlines()
    assert int(peak) // 1024 <= 200
    assert done.returncode in (0, 6), said


def test_the_memory_of_a_table_is_asked_for_before_it_is_taken():
    Path("a.csv").write_text("x\n" + "12\n" * 10_000)
    assert len(read_csv(Path("a.csv"), MemoryLimit(8 * MIB)).lines) == 10_000
    with pytest.raises(
        prograd.ResourceLimit,
        match=r"^with the rows of a.csv the run needs .*, and the limit is 1000000 bytes",
    ):
        read_csv(Path("a.csv"), MemoryLimit(1_000_000))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("block", range(1, 9))
def test_rows_do_not_depend_on_the_blocks_that_are_read(monkeypatch: pytest.MonkeyPatch, block: int, end: str):
    lines = ["\ufeffa,b", "1,two", "", '3,"f', 'our"', "", "", "5, six ", "7,"]
    Path("a.csv").write_text(end.join(lines), newline="", encoding="utf-8")
    monkeypatch.setattr(csv_lines, "BLOCK_CHARACTERS", block)
    table = read_csv(Path("a.csv"))
    assert table.columns["a"].tolist() == ["1", "3", "5", "7"]
    assert table.columns["b"].tolist() == ["two", f"f{end}our", " six ", ""]
    assert table.lines.tolist() == [2, 4, 8, 9]
    Path("a.csv").write_text(end.join(["", "", "a,b", "", "1,2", "", '3,"4', "5"]), newline="")
    with pytest.raises(DataError, match=r"^a.csv: this is no table: a quote in line 7 is not closed$"):
        read_csv(Path("a.csv"))


@pytest.mark.thorough
def test_the_memory_limit_is_asked_for_each_block_of_a_table(monkeypatch: pytest.MonkeyPatch):
    asked: list[int] = []
    monkeypatch.setattr(MemoryLimit, "require", lambda self, nbytes, what: asked.append(nbytes))
    Path("a.csv").write_text("x\n" + "12\n" * 200_000)
    assert len(read_csv(Path("a.csv")).lines) == 200_000
    assert len(asked) < 20, "asking for each row takes longer than parsing it"
    assert max(asked) > 200_000 * (csv_lines.VALUE_BYTES + csv_lines.TEXT_BYTES)
