"""Facts on operators: what they compute, check and make in onnxruntime, as data and rules that need
no graph.
"""
