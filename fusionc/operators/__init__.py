"""Facts on operators: what they compute, what they check, and what onnxruntime makes of them, as
data and rules that need no graph.
"""
