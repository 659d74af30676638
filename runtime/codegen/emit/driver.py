"""The function that runs a step: phases in order, the chunks of each on all threads.

The function is the same for all programs. Its work is in two tables of words. The table of phases has the first chunk
and the number of chunks of each. The table of chunks has the function, its table of addresses, its first work item and
the one after its last, and the distance to the record that the same thread runs next; 0 for none. A phase with a
negative number of chunks has actions, which the caller runs: loops and conditions are jumps between phases.

Each thread has a range of the chunks of a phase: the same part of the list in every phase and step, so it finds the
data in its caches. It takes the chunks of its range in order, and then those that are left in the ranges of the next
threads. So a thread that is late, or whose core is slow, keeps no other thread waiting but by the chunk that it holds.

The caller opens a phase by a new round. Each thread has a claim word, `round << 20 | taken`: the last round in which
chunks of its range were taken, and their number. A thread takes a chunk by replacing that word, if it is unchanged. A
word of an earlier round means that no chunk is taken yet, one of a later round that the thread itself is late. All
chunks of a round are taken before the next one, so a late thread takes no chunk twice and none of another phase. The
caller continues when all chunks are done: groups of threads count those of their helpers, from the first round on, and
the caller adds these numbers up. It waits for helpers only if they hold a chunk. A helper that finds no chunk stays
while phases are running, however long one takes, because a sleeping helper is not woken before the next call.

On Linux helpers sleep in `help`, and the caller wakes all of them by one system call when it begins. A helper announces
its sleep before it reads whether phases are running, and the caller stores that they run before it looks for sleepers:
one of them sees the other. A helper that finds itself on the caller's CPU restricts itself to the other cores, because
each of the two would run only half of the time there.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from runtime.codegen.board import (
    ALARM,
    BUSY,
    CALLER_CPU,
    CLAIMS,
    COUNT_BITS,
    DONE,
    GET_CPU,
    LINE_WORDS,
    MASK_BYTES,
    MAX_GROUPS,
    OPEN,
    OTHER_CORES,
    PAUSED,
    SINGLE,
    SLEEPERS,
    STOP,
    SYSTEM_CALL,
    THREADS_OF_GROUP,
    WAKINGS,
    WORDS,
)
from runtime.codegen.code import LOOP_WORDS
from runtime.codegen.emit.actions import Interpreter, copy_bytes, run_actions
from runtime.codegen.emit.records import Records
from runtime.codegen.ir import INT64, UINT8, Function, Index, Module, Value, pointer
from runtime.codegen.ir.words import minimum, where

SPINS_BEFORE_YIELD: Final = 4096
"""Number of reads of the board, while the caller waits for the last chunk, before it yields its core."""

STEPS_WORDS, RECORD_WORDS = 4, 3
"""Words of the head of a table of steps, and of each result in it."""

FUTEX, SET_AFFINITY = range(2)
SYSTEM_CALLS: Final = {"x86_64": (202, 203), "aarch64": (98, 122), "riscv64": (98, 122)}
"""Numbers of system calls of Linux, by the architecture: `futex`, and `sched_setaffinity`."""

SLEEP, WAKE = 128, 129
"""Operations of a futex that the threads of one process use."""

ALL_SLEEPERS: Final = (1 << 31) - 1

SPINS_BETWEEN_LOOKS: Final = 64
"""Reads of the board between two looks of an idle helper at its CPU."""

ROWS_WORDS, PLACE_WORDS = 3, 2
"""Words of the head of a table of rows that are read in place, and of each address that leads to them."""


class _Tables(NamedTuple):
    """A function under construction, and the addresses of the board, of the phases and of the chunks in it."""

    records: Records
    f: Function
    board: Value
    phases: Value
    chunks: Value


RANGE_BITS: Final = 32
"""Bits of the fraction of a range: bounds of ranges need one division for each phase."""

NUMBER_MASK: Final = (1 << COUNT_BITS) - 1


def write_driver(module: Module) -> None:
    """Write six functions, and `iterate`, `claim`, `done` and `take`, which they call.

    drive(board, phases, chunks, first phase, phase after the last, threads, yield): runs these phases, but none after
    one in which a runtime check of a chunk failed. repeat(board, phases, chunks, first phase, phase after the last,
    threads, yield, steps): runs them many times. help(board, phases, chunks, thread, threads, yield, spins, yields):
    takes chunks until it is to leave or, without system calls, until no phase has run for that long. wake(board): wakes
    all helpers that sleep. take_rows(table, start, stop, thread): a chunk, see `_take_rows`. point_at_rows(table,
    start, stop, thread): likewise, see `_point_at_rows`.

    `yield` is the address of the system's function of that name, without arguments. `steps` is a table: the number of
    steps; the number of steps before the first failed check; the word with the position of a step's first row, and its
    increment; the number of results that are kept, and the source, the destination and the bytes of each.
    """
    _write_shared(module, Records())
    _repeat(module)
    _take_rows(module)
    _point_at_rows(module)


def write_driver_of_library(module: Module, *, has_threads: bool, has_control: bool) -> list[str]:
    """Write the driver of a library, whose tables have numbers; return the names of the functions that others call.

    With threads these are `drive`, `help` and `wake`, see `write_driver`. Otherwise it is drive(board, phases, chunks,
    first phase, phase after the last), without an atomic operation. `has_control`: a step has conditions or loops.
    """
    records = Records(in_library=True)
    if has_threads:
        _write_shared(module, records)
        return ["drive", "help", "wake"]
    if has_control:
        _iterate(module, records)
    words = pointer(INT64)
    f = module.function("drive", [words, records.type, records.type, INT64, INT64])
    board, phases, chunks, first, last = f.arguments
    next_phase = f.local()
    place = _Tables(records, f, board, phases, chunks)
    alarm, zero = f.address_at(board, ALARM, INT64), f.index(0)
    f.store(first, next_phase)
    with f.forever() as running:
        phase = f.load(next_phase)
        running.end_if((phase >= last) | f.load(alarm).not_equal(0))
        begin, count = records.phase(f, phases, phase)
        f.store(phase + 1, next_phase)
        if has_control:
            _run_alone(place, begin, count, phase, next_phase)
            running.end_if(f.load(board + PAUSED) > 0)
        else:
            for number in f.range(0, count):
                _run(place, begin + number, phase, zero, may_loop=False)
    f.end()
    return ["drive"]


def _write_shared(module: Module, records: Records) -> None:
    """Write the functions that run phases on several threads."""
    _iterate(module, records)
    _claim(module)
    _done(module)
    _take(module, records)
    _drive(module, records)
    _help(module, records)
    _write_wake(module)


def _run_alone(tables: _Tables, begin: Value, count: Value, phase: Value, next_phase: Value) -> None:
    """Run the chunks of a phase, or its actions, on the caller's thread."""
    f, zero = tables.f, tables.f.index(0)
    for chunk in f.range(0, count):
        _run(tables, begin + chunk, phase, zero)
    words = f.address_at(tables.board, WORDS, INT64)
    run_actions(Interpreter(f, tables.board, words, phase, next_phase), tables.records, begin, zero - count)


