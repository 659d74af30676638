"""The corpus of operators; `python tests/golden_operators.py NAME` adds tests/golden/operators/NAME.pb to it.

A file has an entry for each operator that no earlier file has at its version. Its block holds what the op is given as
constants, the op, and what it gave when the file was written as constants as well: `found0` is to be `expected0`.
Files are only ever added. A later prograd that knows a newer version of an operator upgrades these ops, and they must
give the same still.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import numpy as np
from oracles.interpret import compute
from samples import SAMPLES, Sample
from subjects.cases import build

from compiler.passes.list_operators import list_operators
from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attribute_message
from prograd_proto.blocks import BlockAnalyses
from prograd_proto.files import parse, read, save
from prograd_proto.tensor_types import TensorType, tensor_desc
from prograd_proto.upgrades import FORMAT_VERSION
from registry import OPS

GOLDEN = Path(__file__).parent / "golden"
CORPUS = GOLDEN / "operators"

SMALL = 2000
"""Bytes of a block that may be one of two of its operator."""


def main() -> None:
    """Write the file, and its line into SHA256SUMS."""
    path = CORPUS / f"{sys.argv[1]}.pb"
    missing = sorted(wanted() - listed())
    if not missing:
        sys.exit("every operator is in the corpus at its version")
    CORPUS.mkdir(exist_ok=True)
    save(program_of([type for type, _ in missing]), path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    sums = GOLDEN / "SHA256SUMS"
    sums.write_text(sums.read_text() + f"{digest}  {path.relative_to(GOLDEN).as_posix()}\n")
    print(f"{path}: {len(missing)} operators, {path.stat().st_size} bytes")


def wanted() -> set[tuple[str, int]]:
    """Every operator at every version that it has had."""
    return {(op.name, version) for op in OPS.values() for version in range(1, op.version + 1)}


def listed() -> set[tuple[str, int]]:
    """Return the contents of the files before any upgrade."""
    programs = [parse(read(str(path))) for path in sorted(CORPUS.glob("*.pb"))]
    tried = {entry.name.partition(" ")[0] for program in programs for entry in program.entries}
    return {(op.type, op.version) for program in programs for op in program.operators if op.type in tried}


def program_of(types: list[str]) -> pb.ProgramDesc:
    """A program with an entry for each sample that is tried of these operators."""
    program = pb.ProgramDesc(format_version=FORMAT_VERSION, name="operators")
    for name in ("seed", "step", "total_steps"):
        state = program.states.add(name=name, dtype=pb.D_TYPE_INT64, shape=pb.Shape())
        state.kind, state.lifespan = pb.STATE_KIND_COUNTER, pb.LIFESPAN_ALWAYS
    for type in types:
        for number, block in enumerate(tried_of(type)):
            program.blocks.append(block)
            entry = program.entries.add(name=f"{type} {number}", source_block=len(program.blocks) - 1)
            entry.bindings.add(block=len(program.blocks) - 1)
    list_operators(BlockAnalyses(program))
    return program


def tried_of(type: str) -> list[pb.BlockDesc]:
    """Return the first and the last of the small samples, which usually differ most; else the smallest one."""
    blocks = [block_of(sample) for sample in SAMPLES if sample.op == type]
    small = [block for block in blocks if block.ByteSize() <= SMALL] or sorted(blocks, key=lambda b: b.ByteSize())[:1]
    return small[:1] if small[0] == small[-1] else [small[0], small[-1]]


def block_of(sample: Sample) -> pb.BlockDesc:
    """The op between constants."""
    case = build(sample)
    made = case.block.desc.ops[0]
    block = pb.BlockDesc(tensors=case.block.desc.tensors)
    for name, array in case.feeds.items():
        block.ops.append(constant(len(block.ops) + 1, name, array))
    block.ops.add().CopyFrom(made)
    block.ops[-1].id, block.ops[-1].location = len(block.ops), 0
    for i, (name, array) in enumerate(zip(made.outputs, compute(made, case.inputs), strict=True)):
        block.fetches.add(name=f"found{i}", tensor=name, over=pb.OVER_LAST)
        block.fetches.add(name=f"expected{i}", tensor=f"expected{i}", over=pb.OVER_LAST)
        block.tensors.append(tensor_desc(f"expected{i}", TensorType(array.dtype.name, array.shape)))
        block.ops.append(constant(len(block.ops) + 1, f"expected{i}", array))
    return block


def constant(number: int, name: str, array: np.ndarray) -> pb.OpDesc:
    dtype = tensor_desc("", TensorType(array.dtype.name, ())).dtype
    data = array.astype(array.dtype.newbyteorder("<")).tobytes()
    op = pb.OpDesc(id=number, type="constant", outputs=[name], stage=pb.STAGE_FORWARD)
    op.attributes.append(
        attribute_message("value", "tensor", pb.SmallTensor(dtype=dtype, shape=array.shape, data=data))
    )
    return op


if __name__ == "__main__":
    main()
