"""What the commands `compiler` and `runtime` have in common: how they are told, how they speak, and how they end.

process     a command as a process: signals from its first moment on, streams to its last
wakeup      a wait of the main thread that no signal misses
parsing     parsers whose errors are one sentence, and the options that every verb has
values      what options are given: sizes, times, whole numbers, words of a list
completion  a script by which shells complete a command
streams     stdout and stderr, whatever happens to them
outputs     files that are to be written, looked at before
ending      exit codes, and the sentence of an error
"""