def _repeat(module: Module) -> None:
    words = pointer(INT64)
    f = module.function("repeat", [words, words, words, INT64, INT64, INT64, words, words])
    *of_drive, steps = f.arguments
    count, batch, kept = (f.load(steps, i) for i in (0, 2, 3))
    row, alarm = f.address_at(steps, 1, INT64), f.address_at(of_drive[0], ALARM, INT64)
    f.store(f.index(0), steps)
    for step in f.range(0, count):
        f.call("drive", *of_drive)
        with f.when(f.load(alarm).equal(0)):
            f.store(f.index(step) + 1, steps)
            f.store(f.load(row) + batch, row)
            for i in f.range(0, kept):
                record = steps + (f.index(i) * RECORD_WORDS + STEPS_WORDS)
                result, keep = f.address_at(record, 0, UINT8), f.address_at(record, 1, UINT8)
                size = f.load(record, 2)
                for byte in f.range(0, size):
                    f.store(f.load(result, byte), keep, f.index(step) * size + byte)
    f.end()


def _take_rows(module: Module) -> None:
    """Copy rows to the operand of a step: those at positions from that of the step's first row on.

    The table has the address of all rows, the destination, the row numbers in order, the word with the position of the
    first, the number of bytes to copy, and the bytes of a row.
    """
    f = module.function("take_rows", [pointer(INT64), INT64, INT64, INT64])
    table, start, stop, _ = f.arguments
    rows, to = f.address_at(table, 0, UINT8), f.address_at(table, 1, UINT8)
    numbers, first = f.address_at(table, 2, INT64), f.load(f.address_at(table, 3, INT64))
    size, apart = f.load(table, 4), f.load(table, 5)
    for item in f.range(start, stop):
        row = rows + f.load(numbers, first + item) * apart
        index = to + f.index(item) * apart
        copy_bytes(f, row, index, size)
    f.end()


