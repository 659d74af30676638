"""From IR to functions that can be called: LLVM assembles, no IR passes run, objects are position independent.

    objects = compiled(module)          # the bytes of an object file, to be kept if wished
    loaded = load(objects, target)
    scale = loaded.function("scale", 2) # called with two addresses; the interpreter's lock is released meanwhile

An object calls nothing outside of itself and holds no address: arguments are pointers, and a table of pointers is one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from typing import Any, Final

from runtime.engines.engine import Unavailable
from runtime.engines.native.given_back import give_back
from runtime.engines.native.ir.module import Module
from runtime.engines.native.objects.elf import Refused, read_object
from runtime.engines.native.objects.image import image_of
from runtime.engines.native.objects.pages import Pages, check_executable
from runtime.engines.native.target import INSTRUCTION_SETS, Target, this_machine

LEVEL: Final = 1
"""Of the code generator: 0 is twice as slow to run, 2 and 3 take longer to compile and give the same speed."""

CPU: Final = {"x86_64": "x86-64", "aarch64": "generic"}
"""What LLVM starts from; the features of the target are all that is added."""


_SWITCH: Final = Lock()


def require_available() -> None:
    """Raise Unavailable if nothing can be compiled here, as far as that is seen without LLVM."""
    this_machine()
    check_executable()
    if find_spec("llvmlite") is None:
        _llvm()


def compiled(module: Module) -> bytes:
    """The module as an object file for its target; raises Unavailable where LLVM is not installed.

    How loops count addresses LLVM finds out by a search ("loop strength reduction") that takes 0.4 of all its time: the
    nests of convolutions, attention and recurrent layers are many, with an address for each element of a tile. Nothing
    is gained by it there; short loops of small networks run up to 5 % faster.
    """
    parsed, machine = _assembled(module)
    with _searching(module.has_plain_loops):
        objects = bytes(machine.emit_object(parsed))
    del parsed, machine
    give_back()
    return objects


def assembly(module: Module) -> str:
    """The module as text that people read, for its target."""
    parsed, machine = _assembled(module)
    with _searching(module.has_plain_loops):
        return str(machine.emit_assembly(parsed))


@contextmanager
def _searching(searches: bool) -> Generator[None]:
    """Whether loop strength reduction searches: LLVM has one switch for all who use it in this process."""
    with _SWITCH:
        if not searches:
            _llvm().set_option("prograd", "-disable-lsr")
        try:
            yield
        finally:
            if not searches:
                _llvm().set_option("prograd", "-disable-lsr=false")


def load(objects: bytes, target: Target) -> Loaded:
    """Make the functions of an object file callable; it has to be for a target that this machine can run.

    Raises Unavailable where memory cannot be made executable.
    """
    try:
        image = image_of(read_object(objects))
    except Refused:
        return _loaded_by_llvm(objects, target)
    pages = Pages(image)
    return Loaded({name: pages.start + at for name, at in image.addresses.items()}.get, pages)


class Loaded:
    """Code in memory, for as long as this object lives."""

    def __init__(self, find: Callable[[str], int | None], memory: object) -> None:
        """`find` gives the address of a function, or nothing; the code is there as long as `memory`."""
        self._find = find
        self._memory = memory

    def address(self, name: str) -> int:
        """Where a function begins."""
        found = self._find(name)
        assert found, f"there is no function {name}"
        return found

    def function(self, name: str, arguments: int) -> Callable[..., None]:
        """A function of so many addresses, or whole numbers of 64 bits."""
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(self.address(name))
        call.loaded = self  # type: ignore[attr-defined]  # the code stays as long as its caller
        return call


def _loaded_by_llvm(objects: bytes, target: Target) -> Loaded:
    """What `load` gives, for an object that has something that our reader does not know, as calls of the C library."""
    llvm = _llvm()
    empty = llvm.parse_assembly(f'target triple = "{target.triple}"\n')
    engine = llvm.create_mcjit_compiler(empty, _machine(target))  # which is from now on the engine's
    engine.add_object_file(llvm.ObjectFileRef.from_data(objects))
    engine.finalize_object()
    return Loaded(engine.get_function_address, engine)


def _assembled(module: Module) -> tuple[Any, Any]:
    machine = _machine(module.target)
    parsed = _llvm().parse_assembly(module.text)
    parsed.verify()
    return parsed, machine


def _machine(target: Target) -> Any:
    llvm, architecture = _llvm(), INSTRUCTION_SETS[target.name][0]
    if architecture != llvm.get_process_triple().partition("-")[0]:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=CPU[architecture], features=target.features, opt=LEVEL, reloc="pic", codemodel="small"
    )


@cache
def _llvm() -> Any:
    """LLVM, imported when something has to be compiled: it takes 50 ms and 50 MB, and need not be installed."""
    try:
        llvm = import_module("llvmlite.binding")
    except (ImportError, OSError) as error:  # not installed; or built for another system
        sentence = f'the native engine needs llvmlite (pip install "prograd[native]"): {error}'
        raise Unavailable(sentence, "no_llvmlite") from None
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm
