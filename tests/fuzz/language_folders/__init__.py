"""Damaged folders and GGUF files of language models.

__main__  the campaign
"""
