"""Old formats and operators become today's, or are refused with a sentence."""

from pathlib import Path

import pytest

from prograd_proto import ProgramError, TensorType, files, upgrades
from prograd_proto import program_pb2 as pb
from prograd_proto.tensor_types import tensor_desc
from prograd_proto.text import from_text, to_text
from prograd_proto.upgrades import Fresh, operator_upgrade, operator_version

REAL_TABLES = upgrades.OPERATOR_VERSIONS, upgrades.OPERATOR_UPGRADES, upgrades.FORMAT_UPGRADES

LOADED = """\
program old, format 1

operator fused version 1
operator relu version 1

state w: float32[2], parameter
  %w = fused() {scale=2.0}  # op 1

entry train = block 0
  binding {} = block 0
    plan 64 bytes
  binding {} = block 1
    plan 32 bytes

block 0
  parameter %x: float32[2] <- feed x
  %y: float32[2] = fused(%x)  # forward, op 1, train.py:3
  %z: float32[2] = relu(%y)  # forward, op 2, train.py:4

block 1
  %z: float32[2] = relu(_)  # op 1
"""


@pytest.fixture(autouse=True)
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of each test's own."""
    monkeypatch.setattr(upgrades, "OPERATOR_VERSIONS", {})
    monkeypatch.setattr(upgrades, "OPERATOR_UPGRADES", {})
    monkeypatch.setattr(upgrades, "FORMAT_UPGRADES", {})


def loaded(path: Path, text: str = LOADED) -> str:
    """The text of a program after a way through a file."""
    files.save(from_text(text), path, force=True)
    return to_text(files.load(path))


def sentence_for(path: Path, text: str = LOADED) -> str:
    with pytest.raises(ProgramError) as error:
        loaded(path, text)
    return str(error.value).removeprefix(f"{path.parent}/")


def without_remarks(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("#")) + "\n"


def test_an_operator_has_version_1_unless_the_table_says_more():
    assert operator_version("fused") == 1
    upgrades.OPERATOR_VERSIONS["fused"] = 4
    assert operator_version("fused") == 4


def test_a_program_of_today_is_loaded_as_it_is(tmp_path: Path):
    assert without_remarks(loaded(tmp_path / "x.pb")) == LOADED


def test_an_op_is_upgraded_version_by_version_in_blocks_and_in_states(tmp_path: Path):
    upgrades.OPERATOR_VERSIONS["fused"] = 3

    @operator_upgrade("fused", 1)
    def name_the_scale(op: pb.OpDesc, fresh: Fresh) -> list[pb.OpDesc]:
        if not op.attributes:
            op.attributes.add(name="scale", float_value=1.0)
        return [op]

    @operator_upgrade("fused", 2)
    def double_the_scale(op: pb.OpDesc, fresh: Fresh) -> list[pb.OpDesc]:
        op.attributes[0].float_value *= 2
        return [op]

    text = loaded(tmp_path / "x.pb")
    assert without_remarks(text) == (
        LOADED.replace("fused version 1", "fused version 3")
        .replace("scale=2.0", "scale=4.0")
        .replace("fused(%x)", "fused(%x) {scale=2.0}")
    )


