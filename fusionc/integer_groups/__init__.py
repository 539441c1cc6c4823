"""Find groups of nodes that onnxruntime computes in integers, and refuse rewrites that would break
a group. A group consists of an operator (the core), the DequantizeLinear nodes before it, and the
QuantizeLinear after it.
"""
