"""Texts of language models: their tokenizers and templates, and the entries that write new codes.

model      what a program says of its language model, and the files of its tokenizer
gguf       the header of a GGUF file: what it says, and where its tensors lie
gguf_tokenizer  the tokenizer and the template of a GGUF file
tokenizer  texts as codes, by a tokenizer of the package `tokenizers`
template   conversations as text, by a template of Jinja
sandbox    the run of a template within limits
choices    how the next code is chosen: temperature and the like
writer     the caches of texts that a program writes, and its steps
texts      new texts, piece by piece
chatting   answers of a run in Python
"""
