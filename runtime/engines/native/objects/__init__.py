"""Objects of compiled code: read, laid out and made callable without LLVM.

image        the sections of an object in the layout of memory, with relocations applied
relocations  the computation of a relocated word, for each kind that position-independent code has
pages        memory for code: written first, then executable, never both
posix        pages of Linux, macOS and similar systems
windows      pages of Windows

Objects are ELF on every system: LLVM writes it for macOS and Windows too, with their calling conventions, so there is
one reader, `runtime.codegen.elf`. It refuses unknown contents, and LLVM then loads the object.
"""
