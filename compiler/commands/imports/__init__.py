"""Verbs that import models.

import_lm      the verb `import lm`
import_onnx    the verb `import onnx`
imported       names and files of imported programs
format_of      the format of a model by the name of its file
process_limits  limits of memory and time that the system enforces
logits_behind  the logits behind a result that has probabilities
"""
