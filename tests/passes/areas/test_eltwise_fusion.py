"""Areas are the matter of tests/graph_kernel: by itself, the pass finds nothing."""

from harness import Stays, stays_table

STAYS = [
    Stays(
        "a chain",
        "agraph (float[N] x) => (float[N] y) { a = Exp (x)  b = Neg (a)  y = Abs (b) }",
        None,
    )
]

test_stays = stays_table("TbeEltwiseFusionPass", STAYS)
