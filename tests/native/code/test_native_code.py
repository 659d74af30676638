"""NativeCode: equal for equal blocks, the same after bytes, bound at several places, printed; numbers out of bounds."""

from dataclasses import fields, replace

import numpy as np
import pytest
from subjects.steps import bound_block

from compiler import Program, adam, ops
from prograd_proto import type_of
from runtime import Run
from runtime.codegen import lower
from runtime.codegen.actions import CLEAR, COPY, HOST, JUMP, JUMP_IF_DONE, LINK, NAMES, PAUSE, ROW, SET
from runtime.codegen.assemble import Assembly
from runtime.codegen.code import ARENA, CHECK, LOOP_STEP, NUMBER, NativeCode
from runtime.codegen.code_bounds import fits
from runtime.codegen.code_bytes import TABLES, from_bytes, to_bytes
from runtime.engines.native import jit
from runtime.engines.native.cpu import this_machine
from runtime.engines.native.step import bind_code
from runtime.engines.native.step_code import StepOptions, lowered
from runtime.memory.aligned import aligned_bytes

THREADS = 2


@pytest.fixture(scope="module")
def desc():
    """A training step with views, constants, random numbers, a check, a late update and two host ops, one in a loop."""
    program = Program("everything")
    x, rows = program.input("x", "float32", ("batch", 8)), program.input("rows", "int64", ("batch",))
    w, table = program.parameter("w", (8, 16)), program.parameter("table", (20, 16))
    y = ops.dropout(ops.relu(x @ w), ratio=0.5) + ops.gather(table, rows)
    y = ops.map(lambda row: ops.cumsum(row, axis=0), y)
    gram = ops.matmul(w, w, transpose_b=True) + ops.eye.on(program)(shape=(8, 8)) * 3.0
    _, logarithm = ops.log_determinant(gram)
    ramp = ops.reshape(ops.eye.on(program)(shape=(2, 4)), shape=(8,)) * 3.0

    def shuffled(c, row):
        return ops.gather(c, ops.permutation.on(program)(count=8)) * row + ramp, None

    powers, _ = ops.scan(shuffled, w[:, 3], ops.transpose(w, axis=(1, 0)))
    last = program.buffer("last", (8,))
    program.minimize(ops.mean(ops.transpose(y, axis=(1, 0))[3:9]) + 0.01 * logarithm, adam(0.1))
    program.update(last, w[:, 3] + powers)
    return program.compile(batch=32).desc


@pytest.fixture(scope="module")
def block(desc):
    return bound_block(desc)


def made(block, desc):
    step = lowered(block, this_machine(), StepOptions(threads=THREADS), desc.blocks)
    assembly = Assembly(step)
    written = assembly.source.write()
    objects = [jit.compiled(module) for module in written.modules]
    return assembly.code(written.functions, objects)


@pytest.fixture(scope="module")
def code(block, desc):
    return made(block, desc)


def is_accepted(code: NativeCode, block, desc) -> bool:
    types = {tensor.name: type_of(tensor) for tensor in block.tensors}
    return fits(code, block, types, (), this_machine(), THREADS, desc.blocks)


def test_the_block_has_all_that_code_may_have(code):
    for field in fields(NativeCode):
        assert len(value) if hasattr(value := getattr(code, field.name), "__len__") else value is not None, field.name
    assert {ARENA, NUMBER, CHECK} <= set(code.words[:, 0].tolist())


def test_two_lowerings_give_equal_code_and_another_block_gives_other_code(code, block, desc):
    again = made(block, desc)
    assert again == code
    assert to_bytes(again) == to_bytes(code)
    assert replace(code, threads=3) != code
    assert replace(code, words=code.words + 1) != code
    assert code != "code"


def test_code_is_the_same_after_bytes(code, block, desc):
    read = from_bytes(to_bytes(code))
    assert read == code
    assert is_accepted(read, block, desc)


def test_no_part_of_the_bytes_is_accepted_as_a_whole(code):
    content = to_bytes(code)
    assert all(from_bytes(content[:end]) is None for end in (*range(300), len(content) - 1))
    assert from_bytes(content + b"\0") is None


def test_code_is_printed_with_symbols_for_addresses(code, block, desc):
    lines = str(code).splitlines()
    assert lines[0] == f"code for {this_machine().name}, 2 threads"
    words = "\n".join(lines)
    for symbol in ("state w + 0", "arena + ", "feed x + 0", "number ", "check 0", "host op ", "runtime check"):
        assert symbol in words, symbol
    assert sum(line.startswith("phase ") for line in lines) == code.phase_count


