"""Groups of nodes that onnxruntime computes in integers: DequantizeLinear, an operator (the core),
QuantizeLinear.
"""
