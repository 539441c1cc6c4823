"""onnxruntime, in a process of its own: a crash, a hang or hunger there is an error message
here.
"""
