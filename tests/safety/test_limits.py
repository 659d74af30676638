"""Maximum sizes: what no run accepts is refused when it is built, compiled or read, before anything is computed."""

from __future__ import annotations

import pytest
from subjects.commands import told

from compiler import CompileError, OpError, Program, ops
from compiler.__main__ import main as compile_
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.files import load, save
from runtime.__main__ import main as run


def doubled(name: str = "x", *extents: int) -> Program:
    program = Program("p")
    program.outputs(o=program.input(name, "float32", ("n", *extents)) * 2.0)
    return program


@pytest.mark.parametrize("rank", [33, 1000])
@pytest.mark.parametrize(
    "command",
    ["compiler check", "compiler compile", "compiler plan", "compiler summary", "runtime check", "runtime execute"],
)
def test_too_many_axes_of_a_file_are_refused(command: str, rank: int, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    doubled().compile(n=1).save("p.pb")
    program = load("p.pb")
    for block in program.blocks:
        for tensor in block.tensors:
            tensor.shape.dims.extend([pb.Dim(size=1)] * (rank - len(tensor.shape.dims)))
    save(program, "p.pb", force=True)
    main, verb = {"compiler": compile_, "runtime": run}[command.split()[0]], command.split()[1]
    assert main([verb, "p.pb"]) == 3
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"'x': there are {rank} axes; at most 32 are supported")


def test_too_many_axes_are_refused_where_they_are_declared_or_made():
    program = Program("p")
    with pytest.raises(ProgramError, match=r"there are 41 axes; at most 32 are supported$"):
        program.input("x", "float32", ("n",) + (1,) * 40)
    with pytest.raises(ProgramError, match=r"there are 33 axes; at most 32 are supported$"):
        program.parameter("w", (1,) * 33)
    x = program.input("x", "float32", ("n", 4))
    with pytest.raises(ProgramError, match=r"there are 42 axes; at most 32 are supported$"):
        ops.reshape(x, shape=("n", 4) + (1,) * 40)
    program.outputs(o=ops.reshape(x, shape=("n", 4) + (1,) * 30))  # 32 axes may be
    program.compile(n=2)


def test_a_long_name_is_refused_where_it_is_declared():
    with pytest.raises(OpError, match=r"input 'x+…: the name has 1001 characters; a name has at most 1000$"):
        doubled("x" * 1001)
    doubled("x" * 900).compile(n=1)


def test_sizes_that_no_run_accepts_are_refused_by_the_compiler():
    assert told(CompileError, lambda: doubled("x", 0).compile(n=1 << 30)) == (
        "bind_dimensions: entry 'predict': %x: float32[1073741824, 0] has no elements and too many places for them"
    )
    with pytest.raises(CompileError) as caught:
        doubled().compile(n=tuple(range(1, 1100)))
    assert str(caught.value) == "bind_dimensions: the entries have 1099 sizes in all; at most 1024 are supported"
