"""Lifespans that an author declares: what they refuse, in words, and that passes keep them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from subjects.commands import told

from compiler import CompileError, Program, Value, constant, ops, sgd
from compiler.analyses.lifespans import lifespans_of
from compiler.passes.verify import verify
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from prograd_proto.text import from_text, to_text
from registry import OpError

RULE = "every tensor is defined and read, itself or through a view, only within its declared lifespan"

Declare = Callable[[Program, dict[str, Value]], object]


def built(declare: Declare) -> Program:
    """tanh(x * w) + 1, viewed as a row; its mean is minimised. tanh keeps its output for the backward pass."""
    program = Program("declared")
    x = program.input("x", "float32", ("n", 3))
    w = program.parameter("w", (3,), constant(0.5))
    seen = program.buffer("seen", (3,))
    h = ops.tanh(x * w)
    s = h + 1.0
    row = ops.reshape(h, shape=("n", 3, 1))
    program.minimize(ops.mean(s) + ops.mean(row), sgd(0.1))
    program.update(seen, seen + 1.0)
    declare(program, {"x": x, "w": w, "seen": seen, "h": h, "s": s, "row": row})
    return program


@pytest.mark.parametrize(
    ("name", "lifespan"), [("s", "forward"), ("h", "iteration"), ("x", "iteration"), ("seen", "epoch"), ("w", "always")]
)
def test_what_holds_is_compiled(name: str, lifespan: Any):
    desc = built(lambda p, v: p.lifespan(v[name], lifespan)).compile(n=2).desc
    assert to_text(from_text(to_text(desc))) == to_text(desc)


def test_a_declaration_is_in_every_block_that_has_the_tensor():
    program = built(lambda p, v: p.lifespan(v["h"], "iteration"))
    desc = program.compile(n=2).desc
    blocks = [block for block in desc.blocks if any(t.name == "tanh_2" for t in block.tensors)]
    assert len(blocks) == len(desc.blocks) == 5
    found = {t.lifespan for block in blocks for t in block.tensors if t.name == "tanh_2"}
    assert found == {pb.LIFESPAN_ITERATION}
    assert "%tanh_2: float32[2, 3] lasting iteration = tanh(" in to_text(desc)


def viewed(p: Program, v: dict[str, Value]) -> None:
    p.fetch("view", ops.reshape(v["s"], shape=("n", 3, 1)))
    p.lifespan(v["s"], "forward")


def fetched(p: Program, v: dict[str, Value]) -> None:
    p.fetch("s", v["s"])
    p.lifespan(v["s"], "forward")


@pytest.mark.parametrize(
    ("declare", "sentence"),
    [
        (
            lambda p, v: p.lifespan(v["h"], "forward"),
            "op 21 (mul) of the backward pass reads %tanh_2, which lasts forward",
        ),
        (
            lambda p, v: p.lifespan(v["h"], "backward"),
            "op 2 (tanh) of the forward pass defines %tanh_2, which lasts backward",
        ),
        (lambda p, v: p.lifespan(v["x"], "backward"), "%x, which lasts backward, is fed"),
        (lambda p, v: p.lifespan(v["x"], "forward"), "op 25 (mul) of the backward pass reads %x, which lasts forward"),
        (fetched, "the end of the step reads %add_4, which lasts forward"),
        (viewed, "the end of the step reads %reshape_31, a view of %add_4, which lasts forward"),
    ],
)
def test_a_use_outside_is_refused(declare: Declare, sentence: str):
    with pytest.raises(CompileError) as error:
        built(declare).compile(n=2)
    assert str(error.value) == f"block 0: {sentence}; this breaks the rule: {RULE}"


H = "%tanh_2: float32[n, 3] is a tensor of a step"


@pytest.mark.parametrize(
    ("name", "lifespan", "sentence"),
    [
        ("h", "epoch", f"{H}, which cannot last 'epoch'; use forward, backward, iteration"),
        ("h", "ever", f"{H}, which cannot last 'ever'; use forward, backward, iteration"),
        ("w", "forward", "%w: float32[3] is a state, which cannot last 'forward'; use epoch, always"),
        ("w", "epoch", "%w: float32[3] is no buffer, and only a buffer lasts an epoch"),
    ],
)
def test_what_a_tensor_cannot_last_is_refused_at_once(name: str, lifespan: Any, sentence: str):
    assert told(OpError, lambda: built(lambda p, v: p.lifespan(v[name], lifespan))).endswith(f": lifespan: {sentence}")


def test_a_buffer_can_be_declared_to_last_an_epoch():
    desc = built(lambda p, v: p.lifespan(v["seen"], "epoch")).compile(n=2).desc
    assert next(s.lifespan for s in desc.states if s.name == "seen") == pb.LIFESPAN_EPOCH


def test_passes_put_nothing_in_the_place_of_a_declared_tensor_and_it_in_the_place_of_nothing():
    """Undeclared, the second exp is the first one, which then lasts the iteration, and the product by one is gone."""

    def count(declare: bool) -> tuple[list[str], pb.ProgramDesc]:
        program = Program("twice")
        x = program.input("x", "float32", (3,))
        first, second = ops.exp(x), ops.exp(x)
        same = first * 1.0
        program.parameter("w", (3,), constant(0.5))
        loss = ops.sum(ops.exp(program.state("w")) * second) + ops.sum(same)
        program.minimize(loss, sgd(0.1))
        if declare:
            program.lifespan(first, "forward")
        desc = program.compile().desc
        block = desc.blocks[desc.entries[0].bindings[0].block]
        return [op.type for op in block.ops if op.stage == pb.STAGE_FORWARD], desc

    free, _ = count(declare=False)
    held, desc = count(declare=True)
    assert (free.count("exp"), held.count("exp")) == (2, 3)
    assert held.count("mul") == free.count("mul") + 1
    block = desc.blocks[desc.entries[0].bindings[0].block]
    assert lifespans_of(desc, BlockAnalysis(block))["exp_1"] == pb.LIFESPAN_FORWARD
    verify(BlockAnalyses(desc))


def test_a_tensor_that_nobody_reads_goes_with_its_declaration():
    program = built(lambda p, v: p.lifespan(ops.exp(v["h"]), "backward"))
    assert all(tensor.lifespan == 0 for block in program.compile(n=2).desc.blocks for tensor in block.tensors)
