"""Verbs about models and their numbers.

export       the verb `export`
compare      the verb `compare`
gradcheck    the verb `gradcheck`
arguments    the options of these verbs
given_feeds  feeds from files
"""
