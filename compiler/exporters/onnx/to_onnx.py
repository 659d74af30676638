"""to_onnx: an entry of a program as an ONNX model that computes the same numbers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from compiler.errors import CompileError
from compiler.exporters.merged_states import without_side_paths
from compiler.exporters.onnx.call import Export
from compiler.exporters.onnx.choices import with_known_choices
from compiler.exporters.onnx.finishing import finished
from compiler.exporters.onnx.graph import Graph
from compiler.exporters.onnx.like import give_names, give_texts
from compiler.exporters.onnx.model import Model, known_opset
from compiler.exporters.onnx.own_domain import own_domain_exports
from compiler.exporters.onnx.states import run_of
from compiler.exporters.onnx.tensors import Tensor, identity_order
from compiler.exporters.onnx.walk import Walk
from compiler.exporters.onnx.widened import without_mixed_precision
from compiler.exporters.onnx.written import require_writable, write_model
from compiler.frontends.onnx.reading import package, read
from compiler.frontends.report import Problem, told
from compiler.onnx_operators import EXPORTS
from compiler.passes.bind_dimensions import bind_dimensions, only_sources, symbols_of
from prograd_proto import program_pb2 as pb
from prograd_proto.argument_kinds import with_kinds
from prograd_proto.blocks import BlockAnalyses
from prograd_proto.files import copy_of
from prograd_proto.spelling import closest, closest_or_all
from prograd_proto.wording import own_version
from runtime.runs.untrained import warn_of_initial_values

if TYPE_CHECKING:
    from compiler.exporters.onnx.raw_columns import RawColumns


@with_kinds(CompileError)
def to_onnx(
    source: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    entry: str = "predict",
    states: str | os.PathLike[str] | None = None,
    opset: int | None = None,
    sizes: Mapping[str, int] | None = None,
    view: bool = False,
    external: int | None = None,
    like: Any = None,
    raw: bool = False,
    force: bool = False,
) -> Any:
    """Return an entry of a program as an onnx.ModelProto, and write it to `path` if that is given.

    Inputs, results and weights keep their names, and dimensions that the program has not bound stay symbols. The model
    has operators of ONNX alone and passes `onnx.checker`. It computes what the program computes, up to the rounding of
    other kernels.

    Args:
        source: the path of a program file, a Program, what its `compile` returned, or a Run, whose states are taken.
        path: the file to write, whole or not at all.
        entry: name of the entry.
        states: a file of states, as runs save them, in place of the initial values.
        opset: version of ONNX's operators, 13 or later; 21 unless given.
        sizes: sizes of symbols, as in {"batch": 1}; the others stay symbols.
        view: write every op as a node of the domain `prograd`, for viewers; of any entry, also one that trains.
        external: bytes of weights above which they are written to a file beside the model, 1.5 GiB unless given; 0 for
            all weights.
        like: path or message of an ONNX file whose names of inputs, results and dimensions, description and metadata
            the model gets. A program that was imported from ONNX gets those of its file without this argument.
        raw: take raw columns of the table that rows were packed from, in place of the feeds that they are encoded as.
        force: replace a file that exists.

    Raises CompileError for ops that ONNX lacks, all of them at once, for an unknown entry, and for an opset that cannot
    be written.
    """
    onnx = package("to_onnx")
    if like is not None and not isinstance(like, str | os.PathLike | onnx.ModelProto):
        raise CompileError(f"to_onnx: like={like!r} is neither a path nor a model of onnx")
    if path is not None:
        require_writable(path, force=force)
    opset = known_opset(onnx, opset)
    run = run_of(source, states)
    program, arrays = run.program, dict(run.states.arrays)
    number, program = _source_block(program if view else without_mixed_precision(program), entry, sizes or {})
    if not view:
        _require_prediction(program.blocks[number], entry)
        program, arrays = without_side_paths(program, number, arrays)
        program = with_known_choices(program, number)
    block = program.blocks[number]
    exports = own_domain_exports() if view else EXPORTS
    model = _exported(onnx, opset, program, block, arrays, exports, raw=raw)
    if program.model:
        give_texts(model, {each.key: each.text for each in program.model})
    if like is not None:
        give_names(model, like if isinstance(like, onnx.ModelProto) else read(like))
    if path is not None:
        write_model(model, path, external=external, force=force)
    if not view:
        warn_of_initial_values(program, run.states, "the model has initial values", block)
    return model


def _source_block(program: pb.ProgramDesc, name: str, sizes: Mapping[str, int]) -> tuple[int, pb.ProgramDesc]:
    """Return the number of an entry's block as built, with symbols bound to sizes, and the program that has it."""
    entries = {entry.name: entry for entry in program.entries}
    if name not in entries:
        raise CompileError(f"to_onnx: there is no entry {name!r}{closest_or_all(name, entries, 'its entries are')}")
    number = entries[name].source_block
    if not sizes:
        return number, program
    program = copy_of(program)
    analyses = BlockAnalyses(program)
    only_sources(analyses)
    [own] = [entry for entry in program.entries if entry.name == name]
    symbols = symbols_of(analyses, own.source_block)
    for symbol in sizes:
        if symbol not in symbols:
            raise CompileError(f"to_onnx: the entry {name!r} has no symbol {symbol!r}{closest(symbol, symbols)}")
    dims = [pb.SymbolSize(symbol=symbol, size=sizes.get(symbol, 0)) for symbol in symbols if symbol in sizes]
    missing = [symbol for symbol in symbols if symbol not in sizes]
    if missing:
        raise CompileError(f"to_onnx: sizes binds {', '.join(sizes)} and not {missing[0]}; bind all symbols, or none")
    own.bindings.add().dims.extend(dims)
    bind_dimensions(analyses)
    return own.bindings[0].block, program