def test_the_same_code_bound_at_two_places_gives_equal_bits(code, block, desc):
    loaded = jit.load_all(code.objects, code.target)
    found = []
    for _ in range(2):
        rng = np.random.default_rng(0)
        types = {tensor.name: type_of(tensor) for tensor in block.tensors}
        of = {update.state: update.tensor for update in block.updates}
        of |= {p.state: p.tensor for p in block.parameters if p.WhichOneof("source") == "state"}
        states = {name: np.zeros(types[x].static_shape, types[x].dtype) for name, x in of.items()}
        for name in ("w", "table"):
            states[name][...] = rng.normal(size=states[name].shape)
        step = bind_code(code, loaded, block, states, aligned_bytes(code.arena_bytes), program=desc)
        feed = {feed.name: step.arrays[feed.tensor] for feed in code.feeds}
        feed["x"][...], feed["rows"][...] = rng.normal(size=(32, 8)), rng.integers(0, 20, 32)
        step()
        ends = [step.arrays[block.updates[i].tensor] for i in code.late_updates]
        found.append([array.tobytes() for array in [*states.values(), *ends]])
    assert found[0] == found[1]
    assert len(set(found[0])) > 3


def with_table(name, change):
    def changed(code):
        table = getattr(code, name).copy()
        change(table)
        return replace(code, **{name: table})

    return changed


def put(*place, value):
    def change(table):
        table[place] = value

    return change


def put_where(opcode, column, value):
    def change(table):
        table[table[:, 0] == opcode, column] = value

    return change


HUGE = 2**62

