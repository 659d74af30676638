"""Compilation of IR to functions: LLVM assembles, no IR passes run, objects are position independent.

    object = compiled(module)           # the bytes of an object file, to be kept if wished
    loaded = load(object, target)
    scale = loaded.function("scale", 2) # called with two addresses; the interpreter's lock is released meanwhile

An object calls nothing outside of itself and holds no address: arguments are pointers, and a table of pointers is one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from prograd_proto.wording import install_hint
from runtime.address_space import has_room
from runtime.codegen.elf import UnknownObject, read_object
from runtime.codegen.machine import Target
from runtime.engines.engine import Unavailable
from runtime.engines.native.cpu import this_machine
from runtime.engines.native.objects.image import image_of
from runtime.engines.native.objects.pages import Pages, check_executable
from runtime.engines.native.release_memory import give_back
from runtime.errors import ResourceLimit

if TYPE_CHECKING:
    from runtime.codegen.ir import Module

OPTIMIZATION_LEVEL: Final = 1
"""Optimisation level of the code generator: with 0 the code is half as fast; 2 and 3 only take longer to compile."""

OPTIMIZATION_LEVELS: Final = {"wasm32": 2}
"""Levels of architectures that need another one: LLVM lets values of WebAssembly share locals only from 2 on."""

BASE_CPUS: Final = {
    "x86_64": "x86-64",
    "aarch64": "generic",
    "riscv64": "generic-rv64",
    "armv7": "cortex-a7",
    "thumbv7em": "cortex-m4",
    "wasm32": "generic",
}
"""The base CPU of each architecture; only the features of the target are added."""

FIXED_ADDRESSES: Final = ("wasm32", "thumbv7em")
"""Architectures whose objects a linker puts to fixed addresses; those of the others may lie anywhere."""


LIBRARY_BYTES: Final = 68 << 20
"""Resident memory of LLVM and its first small module, of which 47 MiB are the library's own code."""

WORKING_BYTES: Final = 52 << 20
"""Resident memory that a further small module takes: the code of the library that `give_back` dropped."""

BYTES_PER_TEXT: Final = 24
"""Upper bound on the memory that LLVM takes for a byte of a module's text; 7 to 17 were measured."""

LIBRARY_ADDRESSES: Final = 160 << 20
"""Address space that the library of LLVM maps when it is imported."""

COMPILING_ADDRESSES: Final = 32 << 20
"""Address space that LLVM takes to compile a small module."""

TOO_LITTLE_ADDRESS_SPACE: Final = (
    "there is not enough memory for LLVM, which compiles the program; "
    "use the engine 'reference', or raise the limit of the system (ulimit -v, ulimit -d)"
)

_SWITCH: Final = Lock()


def require_available() -> None:
    """Raise Unavailable if nothing can be compiled here, as far as that is seen without LLVM."""
    this_machine()
    check_executable()
    if find_spec("llvmlite") is None:
        _llvm()


def compiler_bytes(module: Module, *, warm: bool) -> int:
    """Return an upper bound on the resident memory that compiling the module adds, in bytes.

    `warm`: another module was compiled since `give_back`, so the code of LLVM is resident.
    """
    loaded = bool(_llvm.cache_info().currsize)
    library = 0 if warm else WORKING_BYTES if loaded else LIBRARY_BYTES
    return library + BYTES_PER_TEXT * module.nbytes


def has_address_space(nbytes: int = 0) -> bool:
    """Return True if the system lets the process import LLVM, compile an ordinary module and map `nbytes` more."""
    library = 0 if _llvm.cache_info().currsize else LIBRARY_ADDRESSES
    return has_room(library + COMPILING_ADDRESSES + nbytes)


def _require_address_space(text_bytes: int) -> None:
    """Raise ResourceLimit where LLVM would meet the limit of addresses: it ends the process then."""
    if not has_address_space(BYTES_PER_TEXT * text_bytes):
        raise ResourceLimit(TOO_LITTLE_ADDRESS_SPACE)


def compiled(module: Module) -> bytes:
    """Return the module as an object file for its target, and release LLVM's memory; see `compiled_of_several`."""
    content = compiled_of_several(module)
    give_back()
    return content


def compiled_of_several(module: Module) -> bytes:
    """Return the module as an object file for its target; call `give_back` after the last of several modules.

    Raise Unavailable if LLVM is not installed, ResourceLimit if there is too little memory.

    LLVM determines how loops count addresses by a search ("loop strength reduction") that takes 0.4 of its total time:
    the nests of convolutions, attention and recurrent layers are many, with an address for each element of a tile. The
    search gains nothing for these; short loops of small networks run up to 5 % faster.
    """
    parsed, machine = _assembled(module)
    with _searching(module.has_plain_loops):
        return bytes(machine.emit_object(parsed))


