"""The ready form of a model: files that onnxruntime loads faster than the model. They are valid
only for one version of onnxruntime and one kind of processor.
"""
