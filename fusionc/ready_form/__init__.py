"""The form of a model that onnxruntime loads fast, tied to its version and a processor, and who
uses it.
"""
