"""Parser of the text form: from_text, and a method for every kind of line."""

from collections.abc import Callable
from struct import error as StructError  # noqa: N812 - a class, whatever the module calls it
from typing import Final

from prograd_proto import program_pb2 as pb
from prograd_proto.errors import ProgramError
from prograd_proto.text.ops import read_definition, read_op
from prograd_proto.text.tables import reorder
from prograd_proto.text.values import read_type
from prograd_proto.text.words import (
    BFLOAT16_ORDERS,
    DIRECTIONS,
    FORMATS,
    KINDS,
    LIFESPANS,
    OVERS,
    REMAINDERS,
    Line,
    says_nothing,
    unquoted,
)


def from_text(text: str) -> pb.ProgramDesc:
    """Return the program in a text that `to_text` or a person wrote.

    Raises ProgramError, beginning with the line number, for text outside the grammar of docs/format.md. A program that
    parses is not yet verified.
    """
    reader = Reader()
    number = 0
    try:
        for number, line in enumerate(text.split("\n"), 1):  # noqa: B007 - the errors below name it
            if line and not line.isspace() and not line.lstrip().startswith("#"):
                reader.read(Line(line))
        reader.finish()
    except ProgramError as error:
        raise ProgramError(f"line {number}: {error}") from None
    except (ValueError, OverflowError, StructError):
        raise ProgramError(f"line {number}: a number does not fit its field") from None
    return reader.program


