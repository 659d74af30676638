"""Programs that lie: random changes to good programs, as bytes and as messages.

Whatever comes out either runs or is refused by an error of ours; `python tests/mutations.py 600` tries that for ten
minutes and prints the seed of the first that does neither. `python tests/mutations.py --guard --count 100000 --jobs 2`
runs what comes out natively, with every buffer between forbidden pages, and compares bits; see `guards`.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from samples import SAMPLES
from subjects.cases import build

from compiler import Program, adam, constant, global_norm, ops, sgd, warmup_cosine
from compiler.passes.list_operators import list_operators
from prograd_proto import ProgramError, attributes_of, type_of
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses
from prograd_proto.files import END, canonical_bytes
from prograd_proto.tensor_types import tensor_desc
from prograd_proto.upgrades import FORMAT_VERSION
from registry import Value
from runtime.errors import ExecutionError, OutOfTime
from runtime.operators import CONTRACTS
from runtime.runs.run import Run, load

MEMORY = 1 << 22
"""Bytes that a run may take: what a mutation makes larger is refused and not tried."""

MORE_NETWORKS: list[Callable[[], Program]] = []
"""Networks beside the two of `networks`: `--loops` adds one, which most mutations then change."""

TRIPS = 64
"""Upper bound of the trips of a mutated loop that stores nothing, so that a mutation takes milliseconds."""

SECONDS = 0.5
"""Time that a step may take: a changed loop may never end."""

NUMBERS = (0, 1, 2, 3, 7, 63, 64, 255, 1 << 20, (1 << 31) - 1)
WIDE = (-1, -2, 1 << 32, 1 << 40, (1 << 63) - 1, -(1 << 63))


def networks() -> list[Program]:
    """Return two programs that train, with most of what programs have, and the requested further ones."""
    program = Program("images", seed=3)
    x, label = program.input("x", "float32", ("n", 6, 6, 2)), program.input("label", "int64", ("n",))
    filter, w = program.parameter("filter", (3, 3, 2, 4)), program.parameter("w", (16, 3))
    scale, bias = program.parameter("scale", (4,), constant(1.0)), program.parameter("bias", (4,), constant(0.0))
    mean, variance = program.buffer("mean", (4,)), program.buffer("variance", (4,), constant(1.0))
    h, new_mean, new_variance, *_ = ops.batch_norm(ops.conv2d(x, filter), scale, bias, mean, variance)
    program.update(mean, new_mean)
    program.update(variance, new_variance)
    h = ops.dropout(ops.max_pool2d(ops.relu(h), window=(2, 2), stride=(2, 2)), ratio=0.25)
    logits = ops.reshape(h, shape=("n", 16)) @ w
    program.minimize(ops.softmax_cross_entropy(logits, label), adam(warmup_cosine(0.1), clip=global_norm(1.0)))
    program.metrics(accuracy=ops.accuracy(logits, label))
    program.outputs(p=ops.softmax(logits))

    words = Program("words")
    i = words.input("i", "int32", (5,))
    table = words.parameter("table", (7, 4))
    pieces = ops.split(ops.gather(table, i), sizes=(1, 3), axis=1)
    joined = ops.concat(pieces[1] * 2.0, ops.exp(pieces[0]), axis=-1)
    words.minimize(ops.mean(joined[1:4, ::-1] ** 2), sgd(0.1))
    words.outputs(joined=ops.transpose(joined))
    return [program, words, *(more() for more in MORE_NETWORKS)]


def loops() -> Program:
    """A program with blocks inside ops, one in another."""
    program = Program("loops", seed=5)
    x, w = program.input("x", "float32", (3, 2)), program.parameter("w", (2,), constant(0.5))

    def inner(c: Value) -> Value:
        return ops.cond(ops.sum(c) > 1.0, lambda: ops.sin(c) * w, lambda: ops.dropout(c + w, ratio=0.25))

    def step(c: Value, row: Value) -> tuple[Value, tuple[Value, Value]]:
        c, trips = ops.while_loop(lambda c: ops.sum(ops.square(c)) < 2.0, lambda c: inner(c) + 0.5, c, max_trips=4)
        return c * row, (c, trips)

    last, (rows, trips) = ops.scan(step, x[0], x, reverse=True)
    program.minimize(ops.mean(ops.square(rows)) + ops.sum(last), sgd(0.1))
    program.outputs(doubled=ops.map(lambda row: row * 2.0, rows), trips=trips)
    return program


@cache
def good_programs() -> tuple[bytes, ...]:
    """The networks, and a program for every sample of every operator; as files."""
    compiled = [program.compile(**sizes).desc for program, sizes in zip(networks(), [{"n": 3}, {}, {}], strict=False)]
    return tuple(canonical_bytes(desc) + END for desc in [*compiled, *map(one_op, SAMPLES)])


def one_op(sample: Any) -> pb.ProgramDesc:
    program = pb.ProgramDesc(format_version=FORMAT_VERSION, name=sample.op)
    for name in ("seed", "step", "total_steps"):
        state = program.states.add(name=name, dtype=pb.D_TYPE_INT64, shape=pb.Shape())
        state.kind, state.lifespan = pb.STATE_KIND_COUNTER, pb.LIFESPAN_ALWAYS
    block = program.blocks.add()
    block.CopyFrom(build(sample).block.desc)
    outputs = {name for op in block.ops for name in op.outputs}
    block.parameters.extend(
        pb.ParameterDesc(tensor=t.name, feed=t.name) for t in block.tensors if t.name not in outputs
    )
    block.fetches.extend(pb.FetchDesc(name=n, tensor=n, over=pb.OVER_LAST) for n in block.ops[-1].outputs)
    program.entries.add(name="predict", source_block=0).bindings.add(block=0)
    list_operators(BlockAnalyses(program))
    return program


def mutated(seed: int) -> bytes:
    """A file made from a good one by a few changes; equal seeds give equal files."""
    rng = random.Random(seed)
    if MORE_NETWORKS and rng.random() < 0.75:
        return with_few_trips(loop_changed(rng))
    if rng.random() < 0.5:
        return one_op_changed(rng)
    raw = rng.choice(good_programs()[: 2 + len(MORE_NETWORKS) if rng.random() < 0.3 else None])
    if rng.random() < 0.15:
        return changed_bytes(rng, raw)
    program = pb.ProgramDesc.FromString(raw)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        change(rng, program)
    return program.SerializeToString(deterministic=True)


def loop_changed(rng: random.Random) -> bytes:
    """A program with loops after a few changes, most of them in the blocks inside ops."""
    raw = rng.choice(good_programs()[2 : 2 + len(MORE_NETWORKS)])
    if rng.random() < 0.1:
        return changed_bytes(rng, raw)
    program = pb.ProgramDesc.FromString(raw)
    inner = {number for block in program.blocks for op in block.ops for number in op.blocks}
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        if rng.random() < 0.3:
            change(rng, program)
            continue
        block = program.blocks[rng.choice(sorted(inner))] if rng.random() < 0.7 else rng.choice(list(program.blocks))
        message = rng.choice(list(messages(block)))
        change_field(rng, program, message, rng.choice(message.DESCRIPTOR.fields))
        inner = {n for each in program.blocks for op in each.ops for n in op.blocks if n < len(program.blocks)} or {0}
    return program.SerializeToString(deterministic=True)


def with_few_trips(raw: bytes) -> bytes:
    """The file with a bound of trips in its loops, if it can be read."""
    try:
        program = pb.ProgramDesc.FromString(raw)
    except Exception:
        return raw
    for op in (op for block in program.blocks for op in block.ops):
        for attribute in op.attributes:
            if attribute.name == "max_trips" and not 0 < attribute.int_value <= TRIPS:
                attribute.int_value = TRIPS if attribute.int_value >= 0 else -1
            for dim in attribute.shape_value.dims if attribute.name == "length" and op.type == "scan" else ():
                dim.size = min(dim.size, TRIPS)
    return program.SerializeToString(deterministic=True)


def one_op_changed(rng: random.Random) -> bytes:
    """One operator with other attributes and operand types, and its results described as the kernel then gives them."""
    program = pb.ProgramDesc.FromString(rng.choice(good_programs()[2 + len(MORE_NETWORKS) :]))
    block = program.blocks[0]
    op, tensors = block.ops[-1], {tensor.name: tensor for tensor in block.tensors}
    for _ in range(rng.choice((1, 1, 2, 3))):
        parts = [m for a in op.attributes for m in messages(a)] + [
            m for name in op.inputs if name for m in messages(tensors[name])
        ]
        message = rng.choice(parts) if parts else op
        field = rng.choice([f for f in message.DESCRIPTOR.fields if f.name not in ("name", "id", "symbol")])
        change_field(rng, program, message, field)
    contract = CONTRACTS[op.type]
    with suppress(Exception):  # whatever is wrong is for the runtime to find
        types = [type_of(tensors[name]) if name else None for name in op.inputs]
        made = contract.rule.results(*types, **attributes_of(op))
        for name, type in zip(op.outputs, made, strict=True):
            tensors[name].CopyFrom(tensor_desc(name, type))
    return program.SerializeToString(deterministic=True)


def changed_bytes(rng: random.Random, raw: bytes) -> bytes:
    data = bytearray(raw)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[at] = rng.randrange(256)
            case 1:
                data[at] ^= 1 << rng.randrange(8)
            case 2:
                del data[at : at + rng.randint(1, 40)]
            case _:
                data[at:at] = bytes(rng.choices(range(256), k=rng.randint(1, 8)))
        if not data:
            break
    return bytes(data)


def change(rng: random.Random, program: pb.ProgramDesc) -> None:
    """Change one field of one message, somewhere."""
    message = rng.choice(list(messages(program)))
    field = rng.choice(message.DESCRIPTOR.fields)
    if field.name not in ("complete", "format_version"):
        change_field(rng, program, message, field)


def change_field(rng: random.Random, program: pb.ProgramDesc, message: Message, field: FieldDescriptor) -> None:
    if not hasattr(getattr(message, field.name), "append"):
        set_field(rng, program, message, field)
        return
    values = getattr(message, field.name)
    match rng.randrange(4):
        case 0 if len(values):
            del values[rng.randrange(len(values))]
        case 1 if len(values) > 1:
            shuffled = [copied(value) for value in values]
            rng.shuffle(shuffled)
            del values[:]
            values.extend(shuffled)
        case 2 if len(values):
            values.append(copied(rng.choice(list(values))))
        case _ if field.message_type is None:
            made = scalar(rng, program, field)
            if len(values) and rng.random() < 0.7:
                values[rng.randrange(len(values))] = made
            else:
                values.append(made)
        case _:
            values.add()


def set_field(rng: random.Random, program: pb.ProgramDesc, message: Message, field: FieldDescriptor) -> None:
    if field.message_type is not None:
        twins = [m for m in messages(program) if m.DESCRIPTOR is field.message_type]
        if twins and rng.random() < 0.7:
            getattr(message, field.name).CopyFrom(copied(rng.choice(twins)))
        else:
            message.ClearField(field.name)
    elif rng.random() < 0.1:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, scalar(rng, program, field))


def scalar(rng: random.Random, program: pb.ProgramDesc, field: FieldDescriptor) -> Any:
    match field.type:
        case FieldDescriptor.TYPE_BOOL:
            return rng.random() < 0.5
        case FieldDescriptor.TYPE_STRING:
            return rng.choice([*names(program), "", "../x", "C:\\x", "a\nb", "x" * 2000])
        case FieldDescriptor.TYPE_BYTES:
            return bytes(rng.choices(range(256), k=rng.choice((0, 1, 8, 64))))
        case FieldDescriptor.TYPE_DOUBLE:
            return rng.choice([0.0, -1.0, 0.5, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf"), 3e9])
        case FieldDescriptor.TYPE_ENUM:
            return rng.choice([*range(8), 99, -1])
        case FieldDescriptor.TYPE_UINT32:
            return rng.choice(NUMBERS)
        case _:
            return rng.choice(NUMBERS + WIDE)


def names(program: pb.ProgramDesc) -> list[str]:
    found = {t.name for block in program.blocks for t in block.tensors} | {s.name for s in program.states}
    return sorted(found | {op.type for block in program.blocks for op in block.ops})


def messages(message: Message) -> Iterator[Message]:
    """The message and every one below it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if hasattr(value, "append") else [value]:
                yield from messages(part)