def test_an_op_that_becomes_several_gets_fresh_names_and_ids_and_loses_its_plan(tmp_path: Path):
    upgrades.OPERATOR_VERSIONS.update(fused=2, mul=2, relu=1)

    @operator_upgrade("fused", 1, gives={"mul": 1, "relu": 1})
    def split(op: pb.OpDesc, fresh: Fresh) -> list[pb.OpDesc]:
        if not op.inputs:
            return [pb.OpDesc(id=op.id, type="mul", outputs=op.outputs)]
        half = fresh.tensor("half", fresh.type(op.inputs[0]))
        first = pb.OpDesc(id=fresh.id(), type="mul", inputs=op.inputs, outputs=[half], stage=op.stage)
        op.type = "relu"
        op.inputs[0] = half
        return [first, op]

    @operator_upgrade("mul", 1)
    def say_more(op: pb.OpDesc, fresh: Fresh) -> list[pb.OpDesc]:
        op.attributes.add(name="more", bool_value=True)
        return [op]

    assert (
        without_remarks(loaded(tmp_path / "x.pb"))
        == """\
program old, format 1

operator mul version 2
operator relu version 1

state w: float32[2], parameter
  %w = mul() {more=true}  # op 1

entry train = block 0
  binding {} = block 0
  binding {} = block 1
    plan 32 bytes

block 0
  parameter %x: float32[2] <- feed x
  %half_3: float32[2] = mul(%x) {more=true}  # forward, op 3
  %y: float32[2] = relu(%half_3)  # forward, op 1, train.py:3
  %z: float32[2] = relu(%y)  # forward, op 2, train.py:4
  order %x, %y, %z, %half_3

block 1
  %z: float32[2] = relu(_)  # op 1
"""
    )


def test_fresh_names_and_ids_are_of_nothing_in_the_block():
    block = pb.BlockDesc(ops=[pb.OpDesc(id=7)], tensors=[tensor_desc("t_1", TensorType("bool", ()))])
    fresh = Fresh(block)
    names = [fresh.tensor("t", TensorType("int32", (2, "batch"))) for _ in range(3)]
    assert len({"t_1", *names}) == 4
    assert fresh.type(names[0]) == ("int32", (2, "batch"))
    assert [fresh.id(), fresh.id()] == [8, 9]


def test_what_cannot_be_upgraded_is_refused(tmp_path: Path):
    path = tmp_path / "x.pb"
    assert sentence_for(path, LOADED.replace("fused version 1", "fused version 3")) == (
        "x.pb: op 'fused' version 3, this prograd knows up to 1; update prograd"
    )
    assert sentence_for(path, LOADED.replace("fused version 1", "fused version 0")) == (
        "x.pb: op 'fused' version 0: versions begin at 1"
    )
    assert sentence_for(path, LOADED.replace("operator relu version 1\n", "")) == (
        "x.pb: op 'relu' is used but not listed with its version among the operators"
    )
    assert sentence_for(path, LOADED.replace("operator relu version 1", "operator fused version 2")) == (
        "x.pb: op 'fused' is listed with versions 1 and 2; a program uses one version of an operator"
    )
    upgrades.OPERATOR_VERSIONS["fused"] = 2
    assert sentence_for(path) == (
        "x.pb: op 'fused' version 1 has no upgrade to version 2; compile the program again from its source"
    )


def test_a_first_value_that_becomes_two_ops_is_refused(tmp_path: Path):
    upgrades.OPERATOR_VERSIONS["fused"] = 2

    @operator_upgrade("fused", 1)
    def double(op: pb.OpDesc, fresh: Fresh) -> list[pb.OpDesc]:
        return [op, op]

    assert sentence_for(tmp_path / "x.pb") == (
        "x.pb: state 'w': op 'fused' version 1 becomes 2 ops, and a state's first value is one op; "
        "compile the program again from its source"
    )


def test_an_old_format_is_upgraded_step_by_step_or_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(upgrades, "FORMAT_VERSION", 3)
    program = pb.ProgramDesc(format_version=1, name="old")
    with pytest.raises(ProgramError) as error:
        upgrades.upgrade(program)
    assert str(error.value) == "format version 1 is no longer read; compile the program again from its source"

    def rename(program: pb.ProgramDesc) -> None:
        program.name += f" after {program.format_version}"

    upgrades.FORMAT_UPGRADES.update({1: rename, 2: rename})
    upgrades.upgrade(program)
    assert (program.format_version, program.name) == (3, "old after 1 after 2")


def test_the_tables_of_this_prograd_have_no_gap():
    versions, operators, formats = REAL_TABLES
    assert set(formats) == set(range(1, upgrades.FORMAT_VERSION))
    assert all(version > 1 for version in versions.values())
    for (type, version), (_, gives) in operators.items():
        assert version < versions.get(type, 1)
        assert all(given <= versions.get(name, 1) for name, given in gives.items())
