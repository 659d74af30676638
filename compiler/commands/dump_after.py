"""`--dump-after PASS` of the verbs that run passes: print the program as that pass leaves it."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.errors import CompileError
from compiler.passes.pass_table import Pass
from compiler.passes.run_passes import AfterPass
from prograd_proto import program_pb2 as pb
from prograd_proto.spelling import closest
from prograd_proto.text import to_text


def dumper(name: str, passes: Iterable[Pass]) -> AfterPass:
    """What prints the program after the pass of that name; raises CompileError if it is not among those that run."""
    known = [each.name for each in passes]
    if name not in known:
        raise CompileError(f"there is no pass {name!r}{closest(name, known)}; the passes are {', '.join(known)}")

    def dump(done: str, program: pb.ProgramDesc) -> None:
        if done == name:
            print(to_text(program), end="")

    return dump