def copied(value: Any) -> Any:
    if not isinstance(value, Message):
        return value
    copy = type(value)()
    copy.CopyFrom(value)
    return copy


def outcome(raw: bytes, folder: Path) -> str:
    """Return the kind of prograd's error for a file, or "ran". Any other exception is a fault."""
    path = folder / "mutated.pb"
    path.write_bytes(raw)
    try:
        run = load(path, engine="reference", max_memory=MEMORY, spill=folder)
        bindings = [bound for entry in run.program.entries for bound in run.session.bindings(entry.name)]
    except (ProgramError, ExecutionError) as error:
        return type(error).__name__
    try:
        return next((word for word in (step(run, bound.name, bound) for bound in bindings) if word != "ran"), "ran")
    finally:
        run.close()


def step(run: Run, entry: str, bound: Any) -> str:
    rng = np.random.default_rng(0)
    try:
        executor = run.session.workspaces.executor(bound)
        for feed in executor.feeds.values():
            feed[...] = rng.normal(size=feed.shape) if feed.dtype.kind == "f" else rng.integers(0, 2, feed.shape)
        with limited(SECONDS):
            executor.step()
    except (ProgramError, ExecutionError) as error:
        if isinstance(error.__cause__, ValueError) and "math" not in str(error.__cause__):
            raise  # NumPy refuses arrays that the check let pass
        return type(error).__name__
    return "ran"


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise OutOfTime in the block after `seconds`; needs the timers of a POSIX system."""

    def ring(*_: object) -> None:
        raise OutOfTime("a mutated loop goes on")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def main() -> int:
    """Try mutations, from a seed that is printed, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", nargs="?", type=float, help="how long the reference engine is tried")
    parser.add_argument("seed", nargs="?", type=int, default=time.time_ns() % (1 << 40), help="the first seed")
    parser.add_argument("--guard", action="store_true", help="run natively, every buffer between forbidden pages")
    parser.add_argument("--instructions", default="", help="with --guard: an instruction set, as avx2")
    parser.add_argument("--count", type=int, default=1000, help="with --guard: how many seeds")
    parser.add_argument("--jobs", type=int, default=1, help="with --guard: processes")
    parser.add_argument("--loops", action="store_true", help="change mostly a program with conditions and loops")
    given = parser.parse_args()
    os.environ.setdefault("PROGRAD_CACHE", "off")  # a campaign writes no code into the folder of who runs it
    MORE_NETWORKS.extend([loops] if given.loops else [])
    if given.guard:
        return guarded(given.seed, given.count, given.jobs, given.instructions)
    if given.seconds is None:
        parser.error("say for how many seconds, or --guard")
    return by_reference(given.seconds, given.seed)


def guarded(seed: int, count: int, jobs: int, instructions: str) -> int:
    """Run mutations natively in child processes, with guarded memory; 1 if one of them is a fault."""
    from guards import campaign, trials

    good_programs()  # once, for all child processes
    counts = campaign.run(lambda n, folder: trials.mutation(mutated(n), folder, n, instructions), seed, count, jobs)
    print(f"{count} mutations from seed {seed}: {dict(counts)}")
    return int(campaign.FAULT in counts)


def by_reference(seconds: float, first: int) -> int:
    """Run mutations by the reference engine until one of them is a fault, which is raised."""
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    seed, until = first, time.monotonic() + seconds
    found: dict[str, int] = {}
    with TemporaryDirectory() as folder:
        while time.monotonic() < until:
            try:
                word = outcome(mutated(seed), Path(folder))
            except BaseException:
                print(f"seed {seed}: neither ran nor was refused")
                raise
            found[word] = found.get(word, 0) + 1
            seed += 1
    print(f"{seed - first} mutations from seed {first}: {found}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
