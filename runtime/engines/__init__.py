"""Engines: what runs the steps of a bound block.

reference/  a room of its own
"""
