"""Random ONNX graphs with symbols beside ONNX Runtime.

__main__  the campaign
"""
