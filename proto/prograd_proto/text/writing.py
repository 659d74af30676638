"""A program as text: to_text, block_to_text, and the functions that write each line."""

from collections.abc import Iterator, Mapping

from prograd_proto import program_pb2 as pb
from prograd_proto.blocks.control import BLOCKS
from prograd_proto.text.ops import op_line
from prograd_proto.text.tables import Definitions, Locations
from prograd_proto.text.values import type_of_tensor
from prograd_proto.text.words import (
    BFLOAT16_ORDERS,
    DIRECTIONS,
    FORMATS,
    KINDS,
    LIFESPANS,
    OVERS,
    REMAINDERS,
    enumerator,
    name,
    quoted,
    real,
    tensor,
)


def to_text(program: pb.ProgramDesc) -> str:
    """Return a program as text; `from_text` gives a program of the same canonical bytes."""
    locations = Locations(program)
    return "\n".join(program_lines(program, locations)) + "\n"


def block_to_text(program: pb.ProgramDesc, index: int) -> str:
    """Return one block as it appears in `to_text`, for people to read."""
    return "\n".join(block_lines(program, index, Locations(program), block_owners(program))) + "\n"


def program_lines(program: pb.ProgramDesc, locations: Locations) -> Iterator[str]:
    """Return the lines of a program, with empty ones between its parts."""
    yield joined(
        f"program {name(program.name)}",
        f"format {program.format_version}" if program.format_version else "",
        f"seed {program.seed}" if program.seed else "",
        f"producer {quoted(program.producer)}" if program.producer else "",
        clause("order", program.bfloat16_order, BFLOAT16_ORDERS),
        "complete" if program.complete else "",
    )
    yield from part([f"model {name(each.key)}, {quoted(each.text)}" for each in program.model])
    yield from part([limits_line(each) for each in program.limits])
    yield from part([f"operator {name(o.type)} version {o.version}" for o in program.operators])
    yield from part([file_line(file) for file in program.files])
    if program.HasField("data"):
        yield from part(list(data_lines(program.data)))
    if program.HasField("run"):
        yield from part(list(run_lines(program.run)))
    yield from part([line for state in program.states for line in state_lines(state, locations)])
    for entry in program.entries:
        yield from part(list(entry_lines(entry)))
    owners = block_owners(program)
    for index in range(len(program.blocks)):
        yield from part(list(block_lines(program, index, locations, owners)))
    yield from part(locations.lines())


def part(lines: list[str]) -> list[str]:
    """Return lines that belong together, after an empty one."""
    return ["", *lines] if lines else []


def joined(*clauses: str) -> str:
    """Return the non-empty clauses, with commas."""
    return ", ".join(filter(None, clauses))


def clause(field: str, number: int, words: dict[int, str]) -> str:
    """Return an enumerator, "" if it is unspecified."""
    return enumerator(field, number, words) if number else ""


def limits_line(limits: pb.SymbolLimits) -> str:
    """Return the line of the limits of a symbol: `limits batch from 2 to 4, "net.py:6"`."""
    most = f" to {limits.most}" if limits.most else ""
    reason = quoted(limits.reason) if limits.reason else ""
    return joined(f"limits {name(limits.symbol)} from {limits.least}{most}", reason)


def file_line(file: pb.FileDesc) -> str:
    """Return the line of a file: `file digits.safetensors, 115200 bytes, sha256 0x…`."""
    sha256 = f"sha256 0x{file.sha256.hex()}" if file.sha256 else ""
    return joined(f"file {name(file.path)}", f"{file.bytes} bytes", sha256)


def data_lines(data: pb.DataDesc) -> Iterator[str]:
    """Return the lines of the data, its columns and splits."""
    yield joined(
        f"data {name(data.file)}",
        clause("format", data.format, FORMATS),
        "shuffle" if data.shuffle else "",
        f"within {data.shuffle_rows}" if data.shuffle_rows else "",
        clause("remainder", data.remainder, REMAINDERS),
    )
    if data.encoding:
        yield f"  encoding {quoted(data.encoding)}"
    yield from (f"  column {name(column.feed)} <- {name(column.key)}" for column in data.columns)
    for split in data.splits:
        match split.WhichOneof("selection"):
            case "key":
                selection = f" <- key {name(split.key)}"
            case "rows":
                selection = f" <- rows{rows(split.rows)}"
            case _:
                selection = ""
        yield f"  split {name(split.name)}{selection}"


def rows(range: pb.RowRange) -> str:
    """Return a range of rows, ` from 0 to 1797 step 3`, without parts that are 0."""
    parts = {"from": range.start, "to": range.stop, "step": range.stride}
    return "".join(f" {word} {number}" for word, number in parts.items() if number)


def run_lines(run: pb.RunDesc) -> Iterator[str]:
    """Return the lines of the run, its evaluation and its best states."""
    yield joined(
        f"run {name(run.entry)}",
        f"epochs {run.epochs}" if run.epochs else "",
        f"split {name(run.split)}" if run.split else "",
        f"stop after {run.stop_after}" if run.stop_after else "",
        f"patience {name(run.stop_after_setting)}" if run.stop_after_setting else "",
        f"delta {number_or_setting(run.min_delta)}" if run.HasField("min_delta") else "",
        f"checkpoints {run.best_checkpoints}" if run.best_checkpoints else "",
        "last" if run.keep_last else "",
    )
    if run.HasField("evaluate"):
        yield joined(
            f"  evaluate {name(run.evaluate.entry)}",
            f"split {name(run.evaluate.split)}" if run.evaluate.split else "",
            f"every {run.evaluate.every}" if run.evaluate.every else "",
        )
    if run.HasField("keep_best"):
        best = run.keep_best
        yield joined(f"  keep best {name(best.metric)}", clause("direction", best.direction, DIRECTIONS))
    yield from map(plateau_line, run.plateaus)


