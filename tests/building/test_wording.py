"""Errors of Python programs name arguments, and the same errors of commands name options."""

from pathlib import Path

import pytest
from subjects.commands import run_compiler, told
from subjects.small_programs import linear, save

import prograd
from compiler import Program

IMAGE = "PIL.Image"

TABLES = [
    (
        "x\n1\nNA\n",
        "line 3: 'x' has no value; say what stands for it, as in --missing x=mean, or --missing x=drop",
        "'x' has no value; say what stands for it, as in missing={'x': 'mean'}, or missing={'x': 'drop'}",
    ),
    (
        "x\n1\n2\nabc\n",
        "--missing x=mean; --class x takes all as classes, --drop x leaves the column out",
        "missing={'x': 'mean'}; classes=['x'] takes all as classes, drop=['x'] leaves the column out",
    ),
    (
        "x\n2024-03-01\n2024-03-02\n",
        "--drop x leaves the column out, and --by time=x still splits by it; --class x takes them as classes",
        "drop=['x'] leaves the column out, and by=\"time\", of='x' still splits by it; classes=['x'] takes them as "
        "classes",
    ),
    (
        "x\n" + "\n".join(f"text {n}" for n in range(1001)),
        "leave it out by --drop x, keep it as text by --text x=100, or as classes by --class x",
        "leave it out by drop=['x'], keep it as text by text={'x': 100}, or as classes by classes=['x']",
    ),
]


@pytest.mark.parametrize(("table", "option", "argument"), TABLES)
def test_errors_of_columns_name_arguments_in_python_and_options_in_commands(
    table: str, option: str, argument: str, tmp_path: Path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(table)
    _, _, err = run_compiler(capsys, "data", "pack", "t.csv", "-o", "r.safetensors")
    assert err.rstrip("\n").endswith(option)
    with pytest.raises(prograd.DataError) as caught:
        prograd.data.pack("t.csv", "r.safetensors")
    assert str(caught.value).endswith(argument)
    assert "--" not in str(caught.value)


def test_errors_of_splits_and_images_do_so_too(tmp_path: Path, monkeypatch, capsys):
    image = pytest.importorskip(IMAGE, reason='pip install -e ".[test]" brings it')
    monkeypatch.chdir(tmp_path)
    for number, size in enumerate([(4, 4), (4, 5)]):
        Path("photos/a").mkdir(parents=True, exist_ok=True)
        image.new("L", size).save(f"photos/a/{number}.png")
    with pytest.raises(prograd.DataError) as caught:
        prograd.data.pack("photos", "r.safetensors")
    assert str(caught.value).endswith("; make them alike by size=(4, 4)")
    assert run_compiler(capsys, "data", "pack", "photos", "-o", "r.safetensors")[2].endswith("by --size 4x4\n")
    with pytest.raises(prograd.UsageError) as caught:
        prograd.data.pack({"x": [1, 2]}, "r.safetensors", by="time")
    assert str(caught.value) == "splits by time go by a column; name it, as in of='x'"


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_programs_and_states_are_replaced_only_if_asked(engine: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = save(linear(), tmp_path)
    before, stat = path.read_bytes(), path.stat()
    Program.load(path).compile().save("p.pb")
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (stat.st_ino, stat.st_mtime_ns)
    other = Program.load(path)
    other.training(epochs=7)
    compiled = other.compile()
    assert told(prograd.ProgramError, lambda: compiled.save("p.pb")) == "p.pb: the file exists; force=True replaces it"
    assert path.read_bytes() == before
    compiled.save("p.pb", force=True)
    assert path.read_bytes() != before
    run = prograd.load("p.pb", engine=engine)
    run.save("s.safetensors")
    with pytest.raises(prograd.UsageError) as refused:
        run.save("s.safetensors")
    assert str(refused.value) == "s.safetensors: the file exists; force=True replaces it"


def test_a_damaged_file_is_not_taken_for_the_program(tmp_path: Path):
    path = save(linear(), tmp_path)
    compiled, whole = Program.load(path).compile(), path.read_bytes()
    for raw in (b"", whole[:-1], whole + b"\0", b"\0" + whole[1:]):
        path.write_bytes(raw)
        with pytest.raises(prograd.ProgramError) as caught:
            compiled.save(path)
        assert str(caught.value) == f"{path}: the file exists; force=True replaces it"
        assert path.read_bytes() == raw