def _require_prediction(block: pb.BlockDesc, entry: str) -> None:
    if block.updates:
        raise CompileError(
            f"to_onnx: the entry {entry!r} updates states, which ONNX cannot say; view=True, or --view, writes it in a "
            "domain of our own, for viewers"
        )
    if not block.fetches:
        raise CompileError(f"to_onnx: the entry {entry!r} has no results")


def _exported(
    onnx: Any,
    opset: int,
    program: pb.ProgramDesc,
    block: pb.BlockDesc,
    arrays: Mapping[str, Any],
    exports: Mapping[str, Export],
    *,
    raw: bool,
) -> Any:
    model = Model(onnx, opset, arrays, _names_of_states(program))
    graph = Graph(model)
    problems: list[Problem] = []
    walk = Walk(program, block, graph, exports, problems)
    model.reserve(*(fetch.name for fetch in block.fetches))
    inputs = _inputs(walk, arrays, _raw_columns(graph, program) if raw else None)
    results = {fetch.name: fetch.tensor for fetch in block.fetches}
    results |= {f"{update.state}.next": update.tensor for update in block.updates}
    walk.ops()
    if problems:
        raise CompileError(f"to_onnx: {told(problems, 'exported', 'first as')}")
    outputs = [model.value(name, *walk.types[tensor]) for name, tensor in results.items()]
    for name, tensor in results.items():
        graph.node("Identity", [graph.plain(walk.values[tensor])], [name])
    return finished(graph, inputs, outputs, program.name, f"prograd {own_version()}", _metadata(program, block))


def _raw_columns(graph: Graph, program: pb.ProgramDesc) -> RawColumns:
    from compiler.exporters.onnx.raw_columns import RawColumns  # brings the encoding of rows, which few exports need

    return RawColumns(graph, program)


def _names_of_states(program: pb.ProgramDesc) -> dict[str, str]:
    """Return the names of weights in the model: those of the model that they were imported from, or their own."""
    names = {state.name: state.imported.names[0] if state.imported.names else state.name for state in program.states}
    own = list(names.values())
    return {state: name if own.count(name) == 1 else state for state, name in names.items()}


def _inputs(walk: Walk, arrays: Mapping[str, Any], raw: RawColumns | None) -> list[Any]:
    """Define the parameters of the block; return the descriptions of its feeds."""
    model, made = walk.graph.model, []
    feeds = [p for p in walk.block.parameters if p.WhichOneof("source") == "feed"]
    columns = [] if raw is None else [name for p in feeds for name in raw.names(p.feed)]
    model.reserve(*(p.feed for p in feeds), *columns, *model.names_of_states())
    for parameter in walk.block.parameters:
        type = walk.types[parameter.tensor]
        order = identity_order(len(type.shape))
        if parameter.WhichOneof("source") == "feed":
            is_raw = raw is not None and bool(raw.names(parameter.feed))
            source = raw.names(parameter.feed)[0] if raw is not None and is_raw else parameter.feed
            for axis, extent in enumerate(type.shape):
                if isinstance(extent, str):
                    walk.graph.feeds.setdefault(extent, (source, axis))
            name = raw.feed(parameter.feed, type) if raw is not None and is_raw else parameter.feed
            walk.values[parameter.tensor] = Tensor(type, order, name)
            made += [] if is_raw else [model.value(parameter.feed, *type)]
        else:
            state = parameter.state
            walk.values[parameter.tensor] = Tensor(type, order, array=arrays[state], origins=(state,), state=state)
    return [*(raw.inputs if raw is not None else []), *made]


def _metadata(program: pb.ProgramDesc, block: pb.BlockDesc) -> dict[str, str]:
    made = {"prograd.program": program.name}
    if program.HasField("data") and program.data.encoding:
        made["prograd.encoding"] = program.data.encoding
    return made
