"""AIPP, ATC's preprocessing of images: its configuration file, its arithmetic in NumPy, and ONNX
operators that do the same before an input.
"""
