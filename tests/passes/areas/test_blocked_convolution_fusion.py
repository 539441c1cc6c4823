"""Areas are the matter of tests/graph_kernel: by itself, the pass finds nothing."""

from harness import Stays, stays_table

_CONVOLUTIONS = """agraph (float[1,16,9,9] x, float[16,16,3,3] w) => (float[1,16,5,5] y) {
    a = Conv (x, w)  b = Relu (a)  y = Conv (b, w) }"""
STAYS = [Stays("convolutions", _CONVOLUTIONS, None)]

test_stays = stays_table("BlockedConvolutionFusionPass", STAYS)
