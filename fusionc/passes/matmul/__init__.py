"""Fold biases, scales and Transposes into MatMul, Gemm and Einsum, and join products."""
