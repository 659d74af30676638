"""Compiled code in the user's cache folder: never trusted, bounded, and no error whatever is wrong with it.

key      what code depends on, as one number
entry    a file: what the code is for, its functions, the object
folder   where the files are, and whether folder and files are safe to use
entries  entries read, written and left out again
"""
