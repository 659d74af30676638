"""Objects of compiled code: read, laid out and made callable without LLVM.

elf          relocatable files of the format ELF: sections, symbols, relocations
image        the sections of an object as they lie in memory, with relocations applied
relocations  what a relocation writes, for each kind that position-independent code has
pages        memory for code: written first, then executable, never both
posix        pages of Linux, macOS and their like
windows      pages of Windows

Objects are ELF on every system: LLVM writes it for macOS and Windows too, with their calling conventions, so there is
one reader. What it does not know it refuses, and LLVM loads the object.
"""
