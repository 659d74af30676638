"""Engines: what runs the steps of a bound block.

native/     a room of its own
reference/  a room of its own
"""
