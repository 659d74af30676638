"""The command `prograd`, which has the verbs of `runtime` and `compiler`.

verbs         the choice of the command that a verb belongs to
options_page  the page about the options of all verbs
"""
