"""Plugins: installed packages that declare operators for the compiler and kernels for the runtime, under one name.

The name of a plugin is the name of its entry points, and the part before the dot in the names of its operators. Loading
a program imports nothing: a plugin is imported only where its name is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

from prograd_proto.errors import PluginError, ProgramError
from prograd_proto.spelling import closest
from prograd_proto.wording import as_asked

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

OPERATOR_GROUP: Final = "prograd.operators"
KERNEL_GROUP: Final = "prograd.kernels"
LOWERING_GROUP: Final = "prograd.lowering"

_MOST_SHOWN: Final = 5


def load_plugin(group: str, name: str, table: dict[str, T], audit: Callable[[T], None]) -> dict[str, T]:
    """Import and audit the declarations of an installed package under that name in the group.

    Args:
        group: group of entry points.
        name: name of the entry point, and the namespace of its declarations.
        table: table to which the package's module adds its declarations; a refused declaration is removed again.
        audit: raises ProgramError for a wrong declaration.

    Returns:
        The declarations of that namespace in the table.

    Raises:
        PluginError: no package, or several, have such an entry point, or its module fails or declares wrongly.
    """
    entry = _entry_point(group, name)
    before = set(table)
    try:
        _import(entry)
        _require_namespaces(name, table.keys() - before)
        own = {type: declared for type, declared in table.items() if namespace_of(type) == name}
        if not own:
            raise ProgramError(f"{entry.value} declares nothing in the namespace {name!r}")
        for declared in own.values():
            audit(declared)
    except ProgramError as error:
        for type in table.keys() - before:
            del table[type]
        raise PluginError(f"the plugin {name!r} {_package(entry)}: {error}") from error
    return own


def has_plugin(group: str, name: str) -> bool:
    """Return True if an installed package has an entry point of that name in the group."""
    from importlib.metadata import entry_points  # slow to import, and needed only where there are plugins

    return bool(entry_points(group=group, name=name))


def namespace_of(type: str) -> str:
    """Return the name of the plugin of an operator, "" for prograd itself."""
    return type.rpartition(".")[0]


def require_plugins(types: Iterable[str], known: Iterable[str]) -> None:
    """Raise ProgramError that names all operators of unknown plugins."""
    loaded = {namespace_of(type) for type in known} | {""}
    missing = sorted({type for type in types if "." in type and namespace_of(type) not in loaded})
    if not missing:
        return
    shown = ", ".join(repr(type[:80]) for type in missing[:_MOST_SHOWN])
    more = f" and {len(missing) - _MOST_SHOWN} more" if len(missing) > _MOST_SHOWN else ""
    raise ProgramError(f"the program uses {shown}{more}, of no plugin that is in use{plugin_hint(missing)}")


def plugin_hint(types: Iterable[str]) -> str:
    """Return `; give --plugin acme` or `; call use_plugin('acme')`, or "" if the operators are of no plugin."""
    names = sorted({namespace_of(type) for type in types if namespace_of(type).isidentifier()})[:_MOST_SHOWN]
    if not names:
        return ""
    form = as_asked("--plugin {}", "use_plugin('{}')")
    return f"; {as_asked('give', 'call')} {', '.join(form.format(name) for name in names)}"


def plugin_failed(where: str, error: BaseException) -> PluginError:
    """Return the error for a fault in the code of a plugin, as opposed to prograd's."""
    return PluginError(f"{where}: its plugin failed, {_first_line(error)}")


def _entry_point(group: str, name: str) -> EntryPoint:
    from importlib.metadata import entry_points  # slow to import, and needed only where there are plugins

    found = entry_points(group=group)
    matching = [entry for entry in found if entry.name == name]
    if not matching:
        names = sorted({entry.name for entry in found})
        installed = f"; installed are {', '.join(names)}" if names else "; no package that is installed has one"
        raise PluginError(
            f"there is no plugin {name!r} among the entry points {group}{closest(name, names) or installed}"
        )
    if len(matching) > 1:
        packages = " and ".join(sorted(map(_package, matching)))
        raise PluginError(f"the plugin {name!r} is there twice, {packages}; uninstall one of them")
    return matching[0]


def _import(entry: EntryPoint) -> None:
    try:
        entry.load()
    except ProgramError:
        raise
    except (Exception, SystemExit) as error:
        raise ProgramError(f"{entry.value} cannot be imported, {_first_line(error)}") from error


def _require_namespaces(name: str, new: Iterable[str]) -> None:
    for type in sorted(new):
        if not namespace_of(type):
            raise ProgramError(f"it declares {type!r} without a namespace; write namespace={name!r} beside it")


def _package(entry: EntryPoint) -> str:
    return f"of {entry.dist.name} {entry.dist.version}" if entry.dist is not None else "of an unknown package"


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]