def _point_at_rows(module: Module) -> None:
    """Let groups read rows in place: from that of the step's first row on, in order.

    The table begins with the address of all rows, the word with the position of the first row, and the bytes of a row.
    For each work item follow the address of a word of a group's table, and the offset of that word from the first row.
    """
    f = module.function("point_at_rows", [pointer(INT64), INT64, INT64, INT64])
    table, start, stop, _ = f.arguments
    at = f.load(table) + f.load(f.address_at(table, 1, INT64)) * f.load(table, 2)
    for item in f.range(start, stop):
        record = table + (f.index(item) * PLACE_WORDS + ROWS_WORDS)
        f.store(at + f.load(record, 1), f.address_at(record, 0, INT64))
    f.end()


def _drive(module: Module, records: Records) -> None:
    words = pointer(INT64)
    f = module.function("drive", [words, records.type, records.type, INT64, INT64, INT64, words])
    board, phases, chunks, first, last, threads, give_way = f.arguments
    spins, next_phase, before = f.local(), f.local(), f.local()
    place = _Tables(records, f, board, phases, chunks)
    zero, alarm = f.index(0), f.address_at(board, ALARM, INT64)
    f.atomic_store(1, board + BUSY)
    with f.when(threads > 1):
        with f.when(f.atomic_load(board + SLEEPERS, in_order=True).not_equal(0)):
            f.call("wake", board)
        with f.when(f.load(board + GET_CPU).not_equal(0)):
            f.store(f.call_for_int(f.address_at(board, GET_CPU, INT64)), board + CALLER_CPU)
        done = f.call("done", board, threads, result=INT64)
        assert done is not None, "it has a result"
        f.store(done, before)
    f.store(first, next_phase)
    with f.forever() as running:
        phase = f.load(next_phase)
        running.end_if((phase >= last) | f.load(alarm).not_equal(0))
        begin, count = records.phase(f, phases, phase)
        f.store(phase + 1, next_phase)
        alone = (threads < 2) | (count < 2)
        with f.when(alone):
            _run_alone(place, begin, count, phase, next_phase)
        with f.when(~alone):
            f.store(zero, spins)
            turn = (f.load(board + OPEN) >> COUNT_BITS) + 1
            f.store((turn << COUNT_BITS) + 1, board + CLAIMS)  # the first chunk, before anybody else can take it
            now = (turn << COUNT_BITS) + phase
            f.atomic_store(now, board + OPEN)
            _run(place, begin, phase, zero)
            taken = f.call("take", board, phases, chunks, now, zero, threads, result=INT64)
            assert taken is not None, "it has a result"
            with f.forever() as waiting:
                now_done = f.call("done", board, threads, result=INT64)
                assert now_done is not None, "it has a result"
                waiting.end_if((now_done - f.load(before) + taken + 1).equal(count))
                _wait(f, spins, f.index(SPINS_BEFORE_YIELD), give_way)
            f.store(f.load(before) + count - taken - 1, before)
        with f.when(f.load(board + SINGLE).not_equal(0)):
            f.store(f.load(next_phase), board + PAUSED)
        running.end_if(f.load(board + PAUSED) > 0)
    f.atomic_store(0, board + BUSY)
    f.end()


