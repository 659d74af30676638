"""Upgrades of programs that older versions wrote; a program is upgraded or refused, never guessed at.

A change to the meaning of an operator is a new version of it: increment its number in `OPERATOR_VERSIONS`, and declare
with `@operator_upgrade` the ops that replace an op of the previous version. A change to the format is a new
`FORMAT_VERSION` and a function in `FORMAT_UPGRADES`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from prograd_proto import program_pb2 as pb
from prograd_proto.errors import ProgramError
from prograd_proto.plugins import namespace_of
from prograd_proto.tensor_types import TensorType, tensor_desc, type_of

FORMAT_VERSION: Final = 1
"""The version that this prograd writes, and the newest that it reads."""

FORMAT_UPGRADES: dict[int, Callable[[pb.ProgramDesc], object]] = {}
"""Functions by version that turn a program of that version, in place, into one of the next."""

OPERATOR_VERSIONS: dict[str, int] = {}
"""Current versions of operators with more than one version, and of all operators of loaded plugins."""


class Fresh:
    """The block that an upgrade works in: types, and names and ids for new tensors and ops."""

    def __init__(self, block: pb.BlockDesc) -> None:
        self._block = block
        self._descs = {desc.name: desc for desc in block.tensors}
        self._number = 0  # start of the search for a new name: used names stay used
        self._last_id = max((op.id for op in block.ops), default=0)

    def type(self, tensor: str) -> TensorType:
        """Return the type of a tensor of the block."""
        return type_of(self._descs[tensor])

    def tensor(self, stem: str, type: TensorType) -> str:
        """Return the name, beginning with `stem`, of a new tensor of that type."""
        number = max(len(self._descs), self._number)
        while (name := f"{stem}_{number}") in self._descs:
            number += 1
        self._number = number + 1
        self._descs[name] = tensor_desc(name, type)
        self._block.tensors.append(self._descs[name])
        return name

    def id(self) -> int:
        """Return an op id that is unused in the block."""
        self._last_id += 1
        return self._last_id


OperatorUpgrade = Callable[[pb.OpDesc, Fresh], Iterable[pb.OpDesc]]

OPERATOR_UPGRADES: dict[tuple[str, int], tuple[OperatorUpgrade, Mapping[str, int]]] = {}
"""The upgrade by operator and version, with the versions of the operators that it returns."""


def operator_version(type: str) -> int:
    """Return the current version of an operator: 1 unless `OPERATOR_VERSIONS` has another one."""
    return OPERATOR_VERSIONS.get(type, 1)


def declare_version(type: str, version: int) -> None:
    """Register the version of a plugin's operator or kernel; raise ProgramError if the two differ."""
    if OPERATOR_VERSIONS.setdefault(type, version) != version:
        raise ProgramError(
            f"{type!r} is declared with version {version}, and before with {OPERATOR_VERSIONS[type]}; "
            "its operator and its kernel have one version"
        )


def operator_upgrade(
    type: str, version: int, *, gives: Mapping[str, int] | None = None
) -> Callable[[OperatorUpgrade], OperatorUpgrade]:
    """Register the upgrade of `type` from `version`.

    The upgrade takes an op and a `Fresh`, and returns the ops that replace it, in order. One of them keeps the id, and
    together they define the same outputs. `gives` has the version of every operator that it uses, so these are upgraded
    further in turn; the default is `type` at `version + 1`.
    """

    def register(upgrade: OperatorUpgrade) -> OperatorUpgrade:
        OPERATOR_UPGRADES[type, version] = upgrade, gives or {type: version + 1}
        return upgrade

    return register


def upgrade(program: pb.ProgramDesc) -> None:
    """Bring a program to the current format and operators, in place.

    Raises ProgramError (without the file's name) if it is no program, newer than this prograd, or too old.
    """
    upgrade_format(program)
    versions = listed_versions(program)
    require_versions(program, versions)
    if all(version == _version_after(type, version) for type, version in versions.items()):
        return
    upgrade_operators(program, versions)


def upgrade_format(program: pb.ProgramDesc) -> None:
    """Apply `FORMAT_UPGRADES` until the program has the current version."""
    version = program.format_version
    if version == 0:
        raise ProgramError("this is not a prograd program: it has no format version")
    if version > FORMAT_VERSION:
        raise ProgramError(f"format version {version}, this prograd reads up to {FORMAT_VERSION}; update prograd")
    for old in range(version, FORMAT_VERSION):
        if old not in FORMAT_UPGRADES:
            raise ProgramError(f"format version {old} is no longer read; compile the program again from its source")
        FORMAT_UPGRADES[old](program)
        program.format_version = old + 1


