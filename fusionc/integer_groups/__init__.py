"""Groups that onnxruntime computes in integers: DequantizeLinear, an operator, QuantizeLinear."""
