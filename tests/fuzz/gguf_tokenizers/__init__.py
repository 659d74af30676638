"""Random tokenizers, written as GGUF and read again.

draw      tokenizers that merge bytes or pieces, with steps of many kinds around them
__main__  the campaign
"""
