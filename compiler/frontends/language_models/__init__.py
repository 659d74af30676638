"""Language models from folders of Hugging Face's form: config.json, safetensors, tokenizer.json.

from compiler import from_lm

config    the architecture that config.json describes
config_keys  the keys of config.json
rotary    the rotary positions that config.json describes
stored_states  weights as states of a program
weights   the tensors of the folder's files
gguf_model  the architecture and the weights of a GGUF file
gguf_blocks  tensors of GGUF files as arrays
gguf_names  the names and the order of weights in GGUF files
network   the layers of a model, which training and writing share
from_lm   a program that trains, evaluates and writes
encoder_config  the architecture of an encoder that config.json describes
encoder_network  the layers of an encoder with a head for classes
from_encoder  the entries and the description of an encoder's program
peft      adapters of PEFT's folders
writing   the entries that read a prompt and write the next code
"""
