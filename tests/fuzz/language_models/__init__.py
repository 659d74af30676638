"""Random configs of language models, imported and written in other layouts, beside transformers.

draw      configs of every family, with random values of every option
judge     logits of the import beside transformers, and after each layout and back
__main__  the campaign
"""
