"""`compiler upgrade`: what an older program becomes is said, and written when asked; twice is once."""

from __future__ import annotations

from pathlib import Path

import pytest
from subjects.commands import run_compiler as run
from subjects.small_programs import linear, save

from prograd_proto import files, upgrades
from prograd_proto import program_pb2 as pb
from prograd_proto.identity import program_sha256
from prograd_proto.upgrades import Fresh, operator_upgrade

GOLDEN = Path(__file__).parents[1] / "golden" / "compiled"


@pytest.fixture
def older(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with `p.pb`, whose squares this prograd makes by a product: `square` has no version 2."""
    save(linear(), tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(upgrades, "OPERATOR_VERSIONS", {"scaled": 2})
    monkeypatch.setattr(upgrades, "OPERATOR_UPGRADES", {})

    @operator_upgrade("scaled", 1, gives={"mul": 1, "identity": 1})
    def product(op: pb.OpDesc, fresh: Fresh) -> list[pb.OpDesc]:
        between = fresh.tensor("product", fresh.type(op.outputs[0]))
        first = pb.OpDesc()
        first.CopyFrom(op)
        first.type, first.outputs[:] = "mul", [between]
        del first.in_place[:]
        last = pb.OpDesc(id=fresh.id(), type="identity", inputs=[between], outputs=op.outputs, stage=op.stage)
        return [first, last]

    program = files.load("p.pb")
    for block in program.blocks:
        for op in block.ops:
            op.type = "scaled" if op.type == "mul" else op.type
    types = sorted({op.type for op in upgrades.every_op(program)})
    del program.operators[:]
    program.operators.extend(pb.OperatorVersion(type=type, version=1) for type in types)
    files.save(program, "p.pb", force=True)
    return tmp_path


def test_what_changes_is_said_and_nothing_is_written_unless_asked(older, capsys):
    before = Path("p.pb").read_bytes()
    code, out, err = run(capsys, "upgrade", "p.pb")
    assert (code, err) == (0, "")
    assert out.splitlines()[:3] == [
        "operator identity: version 1, which older ones became",
        "operator mul: version 1, which older ones became",
        "operator scaled: version 1 -> none, other operators do its work",
    ]
    assert "train with {batch=4}: its memory plan is gone; compiler plan makes one\n" in out
    sha256 = program_sha256(files.load("p.pb"))
    assert out.splitlines()[-1] == f"OK changes={out.count(chr(10)) - 1} program_sha256={sha256}"
    assert Path("p.pb").read_bytes() == before


def test_upgrading_twice_is_upgrading_once(older, capsys):
    assert run(capsys, "upgrade", "p.pb", "-o", "new.pb")[0] == 0
    assert files.load("new.pb") == files.load("p.pb"), "every verb reads the old file as the new one"
    once = Path("new.pb").read_bytes()
    assert once != Path("p.pb").read_bytes()
    for arguments in (["new.pb", "-o", "again.pb"], ["new.pb", "--in-place"]):
        code, out, _ = run(capsys, "upgrade", *arguments)
        assert (code, out.splitlines()[0]) == (0, "nothing to do: format and operators are those of today")
    assert Path("again.pb").read_bytes() == Path("new.pb").read_bytes() == once
    assert run(capsys, "upgrade", "p.pb", "--in-place")[0] == 0
    assert Path("p.pb").read_bytes() == once


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.pb")), ids=lambda path: path.stem)
def test_a_file_of_today_stays_the_same_to_the_byte(path: Path, tmp_path, capsys):
    copy = tmp_path / "copy.pb"
    code, out, _ = run(capsys, "upgrade", str(path), "-o", str(copy))
    assert (code, copy.read_bytes()) == (0, path.read_bytes())
    assert " changes=0 " in out


def test_a_file_that_is_there_stays_unless_forced(older, capsys):
    Path("there.pb").write_text("precious")
    code, _, err = run(capsys, "upgrade", "p.pb", "-o", "there.pb")
    assert (code, err) == (2, "compiler: there.pb: the file exists; --force replaces it\n")
    assert Path("there.pb").read_text() == "precious"
    assert run(capsys, "upgrade", "p.pb", "-o", "there.pb", "--force")[0] == 0
    assert run(capsys, "upgrade", "p.pb", "--force")[2] == "compiler: --force is for -o\n"


def test_what_cannot_be_upgraded_is_said(older, capsys, monkeypatch):
    program = files.load("p.pb")
    files.save(program, "new.pb")
    monkeypatch.setattr(upgrades, "OPERATOR_VERSIONS", {"mul": 2})
    code, _, err = run(capsys, "upgrade", "new.pb")
    assert (code, err) == (
        3,
        "compiler: new.pb: op 'mul' version 1 has no upgrade to version 2; compile the program again from its source\n",
    )
    Path("newer.pb").write_bytes(pb.ProgramDesc(format_version=99).SerializeToString())
    code, _, err = run(capsys, "upgrade", "newer.pb", "--in-place")
    assert (code, err) == (3, "compiler: newer.pb: format version 99, this prograd reads up to 1; update prograd\n")
