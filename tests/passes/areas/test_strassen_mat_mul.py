"""Areas are the matter of tests/graph_kernel: by itself, the pass finds nothing."""

from harness import Stays, stays_table

_PRODUCTS = """agraph (float[1,400,64] x, float[64,64] w) => (float[1,400,64] y) {
    a = MatMul (x, w)  b = Relu (a)  y = MatMul (b, w) }"""
STAYS = [Stays("products", _PRODUCTS, None)]

test_stays = stays_table("StrassenMatMulPass", STAYS)