def _help(module: Module, records: Records) -> None:
    words = pointer(INT64)
    f = module.function("help", [words, records.type, records.type, INT64, INT64, words, INT64, INT64])
    board, phases, chunks, thread, threads, give_way, most_spins, most_yields = f.arguments
    idle, seen = f.local(), f.local()
    with f.forever() as helping:
        helping.end_if(f.atomic_load(board + STOP).not_equal(0))
        now = f.atomic_load(board + OPEN)
        is_new = now.not_equal(f.load(seen))
        with f.when(is_new):
            f.store(now, seen)
            done = f.call("take", board, phases, chunks, now, thread, threads, result=INT64)
            assert done is not None, "it has a result"
            f.store(where(done > 0, f.index(0), f.load(idle)), idle)
        with f.when(~is_new):
            _wait(f, idle, most_spins, give_way)
            with f.when(f.atomic_load(board + BUSY).not_equal(0)):
                f.store(minimum(f.load(idle), most_spins), idle)
            with f.when((f.load(idle) & (SPINS_BETWEEN_LOOKS - 1)).equal(0)):
                _leave_core_of_caller(f, board)
        is_tired = f.load(idle) > most_spins + most_yields
        helping.end_if(is_tired & f.load(board + SYSTEM_CALL).equal(0))
        with f.when(is_tired):
            _sleep(f, board)
            f.store(f.index(0), idle)
    f.end()


def _sleep(f: Function, board: Value) -> None:
    """Sleep until the caller wakes the helpers, unless it has begun a step meanwhile."""
    wakings = f.atomic_load(board + WAKINGS)
    f.atomic_add(board + SLEEPERS, 1)
    is_needed = f.atomic_load(board + BUSY, in_order=True) | f.atomic_load(board + STOP, in_order=True)
    with f.when(is_needed.equal(0)):
        word, system_call = board + WAKINGS, f.address_at(board, SYSTEM_CALL, INT64)
        number = SYSTEM_CALLS[f.target.architecture][FUTEX]
        f.system_call(system_call, number, word, f.index(SLEEP), wakings, f.index(0))
    f.atomic_add(board + SLEEPERS, -1)


def _write_wake(module: Module) -> None:
    f = module.function("wake", [pointer(INT64)])
    [board] = f.arguments
    f.atomic_add(board + WAKINGS, 1)
    with f.when(f.load(board + SYSTEM_CALL).not_equal(0)):
        system_call, number = f.address_at(board, SYSTEM_CALL, INT64), SYSTEM_CALLS[f.target.architecture][FUTEX]
        f.system_call(system_call, number, board + WAKINGS, f.index(WAKE), f.index(ALL_SLEEPERS))
    f.end()


