"""Verbs that import models.

import_onnx    the verb `import onnx`
"""
