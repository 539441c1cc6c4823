"""Facts about operators: what they compute and check, and how onnxruntime treats them. The facts
are tables and rules that can be read without a graph.
"""
