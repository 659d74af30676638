"""Checking takes work in proportion to the program: counted in instructions of Python, on programs that grow."""

import sys
from collections.abc import Callable

import pytest
from subjects.small_programs import linear

from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.files import END, canonical_bytes, copy_of, parse
from prograd_proto.identity import program_sha256
from prograd_proto.tensor_types import TensorType, tensor_desc
from prograd_proto.upgrades import Fresh, upgrade
from runtime.check import check_program
from runtime.check.run import MAX_BINDINGS
from runtime.engines.reference.target import REFERENCE
from runtime.entries import bound_entries

N = 150
FLOAT = TensorType("float32", (3,))


@pytest.fixture(scope="module")
def small() -> pb.ProgramDesc:
    return linear().compile(batch=4).desc


def operators(program: pb.ProgramDesc, n: int) -> None:
    program.operators.extend(pb.OperatorVersion(type=f"unused_{i}", version=1) for i in range(n))


def states(program: pb.ProgramDesc, n: int) -> None:
    w = next(state for state in program.states if state.name == "w")
    for i in range(n):
        program.states.add().CopyFrom(w)
        program.states[-1].name = f"w_{i}"
        program.states[-1].op.outputs[:] = [f"w_{i}"]


def locations(program: pb.ProgramDesc, n: int) -> None:
    program.locations.extend(f"train.py:{i}" for i in range(n))


def files(program: pb.ProgramDesc, n: int) -> None:
    program.files.extend(pb.FileDesc(path=f"f{i}.safetensors", sha256=bytes(32)) for i in range(n))


def a_feed(block: pb.BlockDesc) -> pb.TensorDesc:
    """A float32 tensor that is fed, with the symbol or the number of rows."""
    name = next(p.tensor for p in block.parameters if p.feed == "x")
    return next(tensor for tensor in block.tensors if tensor.name == name)


def train_blocks(program: pb.ProgramDesc) -> list[pb.BlockDesc]:
    """The block that runs and its source."""
    entry = next(entry for entry in program.entries if entry.name == "train")
    entry.bindings[0].ClearField("plan")
    return [program.blocks[entry.bindings[0].block], program.blocks[entry.source_block]]


def ops(program: pb.ProgramDesc, n: int) -> None:
    """A chain in which every result is written over its operand, and named at length."""
    block = train_blocks(program)[0]
    x, last = a_feed(block), max(op.id for op in block.ops)
    before = x.name
    for i in range(n):
        tensor = block.tensors.add()
        tensor.CopyFrom(x)
        tensor.name = f"negative_{i}" + "_" * 500
        block.ops.add(id=last + 1 + i, type="neg", inputs=[before], outputs=[tensor.name], stage=1)
        before = tensor.name
    if not any(operator.type == "neg" for operator in program.operators):
        program.operators.add(type="neg", version=1)


def updates(program: pb.ProgramDesc, n: int) -> None:
    for block in train_blocks(program)[:1]:
        for i in range(n):
            name = f"old_{i}"
            block.tensors.append(tensor_desc(name, FLOAT))
            block.parameters.add(tensor=name, state=f"w_{i}")
            block.updates.add(state=f"w_{i}", tensor=name)


def fetches(program: pb.ProgramDesc, n: int) -> None:
    for block in train_blocks(program):
        x = a_feed(block).name
        block.fetches.extend(pb.FetchDesc(name=f"fetch_{i}", tensor=x, over=pb.OVER_LAST) for i in range(n))


def feeds(program: pb.ProgramDesc, n: int) -> None:
    for block in train_blocks(program):
        x = a_feed(block)
        for i in range(n):
            tensor = block.tensors.add()
            tensor.CopyFrom(x)
            tensor.name = f"feed_{i}"
            block.parameters.add(tensor=tensor.name, feed=tensor.name)


def entries(program: pb.ProgramDesc, n: int) -> None:
    predict = next(entry for entry in program.entries if entry.name == "predict")
    room = MAX_BINDINGS - sum(len(entry.bindings) for entry in program.entries)
    for i in range(min(n, room)):
        entry = program.entries.add(name=f"entry_{i}", source_block=predict.source_block)
        entry.bindings.add().CopyFrom(predict.bindings[0])
        entry.bindings[0].dims.add(symbol=f"other_{i}", size=i + 1)


def blocks(program: pb.ProgramDesc, n: int) -> None:
    program.blocks.extend(pb.BlockDesc(tensors=[tensor_desc("x", FLOAT)]) for _ in range(n))


GROWERS = (operators, states, locations, files, ops, updates, fetches, feeds, entries, blocks)


def check(program: pb.ProgramDesc) -> None:
    check_program(program, REFERENCE)


def load(program: pb.ProgramDesc) -> None:
    upgrade(parse(canonical_bytes(program) + END))


def identify(program: pb.ProgramDesc) -> None:
    program_sha256(program)


def bind(program: pb.ProgramDesc) -> None:
    bound_entries(program, "train")


def instructions(call: Callable[[], object]) -> int:
    """Return the number of Python instructions of a call."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("question", [check, load, identify, bind])
def test_twice_the_program_takes_twice_the_work(question: Callable[[pb.ProgramDesc], None], small: pb.ProgramDesc):
    counts = []
    for n in (0, N, 2 * N):
        program = copy_of(small)
        for grow in GROWERS:
            grow(program, n if grow is not entries else n // 4)
        question(program)  # fills what is kept for all programs
        counts.append(instructions(lambda p=program: question(p)))
    first, second = counts[1] - counts[0], counts[2] - counts[1]
    assert second <= 1.15 * first + 1000


def test_an_upgrade_that_makes_many_tensors_looks_for_each_name_once():
    def names(n: int) -> None:
        block = pb.BlockDesc(tensors=[tensor_desc(f"x_{i}", FLOAT) for i in range(n, 2 * n)])
        fresh = Fresh(block)
        for _ in range(n):
            fresh.tensor("x", FLOAT)

    assert instructions(lambda: names(400)) < 2.2 * instructions(lambda: names(200))


def test_entries_have_a_limit_of_blocks(small: pb.ProgramDesc):
    program = copy_of(small)
    binding = program.entries[0].bindings[0]
    count = sum(len(entry.bindings) for entry in program.entries)
    program.entries[0].bindings.extend([binding] * (MAX_BINDINGS - count))
    check_program(program, REFERENCE)
    program.entries[0].bindings.add().CopyFrom(binding)
    with pytest.raises(ProgramError, match=r"^the entries have 1025 sizes in all; at most 1024 are supported$"):
        check_program(program, REFERENCE)