def _leave_core_of_caller(f: Function, board: Value) -> None:
    """Restrict this thread to the other cores if it is on the CPU of the caller."""
    with f.when(f.load(board + GET_CPU).not_equal(0)):
        cpu = f.call_for_int(f.address_at(board, GET_CPU, INT64))
        masks = f.address_at(board, OTHER_CORES, INT64)
        with f.when(cpu.equal(f.atomic_load(board + CALLER_CPU)) & (cpu < f.load(masks))):
            mask = masks + (cpu * (MASK_BYTES // 8) + MASK_BYTES // 8)
            system_call, number = (
                f.address_at(board, SYSTEM_CALL, INT64),
                SYSTEM_CALLS[f.target.architecture][SET_AFFINITY],
            )
            f.system_call(system_call, number, f.index(0), f.index(MASK_BYTES), mask)


def _claim(module: Module) -> None:
    """Take a chunk of a range: claim(claim word, round, chunks of the range) -> its number in the range, or -1."""
    f = module.function("claim", [pointer(INT64), INT64, INT64], INT64, public=False)
    word, turn, size = f.arguments
    found = f.local()
    with f.forever() as claiming:
        old = f.atomic_load(word)
        taken = where((old >> COUNT_BITS).equal(turn), old & NUMBER_MASK, f.index(0))
        none = (old >> COUNT_BITS > turn) | (taken >= size)
        f.store(where(none, f.index(-1), taken), found)
        claiming.end_if(none)
        claiming.end_if(f.atomic_replace(word, old, (turn << COUNT_BITS) + taken + 1))
    f.end(f.load(found))


def _done(module: Module) -> None:
    """Count the chunks that helpers have finished in all rounds: done(board, threads) -> number."""
    f = module.function("done", [pointer(INT64), INT64], INT64, public=False)
    board, threads = f.arguments
    total = f.local()
    f.store(f.index(0), total)
    for group in f.range(0, _group(threads - 1) + 1):
        f.store(f.load(total) + f.atomic_load(board + (group * LINE_WORDS + DONE)), total)
    f.end(f.load(total))


def _group(thread: Value) -> Value:
    """Return the number of the group of a thread."""
    return minimum(thread >> THREADS_OF_GROUP.bit_length() - 1, thread.function.index(MAX_GROUPS - 1))


def _take(module: Module, records: Records) -> None:
    """Run chunks of an open phase until none is left: take(board, phases, chunks, open, thread, threads) -> number.

    A helper tells that chunks are done when it leaves a range.
    """
    words = pointer(INT64)
    f = module.function("take", [words, records.type, records.type, INT64, INT64, INT64], INT64, public=False)
    board, phases, chunks, now, thread, threads = f.arguments
    all_done, done = f.local(), f.local()
    turn, phase = now >> COUNT_BITS, now & NUMBER_MASK
    begin, count = records.phase(f, phases, phase)
    each, zero = (count << RANGE_BITS) // threads, f.index(0)
    f.store(zero, all_done)
    for number in f.range(0, threads):
        owner = (thread + number) % threads
        first, stop = (each * (owner + i) + ((1 << RANGE_BITS) - 1) >> RANGE_BITS for i in range(2))
        f.store(zero, done)
        with f.forever() as taking:
            chunk = f.call("claim", board + (owner * LINE_WORDS + CLAIMS), turn, stop - first, result=INT64)
            assert chunk is not None, "it has a result"
            taking.end_if(chunk < 0)
            _run(_Tables(records, f, board, phases, chunks), begin + first + chunk, phase, thread)
            f.store(f.load(done) + 1, done)
        f.store(f.load(all_done) + f.load(done), all_done)
        with f.when((f.load(done) > 0) & (thread > 0)):
            f.atomic_add(board + (_group(thread) * LINE_WORDS + DONE), f.load(done))
    f.end(f.load(all_done))


def _run(tables: _Tables, number: Index, phase: Value, thread: Value, *, may_loop: bool = True) -> None:
    """Run a chunk of a phase and the records after it."""
    records, f, board, phases, chunks = tables
    numbers = f.repeat([f.index(number)])
    for [index] in numbers:
        record = records.chunk(chunks, index)
        if may_loop:
            is_loop = records.is_loop(f, record)
            with f.when(is_loop):
                f.call("iterate", board, phases, chunks, phase, record, thread)
            with f.when(~is_loop):
                records.call(f, board, record, thread)
        else:
            records.call(f, board, record, thread)
        further = records.further(f, record)
        numbers.carry([index + further], further.not_equal(0))


def _iterate(module: Module, records: Records) -> None:
    """Run iterations of a loop in the thread's own copy of its block; see `code.LOOP_WORDS`."""
    words = pointer(INT64)
    f = module.function("iterate", [words, records.type, records.type, INT64, records.type, INT64], public=False)
    board, phases, chunks, phase, record, thread = f.arguments
    next_phase, zero = f.local(), f.index(0)
    numbers = records.table(f, board, record)
    distance, count, row, apart, begun, trips, first_row, step = (f.load(numbers, i) for i in range(LOOP_WORDS))
    table, (start, end) = f.address_at(board, WORDS, INT64), records.items(f, record)
    first = phase + distance + thread * count
    row = row + thread * apart
    stop = minimum(end, f.load(table, trips) - f.load(table, begun))
    for item in f.range(start, stop):
        f.store(f.load(table, first_row) + f.index(item) * step, table, row)
        f.store(first, next_phase)
        with f.forever() as running:
            here = f.load(next_phase)
            running.end_if(here >= first + count)
            begin, size = records.phase(f, phases, here)
            f.store(here + 1, next_phase)
            for chunk in f.range(0, size):
                _run(_Tables(records, f, board, phases, chunks), begin + chunk, here, zero, may_loop=False)
            interpreter = Interpreter(f, board, table, here, next_phase, may_return=False)
            run_actions(interpreter, records, begin, zero - size)
    f.end()


def _wait(f: Function, count: Value, most: Value, give_way: Value) -> None:
    """Wait a moment; after enough waits, yield the core."""
    waited = f.load(count) + 1
    f.store(waited, count)
    f.pause()
    with f.when(waited > most):
        f.call_at(give_way)
