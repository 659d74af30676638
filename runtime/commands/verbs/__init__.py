"""The tables of the verbs of `runtime`: what each may be told.

command    the command and its verbs, in the order of help
running    execute, replay, audit
measuring  check, profile, bench, cache, plot
sweeping   sweep
serving    serve, chat
options    the options that several verbs have
"""
