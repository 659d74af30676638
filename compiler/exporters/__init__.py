"""Exporters: programs as models of other frameworks.

onnx  files of ONNX
"""
