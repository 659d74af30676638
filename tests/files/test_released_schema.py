"""proto/released.txtpb: the schema of the last release, which today's adds to and else leaves as it is.

`make check` compares them with `buf breaking`, which must find each kind of change that is not an addition.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROTO = Path(__file__).parents[2] / "proto"


def breaking(folder: Path) -> subprocess.CompletedProcess[str]:
    buf = Path(sys.executable).with_name("buf")
    command = [buf, "breaking", folder, "--against", PROTO / "released.txtpb"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def edited(folder: Path, old: str, new: str) -> Path:
    """A copy of the schema with one line changed."""
    copy = folder / "proto"
    (copy / "prograd_proto").mkdir(parents=True)
    shutil.copy(PROTO / "buf.yaml", copy)
    text = (PROTO / "prograd_proto" / "program.proto").read_text(encoding="utf-8")
    assert re.search(old, text)
    (copy / "prograd_proto" / "program.proto").write_text(re.sub(old, new, text, count=1), encoding="utf-8")
    return copy


def test_the_schema_adds_to_that_of_the_last_release_and_else_leaves_it():
    done = breaking(PROTO)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("string producer = 2;", "", 'field "2" with name "producer" on message "ProgramDesc" was deleted'),
        ("string producer = 2;", "bytes producer = 2;", 'changed type from "string" to "bytes"'),
        ("string producer = 2;", "string maker = 2;", 'changed name from "producer" to "maker"'),
        (r"\n  REMAINDER_EXACT = [^\n]*", "", 'on enum "Remainder" was deleted'),
    ],
)
def test_a_field_that_goes_changes_its_type_or_its_name_is_found(tmp_path: Path, old: str, new: str, found: str):
    done = breaking(edited(tmp_path, old, new))
    assert done.returncode != 0
    assert found in done.stdout


def test_a_field_more_is_an_addition(tmp_path: Path):
    added = "string producer = 2; string maker = 99;"
    assert breaking(edited(tmp_path, "string producer = 2;", added)).returncode == 0


def test_make_check_compares_them():
    makefile = (PROTO.parent / "Makefile").read_text(encoding="utf-8")
    assert "check: lint types" in makefile
    assert "\t$(BIN)/buf breaking proto --against proto/released.txtpb\n" in makefile