def listed_versions(program: pb.ProgramDesc) -> dict[str, int]:
    """Return the program's operator versions; raise ProgramError for a missing or unknown one."""
    versions: dict[str, int] = {}
    for operator in program.operators:
        if versions.setdefault(operator.type, operator.version) != operator.version:
            raise ProgramError(
                f"op {operator.type!r} is listed with versions {versions[operator.type]} and "
                f"{operator.version}; a program uses one version of an operator"
            )
    for type, version in versions.items():
        if version == 0:
            raise ProgramError(f"op {type!r} version 0: versions begin at 1")
        newest = _version_after(type, version)
        if version > newest:
            plugin = namespace_of(type)
            who = f"the plugin {plugin!r}" if plugin else "this prograd"
            raise ProgramError(
                f"op {type!r} version {version}, {who} knows up to {newest}; update {plugin or 'prograd'}"
            )
    return versions


def require_versions(program: pb.ProgramDesc, versions: Mapping[str, int]) -> None:
    """Raise ProgramError for an op whose type is missing in the list of operators."""
    missing = sorted({op.type for op in every_op(program)} - versions.keys())
    if missing:
        raise ProgramError(f"op {missing[0]!r} is used but not listed with its version among the operators")


def every_op(program: pb.ProgramDesc) -> Iterator[pb.OpDesc]:
    """Return all ops: those of the states' initial values, then those of every block."""
    yield from (state.op for state in program.states if state.HasField("op"))
    for block in program.blocks:
        yield from block.ops


def upgrade_operators(program: pb.ProgramDesc, versions: Mapping[str, int]) -> None:
    """Rewrite every op whose version is outdated, and the list of versions."""
    for state in program.states:
        if state.HasField("op"):
            upgrade_initial(state, versions)
    resized = {i for i, block in enumerate(program.blocks) if upgrade_block(block, versions)}
    for entry in program.entries:
        for binding in entry.bindings:
            if binding.block in resized:  # a plan is valid only for the tensors it was made for
                binding.ClearField("plan")
    types = sorted({op.type for op in every_op(program)})
    del program.operators[:]
    program.operators.extend(
        pb.OperatorVersion(type=type, version=_version_after(type, versions.get(type, 1))) for type in types
    )


def upgrade_initial(state: pb.StateDesc, versions: Mapping[str, int]) -> None:
    """Upgrade the op of a state's initial value, which must remain a single op."""
    ops = upgraded(state.op, versions[state.op.type], Fresh(pb.BlockDesc(ops=[state.op])))
    if len(ops) != 1:
        raise ProgramError(
            f"state {state.name!r}: op {state.op.type!r} version {versions[state.op.type]} becomes "
            f"{len(ops)} ops, and a state's first value is one op; compile the program again from its source"
        )
    state.op.CopyFrom(ops[0])


def upgrade_block(block: pb.BlockDesc, versions: Mapping[str, int]) -> bool:
    """Upgrade the ops of a block, and return True if ops or tensors differ from those that were planned."""
    before = len(block.tensors), len(block.ops)
    fresh = Fresh(block)
    ops = [new for op in block.ops for new in upgraded(op, versions[op.type], fresh)]
    del block.ops[:]
    block.ops.extend(ops)
    return before != (len(block.tensors), len(block.ops))


def upgraded(op: pb.OpDesc, version: int, fresh: Fresh) -> Sequence[pb.OpDesc]:
    """Return the current ops that replace `op` of that version; `op` is not modified."""
    if version == _version_after(op.type, version):
        return [op]
    if (op.type, version) not in OPERATOR_UPGRADES:
        raise ProgramError(
            f"op {op.type!r} version {version} has no upgrade to version {operator_version(op.type)}; "
            "compile the program again from its source"
        )
    function, gives = OPERATOR_UPGRADES[op.type, version]
    copy = pb.OpDesc()
    copy.CopyFrom(op)
    return [new for given in function(copy, fresh) for new in upgraded(given, gives[given.type], fresh)]


def _version_after(type: str, version: int) -> int:
    """Return the version after upgrading; an operator of a plugin that is not loaded keeps its version."""
    unknown = bool(namespace_of(type)) and type not in OPERATOR_VERSIONS
    return version if unknown else operator_version(type)
