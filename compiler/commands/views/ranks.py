"""A program as the ranks of a run of several processes execute it: `show --rank` and `plan --ranks`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from compiler.commands.engine_arenas import engine_arenas, in_words
from compiler.commands.ops_in_words import size_in_words
from compiler.errors import UsageError
from prograd_proto import ProgramError, type_of
from prograd_proto import program_pb2 as pb
from prograd_proto.states import held
from runtime.ranks.deal import dealt, shards_of_entry
from runtime.ranks.exchanges import Exchange, exchanges


def of_rank(options: argparse.Namespace, program: pb.ProgramDesc) -> pb.ProgramDesc:
    """Return the program as the rank of `--rank` executes it; as it is without the option."""
    if options.rank is None:
        return program
    rank, ranks = options.rank
    _require_shards(options.program, program, ranks)
    try:
        return dealt(program, rank, ranks, cuts_states=options.zero)
    except ProgramError as error:
        raise ProgramError(f"{options.program}: {error}") from None


def ranks_in_words(options: argparse.Namespace, program: pb.ProgramDesc) -> Iterator[str]:
    """Yield a line for each rank, with its memory and the bytes that it sends, and a line for each exchange."""
    if options.ranks is None:
        return
    entry = _require_shards(options.program, program, options.ranks)
    for rank in range(options.ranks):
        try:
            found = dealt(program, rank, options.ranks, cuts_states=options.zero)
        except ProgramError as error:
            raise ProgramError(f"{options.program}: {error}") from None
        steps = list(exchanges(_largest(found, entry)))
        if not rank:
            yield f"{entry} by {options.ranks} ranks, whose exchanges are:"
            yield from map(_exchange_in_words, steps)
        sent = size_in_words(sum(step.sent for step in steps))
        states = size_in_words(sum(type_of(state).nbytes for state in held(found)))
        arenas = engine_arenas(found, 1)
        arena = in_words({name: nbytes[entry] for name, nbytes in arenas.items()})
        yield f"  rank {rank}: states {states}, arena {arena}, sends {sent} in a step"


def _exchange_in_words(exchange: Exchange) -> str:
    op = exchange.op
    tensors = len(op.outputs)
    what = "1 tensor" if tensors == 1 else f"{tensors} tensors"
    return f"  {op.type} of {what}, {size_in_words(exchange.nbytes)}"


def _require_shards(path: str, program: pb.ProgramDesc, ranks: int) -> str:
    """Return the first entry with shards; raise UsageError unless there is one for each rank."""
    shards = {entry.name: shards_of_entry(program, entry.name) for entry in program.entries}
    entry = max(shards, key=lambda name: shards[name], default="")
    if not shards or shards[entry] < ranks:
        has = f"at most {shards[entry]} shards" if shards and shards[entry] else "no shards"
        raise UsageError(
            f"{path}: a step has {has}, and there are {ranks} ranks; "
            f"compile the program with as many, as in compile(batch=..., shards={ranks})"
        )
    return entry


def _largest(program: pb.ProgramDesc, name: str) -> pb.BlockDesc:
    entry = next(entry for entry in program.entries if entry.name == name)
    return program.blocks[entry.bindings[0].block]