WRONG_TABLES = [
    ("words", put(0, 0, value=HUGE)),
    ("words", put(0, 0, value=-1)),
    ("words", put(0, 1, value=HUGE)),
    ("words", put(0, 1, value=-8)),
    ("table_starts", put(1, value=HUGE)),
    ("table_starts", put(0, value=-1)),
    ("phases", put(0, 0, value=HUGE)),
    ("phases", put(0, 1, value=HUGE)),
    ("phases", put(0, 1, value=-HUGE)),
    ("chunks", put(0, 0, value=HUGE)),
    ("chunks", put(0, 1, value=HUGE)),
    ("chunks", put(0, 2, value=-1)),
    ("chunks", put(0, 3, value=-1)),
    ("chunks", put(0, 4, value=HUGE)),
    ("chunks", put(-1, 4, value=1)),
    ("chunks", put(0, 4, value=-1)),
    ("actions", put(0, 0, value=len(NAMES))),
    ("actions", put(0, 0, value=-1)),
    ("actions", put(0, 1, value=HUGE)),
    ("actions", put(0, 1, value=-1)),
    ("actions", put_where(COPY, 2, value=HUGE)),
    ("actions", put_where(COPY, 3, value=HUGE)),
    ("actions", put_where(COPY, 3, value=-1)),
    ("actions", put_where(JUMP, 3, value=HUGE)),
    ("actions", put_where(JUMP_IF_DONE, 3, value=-HUGE)),
    ("actions", put_where(JUMP_IF_DONE, 3, value=0)),
    ("actions", put_where(LINK, 3, value=HUGE)),
    ("actions", put_where(LINK, 3, value=-8)),
    ("actions", put_where(ROW, 3, value=HUGE)),
    ("actions", put_where(ROW, 3, value=-8)),
    ("actions", put_where(PAUSE, 3, value=0)),
    ("actions", put_where(PAUSE, 0, value=LINK)),
    ("actions", put(0, value=(CLEAR, 0, 0, 8, HUGE // 8))),
    ("actions", put(0, value=(CLEAR, 0, 0, 0, HUGE))),
    ("actions", put(0, value=(CLEAR, 0, 0, 8, -1))),
    ("actions", put(0, value=(CLEAR, 0, 0, HUGE, 1))),
    ("actions", put_where(HOST, 1, value=1)),
    ("segments", put(0, 0, value=HUGE)),
    ("segments", put(0, 1, value=HUGE)),
    ("segments", put(0, 3, value=HUGE)),
    ("group_segments", put(0, 2, value=-1)),
    ("group_segments", put(0, 1, value=-2)),
    ("group_ops", put(0, value=HUGE)),
    ("group_ends", put(-1, value=HUGE)),
    ("group_ends", put(0, value=0)),
    ("tensors", put(0, 0, value=HUGE)),
    ("tensors", put(0, 1, value=HUGE)),
    ("tensors", put(0, 1, value=NUMBER)),
    ("tensors", put(0, 2, value=HUGE)),
    ("tensors", put(0, 2, value=-1)),
    ("tensors", put(0, 3, value=HUGE)),
    ("tensors", put(0, 3, value=-2)),
    ("buffers", put(0, 0, value=-1)),
    ("buffers", put(-1, 3, value=HUGE)),
    ("buffer_groups", put(0, value=HUGE)),
]


@pytest.mark.parametrize(("name", "change"), WRONG_TABLES)
def test_a_table_with_a_number_out_of_bounds_does_not_fit(code, block, desc, name, change):
    wrong = with_table(name, change)(code)
    assert wrong != code
    assert is_accepted(code, block, desc)
    assert not is_accepted(wrong, block, desc)


def first(values, change):
    return (change(values[0]), *values[1:])


WRONG_FIELDS = {
    "target": lambda code: replace(code.target, l2_bytes=1),
    "threads": lambda code: 3,
    "useful_threads": lambda code: 0,
    "functions": lambda code: (),
    "states": lambda code: first(code.states, lambda name: "another"),
    "constants": lambda code: first(code.constants, lambda op: HUGE),
    "inner_constants": lambda code: first(code.inner_constants, lambda pair: (pair[0], HUGE)),
    "feeds": lambda code: first(code.feeds, lambda feed: feed._replace(offset=code.arena_bytes)),
    "arena_bytes": lambda code: 64,
    "packed_bytes": lambda code: 2**70,
    "phase_count": lambda code: HUGE,
    "packing": lambda code: (0, 1),
    "runtime_checks": lambda code: (code.group_count,),
    "late_updates": lambda code: (-1,),
    "copied_fetches": lambda code: (),
    "hosts": lambda code: first(code.hosts, lambda host: host._replace(op=HUGE)),
    "inner_hosts": lambda code: first(code.inner_hosts, lambda host: host._replace(op=HUGE)),
    "inner_groups": lambda code: first(code.inner_groups, lambda group: (group[0], HUGE)),
    "tensor_names": lambda code: first(code.tensor_names, lambda name: "another"),
    "types": lambda code: first(code.types, lambda type: type._replace(dtype="float128")),
    "layouts": lambda code: first(code.layouts, lambda layout: (HUGE,) * len(layout)),
    "buffer_names": lambda code: (),
}


@pytest.mark.parametrize(
    ("number", "value"),
    [*((i, HUGE) for i in range(7)), (0, 0), (0, -1), (1, 0), (1, 10_000), (2, -1), (3, -10_000), (4, -1)],
)
def test_threads_share_a_loop_only_by_phases_and_words_that_exist(code, block, desc, number, value):
    group = int(code.chunks[code.chunks[:, 0] == LOOP_STEP, 1][0])
    start = int(code.table_starts[group])
    assert is_accepted(code, block, desc)
    assert not is_accepted(with_table("words", put(start + number, 1, value=value))(code), block, desc)
    assert not is_accepted(with_table("words", put(start, 0, value=ARENA))(code), block, desc)
    assert not is_accepted(with_table("actions", put(0, value=(SET, start, 0, 8, 0)))(code), block, desc)


WRONG_HOSTS = {
    "group": (-1, HUGE),
    "block": (-1, HUGE),
    "op": (-1, HUGE),
    "inputs": ((), (HUGE, 0), (-1, 0)),
    "outputs": ((), (HUGE,), (-1,)),
    "scratch": ((HUGE,), (-1,)),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG_HOSTS.items() for value in values])
def test_a_host_op_in_a_loop_has_its_op_and_the_words_of_its_tensors(code, block, desc, name, value):
    wrong = first(code.inner_hosts, lambda host: host._replace(**{name: value}))
    assert not is_accepted(replace(code, inner_hosts=wrong), block, desc)


@pytest.mark.parametrize("name", WRONG_FIELDS)
def test_a_field_out_of_bounds_does_not_fit(code, block, desc, name):
    assert not is_accepted(replace(code, **{name: WRONG_FIELDS[name](code)}), block, desc)


def test_every_field_is_tried():
    tried = {name for name, _ in WRONG_TABLES} | WRONG_FIELDS.keys()
    assert {field.name for field in fields(NativeCode)} - tried == {"objects", "file_bytes"}
    assert {name for name, _ in WRONG_TABLES} == TABLES.keys()


@pytest.mark.parametrize("name", [field.name for field in fields(NativeCode) if field.name not in TABLES])
def test_a_field_of_another_type_is_not_read(code, name):
    wrong = to_bytes(code).replace(f'"{name}":'.encode(), f'"{name}":{{"a":1.5}},"was {name}":'.encode())
    size = int.from_bytes(wrong[:8], "little") + len(wrong) - len(to_bytes(code))
    assert from_bytes(size.to_bytes(8, "little") + wrong[8:]) is None


def test_an_entry_that_is_bound_twice_is_lowered_and_compiled_once(monkeypatch):
    lowerings, loadings = [], []
    real_lowered, real_linked = lower.lowered, jit.linked
    monkeypatch.setattr(lower, "lowered", lambda *given, **named: lowerings.append(0) or real_lowered(*given, **named))
    monkeypatch.setattr(jit, "linked", lambda objects: loadings.append(0) or real_linked(objects))
    program = Program("twice")
    program.outputs(y=program.input("x", "float32", (2, 8)) @ program.parameter("w", (8, 4)))
    run = Run(program.compile().desc, engine="native")
    [bound] = run.session.bindings("predict")
    engine = run.session.engine
    loadings.clear()  # of the driver
    executors = [engine.workspace().prepare(bound, run.states.arrays, ()) for _ in range(2)]
    for executor in executors:
        executor.feeds["x"][...] = np.arange(8)
        executor.step()
    assert np.array_equal(executors[0].fetches["y"], executors[1].fetches["y"])
    assert not np.shares_memory(executors[0].feeds["x"], executors[1].feeds["x"])
    assert (len(lowerings), len(loadings)) == (1, 1)
