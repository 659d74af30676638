"""Programs as libraries that need no Python: the code of steps with tables, states and a runtime in C.

machines  the machines that libraries are built for
library   a program as object files for a machine
range_checks  the sentences for numbers out of range
layout    the memory of an instance, and places in it instead of addresses
tables    the tables of a library as numbers
initial   the step that draws initial values
shards    a step in shards as two, for hosts of several processes
sharing   functions that differ in whole numbers only, as one
resolved  object files whose relocations are applied
declared_run  the run that a program declares, as numbers
data      tables and functions as a module of LLVM's IR
archive   static libraries
texts     header, example, build files and description
fortran   a module of Fortran
rust      a crate of Rust
folder    the folder of a library
browser   the folder of a program for browsers

The folder `host` has the runtime in C, `site` that in JavaScript with a page. Both are the same for every program.
"""
