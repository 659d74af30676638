"""Verbs about models and their numbers.

export       the verb `export`
compare      the verb `compare`
gradcheck    the verb `gradcheck`
merge        the verb `merge`
quantize     the verb `quantize`
build        the verb `build`
lora_words   the words of --lora
given_feeds  feeds from files
"""
