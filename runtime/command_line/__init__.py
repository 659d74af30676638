"""The common parts of the commands `compiler` and `runtime`: arguments, messages and exit codes.

process     a command as a process: signals from its first moment on, streams to its last
wakeup      a wait of the main thread that no signal misses
tables      the verbs of a command and their options as data
parsing     parsers of these tables, whose errors are one sentence
calling     the check of options against each other, and the call of a verb
values      the values of options: sizes, times, whole numbers, words of a list
completion  a script by which shells complete a command
streams     stdout and stderr, with their failures handled
say         sentences on stderr, and those of the log
results     the result of a verb: a line for scripts, a table for a terminal
colours     colours of a terminal
outputs     output files, checked before the work starts
ending      exit codes, and the sentence of an error
os_errors   errors of the operating system about files, as sentences and as kinds

To add a verb:

1. A file in `compiler/commands/` or `runtime/commands/` with a function, both named like the verb. The function
   takes the options, prints with `put`, and returns an exit code or `None`.
2. Its table in a file of `verbs/` of the same folder, and in the list of `verbs/command.py`. `verbs/options.py` has
   options that several verbs share. An option that needs or excludes another one says so in the table.
3. Its tests, and its section of docs/commands.md, which a test checks; `make docs` writes docs/options.md.
"""