class Reader:
    """A program while its lines are read."""

    def __init__(self) -> None:
        self.program = pb.ProgramDesc()
        self._has_begun = False
        self._owner: pb.StateDesc | pb.BlockDesc | None = None
        self._places: list[tuple[pb.OpDesc, str]] = []
        self._listed: list[str] = []

    def read(self, line: Line) -> None:
        """Read one line."""
        word = line.next
        if not self._has_begun and word != "program":
            raise line.stands_instead_of("the line that begins a program, 'program' and its name,")
        if word[0] in "%(_":
            return self._op(line)
        if word not in self._LINES:
            raise ProgramError(f"no line begins with {word!r}")
        line.take()
        self._LINES[word](self, line)
        line.end()

    def finish(self) -> None:
        """Fill in the parts that depend on the whole text."""
        if not self._has_begun:
            raise ProgramError("there is no program here")
        self._end_block()
        numbers: dict[str, int] = {}
        for number, text in enumerate(self.program.locations, 1):
            numbers.setdefault(text, number)
        for op, text in self._places:
            if text not in numbers:
                self.program.locations.append(text)
                numbers[text] = len(self.program.locations)
            op.location = numbers[text]

    def _program(self, line: Line) -> None:
        if self._has_begun:
            raise ProgramError("a second program begins")
        self._has_begun = True
        program = self.program
        program.name = line.name()
        for word in line.clauses():
            match word:
                case "format":
                    program.format_version = line.integer()
                case "seed":
                    program.seed = line.integer()
                case "producer":
                    program.producer = line.name()
                case "complete":
                    program.complete = True
                case _:
                    program.bfloat16_order = line.enumerator(word, "order", BFLOAT16_ORDERS)

    def _model(self, line: Line) -> None:
        each = self.program.model.add(key=line.name())
        line.expect(",")
        each.text = line.name()

    def _limits(self, line: Line) -> None:
        each = self.program.limits.add(symbol=line.name())
        line.expect("from")
        each.least = line.integer()
        if line.accept("to"):
            each.most = line.integer()
        if line.accept(","):
            each.reason = line.name()

    def _operator(self, line: Line) -> None:
        operator = self.program.operators.add(type=line.name())
        line.expect("version")
        operator.version = line.integer()

    def _file(self, line: Line) -> None:
        file = self.program.files.add(path=line.name())
        line.expect(",")
        file.bytes = line.integer()
        line.expect("bytes")
        if line.accept(","):
            line.expect("sha256")
            file.sha256 = line.data()

    def _data(self, line: Line) -> None:
        refuse_second("data", self.program.HasField("data"))
        data = self.program.data
        data.SetInParent()
        data.file = line.name()
        for word in line.clauses():
            if word == "shuffle":
                data.shuffle = True
            elif word == "within":
                data.shuffle_rows = line.integer()
            elif word == "remainder" or word in REMAINDERS.values():
                data.remainder = line.enumerator(word, "remainder", REMAINDERS)
            else:
                data.format = line.enumerator(word, "format", FORMATS)

    def _column(self, line: Line) -> None:
        require("data", self.program.HasField("data"))
        column = self.program.data.columns.add(feed=line.name())
        line.expect("<-")
        column.key = line.name()

    def _encoding(self, line: Line) -> None:
        require("data", self.program.HasField("data"))
        self.program.data.encoding = line.string()

    def _split(self, line: Line) -> None:
        require("data", self.program.HasField("data"))
        split = self.program.data.splits.add(name=line.name())
        if not line.accept("<-"):
            return
        if line.accept("key"):
            split.key = line.name()
            return
        line.expect("rows")
        split.rows.SetInParent()
        for word, field in (("from", "start"), ("to", "stop"), ("step", "stride")):
            if line.accept(word):
                setattr(split.rows, field, line.integer())

    def _run(self, line: Line) -> None:
        refuse_second("run", self.program.HasField("run"))
        run = self.program.run
        run.SetInParent()
        run.entry = line.name()
        for word in line.clauses():
            match word:
                case "epochs":
                    run.epochs = line.integer()
                case "split":
                    run.split = line.name()
                case "stop":
                    line.expect("after")
                    run.stop_after = line.integer()
                case _:
                    read_stopping(line, word, run)

    def _evaluate(self, line: Line) -> None:
        require("run", self.program.HasField("run"))
        refuse_second("evaluate", self.program.run.HasField("evaluate"))
        evaluate = self.program.run.evaluate
        evaluate.SetInParent()
        evaluate.entry = line.name()
        for word in line.clauses():
            match word:
                case "split":
                    evaluate.split = line.name()
                case "every":
                    evaluate.every = line.integer()
                case _:
                    raise says_nothing(word)

    def _keep(self, line: Line) -> None:
        require("run", self.program.HasField("run"))
        refuse_second("keep", self.program.run.HasField("keep_best"))
        best = self.program.run.keep_best
        best.SetInParent()
        line.expect("best")
        best.metric = line.name()
        for word in line.clauses():
            best.direction = line.enumerator(word, "direction", DIRECTIONS)

    def _plateau(self, line: Line) -> None:
        require("run", self.program.HasField("run"))
        plateau = self.program.run.plateaus.add(state=line.name())
        for word in line.clauses():
            match word:
                case "metric":
                    plateau.metric = line.name()
                case "factor" | "patience" | "min_delta" | "cooldown":
                    read_number(line, getattr(plateau, word))
                case _:
                    plateau.direction = line.enumerator(word, "direction", DIRECTIONS)

    def _state(self, line: Line) -> None:
        self._end_block()
        state = self._owner = self.program.states.add(name=line.name())
        line.expect(":")
        read_type(line, state)
        scales: dict[str, float] = {}
        for word in line.clauses():
            match word:
                case "of":
                    state.slot_of = line.name()
                case "called":
                    state.slot = line.name()
                case "trainable":
                    state.trainable = True
                case "rate" | "decay":
                    scales[word] = line.real()
                case _ if word == "lifespan" or word in LIFESPANS.values():
                    state.lifespan = line.enumerator(word, "lifespan", LIFESPANS)
                case _:
                    state.kind = line.enumerator(word, "kind", KINDS)
        usual = 1.0 if state.trainable else 0.0
        state.rate_scale = scales.get("rate", usual)
        state.decay_scale = scales.get("decay", usual)

    def _external(self, line: Line) -> None:
        state = self._owner
        if not isinstance(state, pb.StateDesc):
            raise ProgramError("this line belongs to a state, and none stands before it")
        refuse_second("first value", state.WhichOneof("initial") is not None)
        state.external.path = line.name()
        line.expect(",", "key")
        state.external.key = line.name()

    def _imported(self, line: Line) -> None:
        state = self._owner
        if not isinstance(state, pb.StateDesc):
            raise ProgramError("this line belongs to a state, and none stands before it")
        refuse_second("tensor of a model", state.HasField("imported"))
        state.imported.SetInParent()
        if line.accept("axes"):
            while line.next.isdecimal():
                state.imported.axes.append(line.integer())
        while line.accept(","):
            state.imported.names.append(line.name())

    def _op(self, line: Line) -> None:
        owner = self._owner
        if owner is None:
            raise ProgramError("an op belongs to a block or a state, and none stands before it")
        if isinstance(owner, pb.BlockDesc):
            op, block = owner.ops.add(), owner
        else:
            refuse_second("first value", owner.WhichOneof("initial") is not None)
            op, block = owner.op, pb.BlockDesc()
            op.SetInParent()
        place = read_op(line, op, block)
        if block is not owner and block.tensors:
            raise ProgramError("the type of a state stands in its own line, not at the op")
        if place is not None:
            self._places.append((op, place))

    def _entry(self, line: Line) -> None:
        entry = self.program.entries.add(name=line.name())
        line.expect("=", "block")
        entry.source_block = line.integer()

    def _binding(self, line: Line) -> None:
        require("entry", bool(self.program.entries))
        binding = self.program.entries[-1].bindings.add()
        line.expect("{")
        for _ in line.listed("}"):
            dim = binding.dims.add(symbol=line.name())
            line.expect("=")
            dim.size = line.integer()
        line.expect("=", "block")
        binding.block = line.integer()

    def _plan(self, line: Line) -> None:
        binding = self._last_binding()
        refuse_second("plan", binding.HasField("plan"))
        binding.plan.arena_bytes = line.integer()
        binding.plan.SetInParent()
        line.expect("bytes")
        for word in line.clauses():
            match word:
                case "lower":
                    line.expect("bound")
                    binding.plan.lower_bound = line.integer()
                case "optimal":
                    binding.plan.optimal = True
                case "file":
                    binding.plan.file_bytes = line.integer()
                    line.expect("bytes")
                case _:
                    raise says_nothing(word)

    def _last_binding(self) -> pb.Binding:
        require("binding", bool(self.program.entries and self.program.entries[-1].bindings))
        return self.program.entries[-1].bindings[-1]

    def _block(self, line: Line) -> None:
        self._end_block()
        number, next = line.integer(), len(self.program.blocks)
        if number != next:
            raise ProgramError(f"block {number} stands where block {next} belongs")
        self._owner = self.program.blocks.add()

    def _end_block(self) -> None:
        if self._listed:
            raise ProgramError(f"the order before this line ends after {len(self._listed)} tensors of the block")

    def _parameter(self, line: Line) -> None:
        block = self._this_block()
        parameter = block.parameters.add(tensor=read_definition(line, block))
        if not line.accept("<-"):
            return
        match line.take():
            case "feed":
                parameter.feed = line.name()
            case "state":
                parameter.state = line.name()
            case "argument":
                parameter.argument = line.integer()
            case word:
                raise says_nothing(word)

    def _tensor(self, line: Line) -> None:
        read_definition(line, self._this_block())

    def _order(self, line: Line) -> None:
        block = self._this_block()
        self._listed.append(line.tensor())
        while line.accept(","):
            self._listed.append(line.tensor())
        if len(self._listed) >= len(block.tensors):
            reorder(block, self._listed)
            self._listed = []

    def _result(self, line: Line) -> None:
        self._this_block().results.append(line.tensor())

    def _update(self, line: Line) -> None:
        update = self._this_block().updates.add(state=line.name())
        line.expect("<-")
        update.tensor = line.tensor()

    def _fetch(self, line: Line) -> None:
        fetch = self._this_block().fetches.add(name=line.name())
        line.expect("<-")
        fetch.tensor = line.tensor()
        for word in line.clauses():
            fetch.over = line.enumerator(word, "over", OVERS)

    def _this_block(self) -> pb.BlockDesc:
        if not isinstance(self._owner, pb.BlockDesc):
            raise ProgramError("this line belongs to a block, and none stands before it")
        return self._owner

    def _location(self, line: Line) -> None:
        text = line.take()
        self.program.locations.append(unquoted(text) if text[:1] == '"' else text)

    _LINES: Final[dict[str, Callable[["Reader", Line], None]]] = {
        "program": _program,
        "model": _model,
        "limits": _limits,
        "operator": _operator,
        "file": _file,
        "data": _data,
        "column": _column,
        "encoding": _encoding,
        "split": _split,
        "run": _run,
        "evaluate": _evaluate,
        "keep": _keep,
        "plateau": _plateau,
        "state": _state,
        "external": _external,
        "imported": _imported,
        "entry": _entry,
        "binding": _binding,
        "plan": _plan,
        "block": _block,
        "parameter": _parameter,
        "tensor": _tensor,
        "order": _order,
        "result": _result,
        "update": _update,
        "fetch": _fetch,
        "location": _location,
    }


def read_stopping(line: Line, word: str, run: pb.RunDesc) -> None:
    """Read a clause about the end of a run and what it keeps."""
    match word:
        case "patience":
            run.stop_after_setting = line.name()
        case "delta":
            read_number(line, run.min_delta)
        case "checkpoints":
            run.best_checkpoints = line.integer()
        case "last":
            run.keep_last = True
        case _:
            raise says_nothing(word)


def read_number(line: Line, number: pb.NumberDesc) -> None:
    """Read a number, or `of` and the name of its setting."""
    number.SetInParent()
    if line.accept("of"):
        number.setting = line.name()
    elif not line.accept("none"):
        number.number = line.real()


def require(what: str, is_there: bool) -> None:
    """Raise ProgramError unless the line to which this line belongs precedes it."""
    if not is_there:
        raise ProgramError(f"no {what!r} line stands before this one, which belongs to it")


def refuse_second(what: str, is_there: bool) -> None:
    """Raise ProgramError if an element that may occur once is already there."""
    if is_there:
        raise ProgramError(f"a second {what!r}, where there can be one")
