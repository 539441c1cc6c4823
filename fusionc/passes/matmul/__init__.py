"""Biases, scales and Transposes are folded into MatMul, Gemm and Einsum, and products are
joined.
"""
