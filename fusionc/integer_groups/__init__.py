"""Groups of nodes that onnxruntime computes in integers. A group consists of an operator (the
core), the DequantizeLinear nodes before it, and the QuantizeLinear after it.
"""
