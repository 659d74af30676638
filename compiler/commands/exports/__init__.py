"""Verbs about models for other frameworks.

export    the verb `export`
"""