def plateau_line(plateau: pb.PlateauDesc) -> str:
    """Return the line of a rate that is reduced."""
    return joined(
        f"  plateau {name(plateau.state)}",
        f"metric {name(plateau.metric)}" if plateau.metric else "",
        clause("direction", plateau.direction, DIRECTIONS),
        *(
            f"{field} {number_or_setting(getattr(plateau, field))}" if plateau.HasField(field) else ""
            for field in ("factor", "patience", "min_delta", "cooldown")
        ),
    )


def number_or_setting(number: pb.NumberDesc) -> str:
    """Return a number, or `of` and the name of its setting; `none` for neither."""
    match number.WhichOneof("source"):
        case "number":
            return real(number.number)
        case "setting":
            return f"of {name(number.setting)}"
        case _:
            return "none"


def state_lines(state: pb.StateDesc, locations: Locations) -> Iterator[str]:
    """Return the lines of a state and of its initial value."""
    usual = usual_scale(state)
    yield joined(
        f"state {name(state.name)}: {type_of_tensor(state)}",
        clause("kind", state.kind, KINDS),
        f"of {name(state.slot_of)}" if state.slot_of else "",
        f"called {name(state.slot)}" if state.slot else "",
        "trainable" if state.trainable else "",
        clause("lifespan", state.lifespan, LIFESPANS),
        f"rate {real(state.rate_scale)}" if real(state.rate_scale) != usual else "",
        f"decay {real(state.decay_scale)}" if real(state.decay_scale) != usual else "",
    )
    match state.WhichOneof("initial"):
        case "op":
            yield f"  {op_line(state.op, Definitions(), locations)}"
        case "external":
            yield f"  external {name(state.external.path)}, key {name(state.external.key)}"
        case _:
            pass
    if state.HasField("imported"):
        axes = " ".join(map(str, state.imported.axes))
        yield joined(f"  imported{f' axes {axes}' if axes else ''}", *map(name, state.imported.names))


def usual_scale(state: pb.StateDesc) -> str:
    """Return the scale that needs no clause in the text: 1.0 for parameters, 0.0 for other states."""
    return "1.0" if state.trainable else "0.0"


def entry_lines(entry: pb.EntryDesc) -> Iterator[str]:
    """Return the lines of an entry, its bindings, and their plans."""
    yield f"entry {name(entry.name)} = block {entry.source_block}"
    for binding in entry.bindings:
        yield f"  binding {sizes(binding)} = block {binding.block}"
        if not binding.HasField("plan"):
            continue
        plan = binding.plan
        yield joined(
            f"    plan {plan.arena_bytes} bytes",
            f"lower bound {plan.lower_bound}" if plan.lower_bound else "",
            "optimal" if plan.optimal else "",
            f"file {plan.file_bytes} bytes" if plan.file_bytes else "",
        )


def sizes(binding: pb.Binding) -> str:
    """Return the sizes of a binding: `{batch=32}`."""
    return "{" + ", ".join(f"{name(dim.symbol)}={dim.size}" for dim in binding.dims) + "}"


def block_lines(program: pb.ProgramDesc, index: int, locations: Locations, owners: Mapping[int, str]) -> Iterator[str]:
    """Return the lines of a block, after a remark with its users; `owners` is `block_owners` of the program."""
    block = program.blocks[index]
    if users := [*block_users(program, index), *([owners[index]] if index in owners else [])]:
        yield f"# {', '.join(users)}"
    yield f"block {index}"
    definitions = Definitions(block.tensors)
    for parameter in block.parameters:
        yield f"  parameter {definitions.at(parameter.tensor)}{source(parameter)}"
    yield from (f"  {op_line(op, definitions, locations)}" for op in block.ops)
    yield from definitions.rest()
    yield from (f"  result {tensor(result)}" for result in block.results)
    yield from (f"  update {name(update.state)} <- {tensor(update.tensor)}" for update in block.updates)
    for fetch in block.fetches:
        yield joined(f"  fetch {name(fetch.name)} <- {tensor(fetch.tensor)}", clause("over", fetch.over, OVERS))


def block_users(program: pb.ProgramDesc, index: int) -> Iterator[str]:
    """Return the users of a block: `train with {batch=32}`."""
    for entry in program.entries:
        if entry.source_block == index:
            yield f"{name(entry.name)} as built"
        yield from (f"{name(entry.name)} with {sizes(b)}" for b in entry.bindings if b.block == index)


def block_owners(program: pb.ProgramDesc) -> dict[int, str]:
    """Return for each block inside an op, by number, what it is: `body of op 4 (scan) of block 0`."""
    owners: dict[int, str] = {}
    for number, block in enumerate(program.blocks):
        for op in block.ops:
            parts = BLOCKS.get(op.type, ())
            for i, inner in enumerate(op.blocks):
                part = parts[i] if i < len(parts) else "a block"
                owners.setdefault(inner, f"{part} of op {op.id} ({name(op.type)}) of block {number}")
    return owners


def source(parameter: pb.ParameterDesc) -> str:
    """Return ` <- feed x`, or "" if the parameter has no source."""
    match parameter.WhichOneof("source"):
        case "feed":
            return f" <- feed {name(parameter.feed)}"
        case "state":
            return f" <- state {name(parameter.state)}"
        case "argument":
            return f" <- argument {parameter.argument}"
        case _:
            return ""
