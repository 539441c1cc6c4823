"""Standard operators that onnxruntime has in opsets that do not know them yet, with the same
meaning.
"""

EARLY = {"LayerNormalization": 17}  # the first opset that knows it