def assembly(module: Module) -> str:
    """Return the module as assembly text for its target."""
    parsed, machine = _assembled(module)
    with _searching(module.has_plain_loops):
        return str(machine.emit_assembly(parsed))


@contextmanager
def _searching(searches: bool) -> Generator[None]:
    """Turn the search of loop strength reduction on or off; LLVM has one switch for the whole process."""
    with _SWITCH:
        if not searches:
            _llvm().set_option("prograd", "-disable-lsr")
        try:
            yield
        finally:
            if not searches:
                _llvm().set_option("prograd", "-disable-lsr=false")


def load(content: bytes, target: Target) -> Loaded:
    """Make the functions of one object file callable, see `load_all`."""
    return load_all([content], target)


def load_all(objects: Sequence[bytes], target: Target) -> Loaded:
    """Make the functions of object files callable, which LLVM has just made for a target that this machine can run.

    Raises Unavailable where memory cannot be made executable.
    """
    try:
        return linked(objects)
    except UnknownObject:
        return _loaded_by_llvm(objects, target)


def linked(objects: Sequence[bytes]) -> Loaded:
    """Make the functions of object files callable without LLVM.

    Raise UnknownObject for other objects than ours, Unavailable if memory cannot be made executable.
    """
    addresses: dict[str, int] = {}
    memory: list[Pages] = []
    for image in [image_of(read_object(content)) for content in objects]:
        pages = Pages(image)
        memory.append(pages)
        addresses |= {name: pages.start + at for name, at in image.addresses.items()}
    return Loaded(addresses.get, memory, sum(pages.nbytes for pages in memory))


class Loaded:
    """Code in memory, for as long as this object lives.

    Attributes:
        nbytes: size of its memory.
    """

    def __init__(self, find: Callable[[str], int | None], memory: object, nbytes: int) -> None:
        """Keep `find`, which returns the address of a function or None; the code exists as long as `memory`."""
        self._find = find
        self._memory = memory
        self.nbytes = nbytes

    def has(self, name: str) -> bool:
        """Return True if there is a function of that name."""
        return bool(self._find(name))

    def address(self, name: str) -> int:
        """Return the address of a function."""
        found = self._find(name)
        assert found, f"there is no function {name}"
        return found

    def function(self, name: str, arguments: int) -> Callable[..., None]:
        """Return a function of `arguments` addresses or 64-bit integers."""
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(self.address(name))
        call.loaded = self  # type: ignore[attr-defined]  # the code stays as long as its caller
        return call


def _loaded_by_llvm(objects: Sequence[bytes], target: Target) -> Loaded:
    """Return the result of `load` for an object that our reader does not know, loaded by LLVM."""
    llvm = _llvm()
    empty = llvm.parse_assembly(f'target triple = "{target.triple}"\n')
    engine = llvm.create_mcjit_compiler(empty, _machine(target))  # it belongs to the engine from now on
    for content in objects:
        engine.add_object_file(llvm.ObjectFileRef.from_data(content))
    engine.finalize_object()
    return Loaded(engine.get_function_address, engine, sum(map(len, objects)))


def _assembled(module: Module) -> tuple[Any, Any]:
    text = module.text
    _require_address_space(len(text))
    machine = _machine(module.target)
    parsed = _llvm().parse_assembly(text)
    parsed.verify()
    return parsed, machine


def _machine(target: Target) -> Any:
    llvm, architecture = _llvm(), target.architecture
    if architecture != llvm.get_process_triple().partition("-")[0]:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=BASE_CPUS[architecture],
        features=target.features,
        opt=OPTIMIZATION_LEVELS.get(architecture, OPTIMIZATION_LEVEL),
        reloc="static" if architecture in FIXED_ADDRESSES else "pic",
        codemodel="small" if architecture in ("x86_64", "aarch64") else "default",
        abiname="lp64d" if architecture == "riscv64" else "",
    )


@cache
def _llvm() -> Any:
    """Import LLVM when code has to be compiled: this takes 50 ms and 50 MB, and LLVM may not be installed."""
    try:
        llvm = import_module("llvmlite.binding")
    except (ImportError, OSError) as error:  # not installed, or built for another system
        sentence = f"the native engine needs llvmlite ({install_hint('native')}): {error}"
        raise Unavailable(sentence, "no_llvmlite") from None
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm
