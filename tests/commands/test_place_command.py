"""`compiler place`: from a table of buffers to a table with offsets, or one sentence."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest
from oracles.memory import Placed, collide

from compiler.__main__ import main

INSTANCE = Path(__file__).parents[1] / "placements" / "C.1048576.csv"
TABLE = "id,lower,upper,size\na,0,2,10\nb,1,3,20\nc,2,4,10\n"


@pytest.fixture
def buffers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("buffers.csv").write_text(TABLE)
    return Path("buffers.csv")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    try:
        code = main(["place", *map(str, arguments)])
    except SystemExit as end:
        code = int(end.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def test_the_table_comes_out_with_offsets_and_the_summary_beside_it(buffers: Path, capsys):
    assert run(capsys, buffers) == (
        0,
        "id,lower,upper,size,offset\na,0,2,10,20\nb,1,3,20,0\nc,2,4,10,20\n",
        "OK buffers=3 arena=30 lower_bound=30 above=0.000% optimal=yes by=skyline-by-size-and-life ended=bound\n",
    )


def test_a_hard_table_is_placed_at_its_lower_bound(capsys):
    code, out, err = run(capsys, INSTANCE)
    assert (code, err) == (
        0,
        "OK buffers=203 arena=1039360 lower_bound=1039360 above=0.000% optimal=yes by=search ended=bound\n",
    )
    rows = list(csv.DictReader(out.splitlines()))
    with INSTANCE.open() as file:
        given = list(csv.DictReader(file))
    assert [{k: v for k, v in row.items() if k != "offset"} for row in rows] == given
    placed = [Placed(*(int(row[key]) for key in ("size", "lower", "upper", "offset"))) for row in rows]
    assert max(p.offset + p.nbytes for p in placed) == 1039360
    assert not any(collide(a, b) for i, a in enumerate(placed) for b in placed[:i])


def test_its_own_output_is_a_table_too(buffers: Path, capsys):
    _, out, _ = run(capsys, buffers)
    buffers.write_text(out)
    assert run(capsys, buffers)[1] == out


def test_offsets_are_multiples_of_the_alignment(buffers: Path, capsys):
    _, out, err = run(capsys, buffers, "--alignment", 64)
    assert out == "id,lower,upper,size,offset\na,0,2,10,64\nb,1,3,20,0\nc,2,4,10,64\n"
    assert err.startswith("OK buffers=3 arena=128 lower_bound=128 above=0.000% optimal=yes ")


def test_no_buffers_take_no_bytes(buffers: Path, capsys):
    buffers.write_text("id,lower,upper,size\n")
    code, out, err = run(capsys, buffers)
    assert (code, out) == (0, "id,lower,upper,size,offset\n")
    assert err == "OK buffers=0 arena=0 lower_bound=0 above=0.000% optimal=yes by=nothing-to-place ended=bound\n"


def test_output_goes_to_a_file_which_is_replaced_only_when_forced(buffers: Path, capsys):
    code, out, _ = run(capsys, buffers, "-o", "placed.csv")
    assert (code, out) == (0, "")
    placed = Path("placed.csv").read_text()
    assert placed == run(capsys, buffers)[1]
    Path("placed.csv").write_text("mine")
    assert run(capsys, buffers, "-o", "placed.csv") == (
        2,
        "",
        "compiler: placed.csv: the file exists; --force replaces it\n",
    )
    assert Path("placed.csv").read_text() == "mine"
    assert run(capsys, buffers, "-o", "placed.csv", "--force")[0] == 0
    assert Path("placed.csv").read_text() == placed


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("", "buffers.csv: there is no column 'id'; the first line names id, lower, upper, size"),
        (
            "id,lower,upper,size\na\x1b[2J,0,1,4\n",
            "buffers.csv, line 2: the id 'a\\x1b[2J' has letters that cannot be printed",
        ),
        (
            "id,lower,upper\na,0,1\n",
            "buffers.csv: there is no column 'size'; the first line names id, lower, upper, size",
        ),
        (
            "id,lower,upper,size,gaps\na,0,1,4,\n",
            "buffers.csv: the column 'gaps' has no meaning here; take id, lower, upper, size, each once",
        ),
        (
            "id,lower,upper,size,size\na,0,1,4,4\n",
            "buffers.csv: the column 'size' has no meaning here; take id, lower, upper, size, each once",
        ),
        (
            "id,lower,upper,size\na,0,1,4\nb,0,1,-4\n",
            "buffers.csv, line 3: size is '-4'; it is a whole number of at most 18 digits",
        ),
        (
            "id,lower,upper,size\na,0,1.5,4\n",
            "buffers.csv, line 2: upper is '1.5'; it is a whole number of at most 18 digits",
        ),
        (
            "id,lower,upper,size\na,0,1,1234567890123456789\n",
            "buffers.csv, line 2: size is '1234567890123456789'; it is a whole number of at most 18 digits",
        ),
        (
            "id,lower,upper,size\n\na,3,3,4\n",
            "buffers.csv, line 3: lower is 3 and upper is 3; a buffer lives from lower until before upper",
        ),
        (
            "id,lower,upper,size\na,0,1,4\nb,0,1,4\na,1,2,4\n",
            "buffers.csv, line 4: the id 'a' is that of line 2 too; ids differ",
        ),
        (
            "id,lower,upper,size\na,0,1\n",
            "buffers.csv, line 2: there are 3 values; the first line names 4 columns",
        ),
        (
            "id,lower,upper,size\n" + "".join(f"{i},0,1,{10**18 - 1}\n" for i in range(5)),
            "buffers.csv: the buffers have 4999999999999999995 bytes together; "
            "at most 4611686018427387904 can be placed",
        ),
        (
            'id,lower,upper,size\n"a,0,1,4\n',
            "buffers.csv: this is not a table of comma-separated values: unexpected end of data",
        ),
    ],
)
def test_a_bad_table_is_one_sentence_that_says_where(buffers: Path, capsys, table: str, sentence: str):
    buffers.write_text(table)
    assert run(capsys, buffers) == (4, "", f"compiler: {sentence}\n")


def test_a_table_that_cannot_be_read_is_one_sentence(buffers: Path, capsys):
    assert run(capsys, "none.csv") == (4, "", "compiler: none.csv: no such file\n")
    assert run(capsys, ".") == (4, "", "compiler: .: the file cannot be read: this is a folder, not a file\n")
    buffers.write_bytes(b"\xff\xfe\x00")
    code, out, err = run(capsys, buffers)
    assert (code, out, err.count("\n")) == (4, "", 1)
    assert err.startswith("compiler: buffers.csv: this is not a table of comma-separated values: 'utf-8' codec")


def test_too_small_a_capacity_is_a_limit_and_writes_nothing(buffers: Path, capsys):
    assert run(capsys, buffers, "--capacity", 29, "-o", "placed.csv") == (
        6,
        "",
        "compiler: buffers.csv: 30 bytes are alive at once, more than the capacity of 29\n",
    )
    assert not Path("placed.csv").exists()
    assert run(capsys, buffers, "--capacity", 30)[0] == 0


def test_a_capacity_between_the_bound_and_the_optimum_is_a_limit(buffers: Path, capsys):
    """Five bytes are alive at most, and six are needed; so say all orders in test_placement.py."""
    spans = [(0, 4, 3), (0, 2, 2), (4, 5, 2), (2, 5, 1), (4, 6, 1), (2, 6, 1), (6, 8, 2), (5, 8, 3)]
    buffers.write_text("id,lower,upper,size\n" + "".join(f"{i},{a},{b},{s}\n" for i, (a, b, s) in enumerate(spans)))
    assert run(capsys, buffers, "--capacity", 5) == (
        6,
        "",
        "compiler: buffers.csv: every placement takes 6 bytes or more, which exceeds the capacity of 5\n",
    )
    code, _, err = run(capsys, buffers)
    assert code == 0
    assert err.startswith("OK buffers=8 arena=6 lower_bound=5 above=20.000% optimal=yes by=")
    assert err.endswith(" ended=proof\n")


def test_a_capacity_that_was_not_reached_in_time_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(INSTANCE, "c.csv")
    code, out, err = run(capsys, "c.csv", "--capacity", "1.03936MB", "--max-time", 0)
    assert (code, out) == (6, "")
    assert err.startswith("compiler: c.csv: the smallest arena found has ")
    assert err.endswith(", more than the capacity of 1039360, in 0 seconds; --max-time gives it more\n")
    code, out, err = run(capsys, "c.csv", "--max-time", 0)
    assert code == 0
    assert err.endswith(" optimal=unknown by=skyline-by-size-and-life ended=seconds\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--capacity", "1MX"], "argument --capacity: '1MX' is not a size as 1.5MiB, 1GB or 1000000"),
        (["--alignment", "0"], "argument --alignment: '0' is not a size of 1 byte or more"),
        (["--max-time", "nan"], "argument --max-time: 'nan' is not a time as 90, 1.5min, 2h or 500ms"),
    ],
)
def test_bad_options_are_a_matter_of_usage(buffers: Path, capsys, arguments: list[str], sentence: str):
    assert run(capsys, buffers, *arguments) == (2, "", f"compiler: {sentence}; see compiler place --help\n")
