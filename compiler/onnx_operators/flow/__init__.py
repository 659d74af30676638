"""Conditions and loops.

bodies      branches and bodies, read in the block that is being built
branches    conditions
invariants  carried values that a loop leaves unchanged
loops       loops and scans
written     conditions and loops of a program as nodes of ONNX
"""

from typing import Final

from compiler.exporters.onnx.call import Export
from compiler.frontends.onnx.node import Mapping
from compiler.onnx_operators.flow import branches, loops, written

IMPORTS: Final[dict[str, Mapping]] = branches.IMPORTS | loops.IMPORTS

EXPORTS: Final[dict[str, Export]] = written.EXPORTS
