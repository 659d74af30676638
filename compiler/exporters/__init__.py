"""Exporters: programs as models of other frameworks.

onnx           files of ONNX
merged_states  states with low-rank adapters added to their weights
gguf           tuned language models as files of GGUF
gguf_read_back refusals of models that GGUF would describe as others
language_models tuned language models as folders for other programs
"""
