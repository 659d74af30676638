"""When updates happen, and why some wait."""

from __future__ import annotations

from subjects.budgets import deep

from compiler import adam, global_norm
from compiler.analyses.update_times import BETTER_ORDER, PARAMETERS_READ_UNTIL_THEN, READS_OTHER_GRADIENTS, update_times
from compiler.passes.pipeline import PASSES
from compiler.passes.run_passes import run_passes
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis


def block_of(program: pb.ProgramDesc) -> pb.BlockDesc:
    return program.blocks[program.entries[0].bindings[0].block]


def test_updates_follow_their_gradients_where_nothing_holds_them_back():
    program = deep(depth=3).compile(n=2).desc
    times = update_times(program, BlockAnalysis(block_of(program)))
    assert [(time.state, time.deferred) for time in times] == [("w2", ""), ("w1", ""), ("w0", "")]
    for time in times:
        assert block_of(program).ops[time.position].type == "momentum"


def test_clipping_by_the_global_norm_makes_all_wait_for_all():
    program = deep(adam(0.1, clip=global_norm(1.0)), depth=3).compile(n=2).desc
    assert [time.deferred for time in update_times(program, BlockAnalysis(block_of(program)))] == [
        READS_OTHER_GRADIENTS
    ] * 3


def test_updates_that_come_last_are_deferred_though_nothing_asks_for_it():
    program = deep(depth=3).compile(n=2).desc
    run_passes(program, PASSES.only("bind_dimensions"))
    block = block_of(program)
    ops = sorted(block.ops, key=lambda op: op.stage == pb.STAGE_UPDATE)
    copies = [pb.OpDesc.FromString(op.SerializeToString()) for op in ops]
    del block.ops[:]
    block.ops.extend(copies)
    reasons = {time.state: time.deferred for time in update_times(program, BlockAnalysis(block))}
    assert reasons["w0"] == ""
    assert {reasons["w1"], reasons["w2"]} <= {BETTER_ORDER, PARAMETERS_READ_UNTIL_THEN}


def test_a_parameter_that_is_read_until_its_update_says_so():
    program = deep(depth=3).compile(n=2).desc
    block = block_of(program)
    update = next(time.position for time in update_times(program, BlockAnalysis(block)) if time.state == "w2")
    late = pb.OpDesc.FromString(block.ops[update].SerializeToString())
    tensor = next(p.tensor for p in block.parameters if p.state == "w2")
    del block.ops[update]
    block.ops.add(type="abs", inputs=[tensor], outputs=["read"], stage=pb.STAGE_DERIVATIVE)
    block.ops.add().CopyFrom(late)
    assert {time.state: time.deferred for time in update_times(program, BlockAnalysis(block))} == {
        "w0": "",
        "w1": "",
        "w2": PARAMETERS_READ_UNTIL_THEN,
    }
