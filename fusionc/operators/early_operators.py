"""Standard operators that onnxruntime supports in opsets before their introduction, with the same
definition.
"""

EARLY = {"LayerNormalization": 17}  # the opset that introduced the operator
