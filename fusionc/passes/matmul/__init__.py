"""MatMul, Gemm and Einsum: biases, scales and orders of axes go into them; several become one."""
