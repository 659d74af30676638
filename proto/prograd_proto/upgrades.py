"""Programs written by older versions, brought to today's: upgrade or refuse, never guess.

A change to what an operator means is a new version of it: raise its number in `OPERATOR_VERSIONS`
and say with `@operator_upgrade` how an op of the version before is written now. A change to the
format is a new `FORMAT_VERSION` and a function in `FORMAT_UPGRADES`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from prograd_proto import program_pb2 as pb
from prograd_proto.errors import ProgramError
from prograd_proto.plugins import namespace_of
from prograd_proto.tensor_types import TensorType, tensor_desc, type_of

FORMAT_VERSION: Final = 1
"""The version this prograd writes, and the newest it reads."""

FORMAT_UPGRADES: dict[int, Callable[[pb.ProgramDesc], object]] = {}
"""By version: changes a program of that version, in place, into one of the next."""

OPERATOR_VERSIONS: dict[str, int] = {}
"""The current version of every operator that has had more than one, and of every one of a plugin that is loaded."""


class Fresh:
    """What an upgrade may ask of the block it works in: types, and new tensors and op ids."""

    def __init__(self, block: pb.BlockDesc) -> None:
        self._block = block
        self._descs = {desc.name: desc for desc in block.tensors}
        self._number = 0  # where the search for a new name begins: names that were taken stay so
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
        """Return an op id that nothing in the block has."""
        self._last_id += 1
        return self._last_id


OperatorUpgrade = Callable[[pb.OpDesc, Fresh], Iterable[pb.OpDesc]]

OPERATOR_UPGRADES: dict[tuple[str, int], tuple[OperatorUpgrade, Mapping[str, int]]] = {}
"""By operator and version: the upgrade, and the versions of the operators it gives."""


def operator_version(type: str) -> int:
    """Return the current version of an operator: 1 unless `OPERATOR_VERSIONS` says otherwise."""
    return OPERATOR_VERSIONS.get(type, 1)


def declare_version(type: str, version: int) -> None:
    """Note the version of a plugin's operator or kernel; raises ProgramError if the other has another one."""
    if OPERATOR_VERSIONS.setdefault(type, version) != version:
        raise ProgramError(
            f"{type!r} is declared with version {version}, and before with {OPERATOR_VERSIONS[type]}; "
            "its operator and its kernel have one version"
        )


def operator_upgrade(
    type: str, version: int, *, gives: Mapping[str, int] | None = None
) -> Callable[[OperatorUpgrade], OperatorUpgrade]:
    """Register the upgrade of `type` from `version`.

    It is called with an op and a `Fresh`, and gives the ops that stand in its place, in order; one of them
    keeps the id, and together they define the same outputs. `gives` names the version of every operator
    it uses, so that these are upgraded further in their turn; without it, only `type` at `version + 1`.
    """

    def register(upgrade: OperatorUpgrade) -> OperatorUpgrade:
        OPERATOR_UPGRADES[type, version] = upgrade, gives or {type: version + 1}
        return upgrade

    return register


def upgrade(program: pb.ProgramDesc) -> None:
    """Bring a program to today's format and operators, in place.

    Raises ProgramError (without the file's name) if it is no program, newer than this prograd, or too old.
    """
    upgrade_format(program)
    versions = listed_versions(program)
    require_versions(program, versions)
    if all(version == _version_after(type, version) for type, version in versions.items()):
        return
    upgrade_operators(program, versions)


def upgrade_format(program: pb.ProgramDesc) -> None:
    """Apply `FORMAT_UPGRADES` until the program is of today's version."""
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
    """Return the program's operator versions, each one there and known."""
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
    """Raise ProgramError for an op of a type that the list of operators lacks."""
    missing = sorted({op.type for op in every_op(program)} - versions.keys())
    if missing:
        raise ProgramError(f"op {missing[0]!r} is used but not listed with its version among the operators")


def every_op(program: pb.ProgramDesc) -> Iterator[pb.OpDesc]:
    """Return all ops: those that give states their first value, then those of every block."""
    yield from (state.op for state in program.states if state.HasField("op"))
    for block in program.blocks:
        yield from block.ops


def upgrade_operators(program: pb.ProgramDesc, versions: Mapping[str, int]) -> None:
    """Rewrite every op whose version is not today's, and the list of versions."""
    for state in program.states:
        if state.HasField("op"):
            upgrade_initial(state, versions)
    resized = {i for i, block in enumerate(program.blocks) if upgrade_block(block, versions)}
    for entry in program.entries:
        for binding in entry.bindings:
            if binding.block in resized:  # a plan holds for exactly the tensors it was made for
                binding.ClearField("plan")
    types = sorted({op.type for op in every_op(program)})
    del program.operators[:]
    program.operators.extend(
        pb.OperatorVersion(type=type, version=_version_after(type, versions.get(type, 1))) for type in types
    )


def upgrade_initial(state: pb.StateDesc, versions: Mapping[str, int]) -> None:
    """Upgrade the op that gives a state its first value; there is no block for a second one."""
    ops = upgraded(state.op, versions[state.op.type], Fresh(pb.BlockDesc(ops=[state.op])))
    if len(ops) != 1:
        raise ProgramError(
            f"state {state.name!r}: op {state.op.type!r} version {versions[state.op.type]} becomes "
            f"{len(ops)} ops, and a state's first value is one op; compile the program again from its source"
        )
    state.op.CopyFrom(ops[0])


def upgrade_block(block: pb.BlockDesc, versions: Mapping[str, int]) -> bool:
    """Upgrade the ops of a block; whether the ops or tensors are now others than those planned."""
    before = len(block.tensors), len(block.ops)
    fresh = Fresh(block)
    ops = [new for op in block.ops for new in upgraded(op, versions[op.type], fresh)]
    del block.ops[:]
    block.ops.extend(ops)
    return before != (len(block.tensors), len(block.ops))


def upgraded(op: pb.OpDesc, version: int, fresh: Fresh) -> Sequence[pb.OpDesc]:
    """Return the ops of today that stand for `op` of that version; `op` stays as it is."""
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
    """Return the version after upgrading; an operator of a plugin that is not loaded stays as it is listed."""
    unknown = bool(namespace_of(type)) and type not in OPERATOR_VERSIONS
    return version if unknown else operator_version(type)
