"""Compiled code in the user's cache folder: never trusted, bounded, and never a cause of errors.

key      the hash of everything that code depends on
entry    a file: the description of the code, its functions, the object
folder   the paths of files, and whether folder and files are safe to use
entries  entries read, written and removed
"""
