"""Values that depend on sizes at most, which are computed while importing.

bounds     how many elements a node makes of them
certain    which of them hold for all sizes
computed   their nodes, computed for trial sizes
constants  their elements, as numbers, extents or tensors
"""
