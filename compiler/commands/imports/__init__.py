"""Verbs that import models.

import_onnx    the verb `import onnx`
format_of      the format of a model by the name of its file
logits_behind  the logits behind a result that has probabilities
"""
