"""The common parts of the commands `compiler` and `runtime`: arguments, messages and exit codes.

process     a command as a process: signals from its first moment on, streams to its last
wakeup      a wait of the main thread that no signal misses
parsing     parsers whose errors are one sentence, and the options that every verb has
values      the values of options: sizes, times, whole numbers, words of a list
completion  a script by which shells complete a command
streams     stdout and stderr, with their failures handled
results     the result of a verb: a line for scripts, a table for a terminal
colours     colours of a terminal
outputs     output files, checked before the work starts
ending      exit codes, and the sentence of an error
os_errors   errors of the operating system about files, as sentences and as kinds
"""
