"""The ready form of a model: files that onnxruntime loads fast. They are valid only for one version
of onnxruntime and one kind of processor.
"""
