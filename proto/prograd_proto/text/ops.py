"""The line of an op, written and read."""

from prograd_proto import program_pb2 as pb
from prograd_proto.text.tables import Definitions, Locations
from prograd_proto.text.values import attribute, read_attribute, read_typed
from prograd_proto.text.words import STAGES, Line, enumerator, name, tensor, unquoted


def op_line(op: pb.OpDesc, definitions: Definitions, locations: Locations) -> str:
    """Return the line of an op: `%y: float32[2] = relu(%x) {…}  # forward, op 3, train.py:31`."""
    outputs = ", ".join([definitions.at(output) for output in op.outputs]) or "()"
    inputs = ", ".join([tensor(input) for input in op.inputs])
    line = f"{outputs} = {name(op.type)}({inputs})"
    if op.attributes:
        line += f" {{{', '.join([attribute(desc) for desc in op.attributes])}}}"
    remarks = ", ".join(op_remarks(op, definitions, locations))
    return f"{line}  # {remarks}" if remarks else line


def op_remarks(op: pb.OpDesc, definitions: Definitions, locations: Locations) -> list[str]:
    """Return the remarks behind the `#`; absent values have none."""
    remarks = [enumerator("stage", op.stage, STAGES)] if op.stage else []
    if op.id:
        remarks.append(f"op {op.id}")
    if op.gradient_of:
        remarks.append(f"of op {op.gradient_of}")
    if op.recompute_of:
        remarks.append(f"again op {op.recompute_of}")
    if op.random_stream:
        remarks.append(f"random {op.random_stream}")
    remarks += [f"block {block}" for block in op.blocks]
    if op.location:
        remarks.append(locations.word(op.location))
    return remarks


def read_op(line: Line, op: pb.OpDesc, block: pb.BlockDesc) -> str | None:
    """Read an op, add its typed tensors to `block`, and return the user's line if the op names one."""
    if line.accept("("):
        line.expect(")")
    else:
        op.outputs.append(read_definition(line, block))
        while line.accept(","):
            op.outputs.append(read_definition(line, block))
    line.expect("=")
    op.type = line.name()
    line.expect("(")
    op.inputs.extend([line.tensor() for _ in line.listed(")")])
    if line.accept("{"):
        for _ in line.listed("}"):
            read_attribute(line, op.attributes.add())
    if not line.accept("#"):
        line.end()
        return None
    return read_remarks(line, op, block)


def read_definition(line: Line, block: pb.BlockDesc) -> str:
    """Read a tensor at its definition; if its type is there, add its description to the block."""
    tensor = line.tensor()
    if line.accept(":"):
        read_typed(line, block.tensors.add(name=tensor))
    return tensor


def read_remarks(line: Line, op: pb.OpDesc, block: pb.BlockDesc) -> str | None:
    """Read the remarks behind the `#`, and return the user's line if it is there."""
    place = None
    while True:
        word = line.take()
        if ":" in word or word[:1] == '"':
            place = unquoted(word) if word[:1] == '"' else word
        else:
            read_remark(line, word, op, block)
        if not line.accept(","):
            line.end()
            return place


def read_remark(line: Line, word: str, op: pb.OpDesc, block: pb.BlockDesc) -> None:
    """Read one remark that begins with `word`."""
    match word:
        case "op":
            op.id = line.integer()
        case "of" | "again":
            line.expect("op")
            setattr(op, "gradient_of" if word == "of" else "recompute_of", line.integer())
        case "random":
            op.random_stream = line.integer()
        case "block":
            op.blocks.append(line.integer())
        case "location":
            line.expect("#")
            op.location = line.integer()
        case _:
            op.stage = line.enumerator(word, "stage", STAGES)
