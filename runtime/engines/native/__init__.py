"""The native engine: a training step as one compiled function; docs/native.md is its design.

target      what code may be made of: instruction set, vector registers, fused multiply-add, caches of this CPU
"""
