"""Facts about operators: what they compute and check, and how onnxruntime treats them. They are
data and rules that need no graph.
"""
