"""Areas are the matter of tests/graph_kernel: by itself, the pass finds nothing."""

from harness import Stays, stays_table

_PRODUCTS = """agraph (float[1,4,16] x, float[16,16] w) => (float[1,4,16] y) {
    a = MatMul (x, w)  b = Relu (a)  y = MatMul (b, w) }"""
STAYS = [Stays("products", _PRODUCTS, None)]

test_stays = stays_table("BlockedMatMulFusionPass", STAYS)
