"""Limits of symbols: sizes that an imported model was traced for, which compile refuses to leave."""

from pathlib import Path

import numpy as np
import pytest
from subjects.commands import told

from compiler import CompileError, constant
from prograd import Program, Run, load, ops, sgd
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.identity import program_sha256
from prograd_proto.text import from_text, to_text
from runtime.check.run import check_entries


def limited(least: int = 2, most: int = 8, reason: str = "net.py:6") -> Program:
    program = Program("limited")
    x = program.input("x", "float32", ("batch", 64))
    y = x @ program.parameter("w", (64, 8), constant(0.5))
    program.limits["batch"] = pb.SymbolLimits(symbol="batch", least=least, most=most, reason=reason)
    program.minimize(ops.mean(y), sgd(0.1))
    program.outputs(y=y)
    return program


def sizes_bound(program: Program) -> set[int]:
    bindings = [each for entry in program.compile(batch=4).desc.entries for each in entry.bindings]
    return {dim.size for each in bindings for dim in each.dims}


@pytest.mark.parametrize(
    ("limits", "size", "message"),
    [
        (
            (2, 8), 32,
            "batch=32: the model was imported for batch from 2 to 8, where net.py:6 decides by it; import it with an "
            "example of 32, or bind another size",
        ),
        (
            (1, 8, ""), 9,
            "batch=9: the model was imported for batch up to 8; import it with an example of 9, or bind another size",
        ),
        (
            (2, 0, ""), 1,
            "batch=1: the model was imported for batch from 2; import it without 'batch', or bind another size",
        ),
    ],
)  # fmt: skip
def test_a_size_outside_of_the_limits_is_refused(limits: tuple, size: int, message: str):
    assert told(CompileError, lambda: limited(*limits).compile(batch=size)) == message


def test_predictions_take_single_rows_only_within_the_limits():
    assert [sizes_bound(limited(least)) for least in (1, 2)] == [{4, 1}, {4}]
    run = Run(limited().compile(batch=4))
    assert run.predict({"x": np.ones((8, 64), np.float32)})["y"].shape == (8, 8)


def test_limits_are_in_the_file_and_its_text_and_stay_when_it_is_built_on(tmp_path: Path):
    limited().compile(batch=4).save(tmp_path / "a.pb")
    desc = load(tmp_path / "a.pb").program
    assert from_text(to_text(desc)) == desc
    assert 'limits batch from 2 to 8, "net.py:6"' in to_text(desc).splitlines()
    with pytest.raises(CompileError, match=r"^batch=16: the model was imported for batch from 2 to 8"):
        Program.load(tmp_path / "a.pb").compile(batch=16)


def test_the_identity_of_a_program_has_its_limits_without_their_reason():
    a, b, c = (program_sha256(limited(*given).compile(batch=4).desc) for given in ((2, 8), (2, 8, ""), (2, 9)))
    assert a == b != c


@pytest.mark.parametrize(("least", "most"), [(0, 8), (9, 8), (1, -1)])
def test_a_file_with_limits_that_no_size_keeps_is_refused(least: int, most: int):
    desc = limited().compile(batch=4).desc
    desc.limits[0].least, desc.limits[0].most = least, most
    assert told(ProgramError, lambda: check_entries(desc)) == f"the symbol 'batch' is limited to {least} to {most}"
