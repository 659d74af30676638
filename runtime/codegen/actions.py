"""Actions: how the driver of a step runs conditions and loops, on the words of the step's tables.

A phase with a negative number of chunks has as many actions instead, which the calling thread runs in order. Phases
follow each other unless an action jumps. A block inside an op is a range of phases between actions of its op:

    scan        begin | prepack | test | body | next | end      the last jumps to the test, and the test to the end
    while_loop  begin | prepack | test | condition | test | body | next | end
    cond        test | branch for true | next | branch for false | end

An action has an opcode and four numbers, a, b, c and d. W[i] is word i of the tables: an address, or a number.
"""

from __future__ import annotations

from typing import Final, NamedTuple

ACTION_COLUMNS: Final = 5

(LINK, ROW, SET, ADD, LOAD, LOAD_BYTE, STORE, COPY, CLEAR, TOGGLE, LIMIT) = range(11)
(JUMP, JUMP_IF_ZERO, JUMP_IF_DONE, PAUSE, HOST) = range(11, 16)
"""Opcodes.

LINK: W[a] = W[b] + c.
ROW: W[a] = W[b] + c W[d], the address of a row.
SET: W[a] = c.
ADD: W[a] = W[a] + c.
LOAD: W[a] = the int64 at the address W[b].
LOAD_BYTE: W[a] = the byte at the address W[b].
STORE: the int64 at the address W[a] = W[b].
COPY: copy c bytes from the address W[b] to W[a], if these differ.
CLEAR: write zeros to the rows from number W[b] to before d of the array at W[a], each of c bytes.
TOGGLE: W[a] = W[c] if it is W[b], else W[b].
LIMIT: fail a runtime check, by the words at the addresses W[b] and W[d], if W[a] is not from 0 to c.
JUMP: the next phase is the one c phases further on.
JUMP_IF_ZERO: the same if W[a] is 0.
JUMP_IF_DONE: the same if W[a] is not below W[b].
PAUSE: add c to W[a]; if it is at least `costs.MAX_CYCLES_BETWEEN_SIGNALS`, let the caller look for signals, and go on
with the next phase. d is 1 if the loop may take longer than `costs.MAX_COMBINED_LOOP_CYCLES`.
HOST: let the caller compute host op number a of the blocks inside ops, and go on with the next phase.
"""

NAMES: Final = (
    "link",
    "row",
    "set",
    "add",
    "load",
    "load byte",
    "store",
    "copy",
    "clear",
    "toggle",
    "limit",
    "jump",
    "jump if zero",
    "jump if done",
    "pause",
    "host op",
)
"""Names of actions by opcode."""

USED_WORDS: Final = (
    (0, 1),
    (0, 1, 3),
    (0,),
    (0,),
    (0, 1),
    (0, 1),
    (0, 1),
    (0, 1),
    (0, 1),
    (0, 1, 2),
    (0, 1, 3),
    (),
    (0,),
    (0, 1),
    (0,),
    (),
)
"""For each opcode, the columns among `a`, `b`, `c` and `d` that hold numbers of words."""

WRITING: Final = (LINK, ROW, SET, ADD, LOAD, LOAD_BYTE, TOGGLE, LIMIT, PAUSE)
"""Actions that set the word `a`."""

JUMPS: Final = (JUMP, JUMP_IF_ZERO, JUMP_IF_DONE)


class Action(NamedTuple):
    """One action; see the opcodes."""

    opcode: int
    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0
