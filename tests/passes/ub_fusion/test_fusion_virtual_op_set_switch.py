"""Areas are the matter of tests/graph_kernel: by itself, the pass finds nothing."""

from harness import Fires, Stays, tables

STAYS = [Stays("a chain", "agraph (float[N] x) => (float[N] y) { a = Exp (x)  b = Neg (a)  y = Abs (b) }", None)]
FIRES: list[Fires] = []

test_stays, test_fires = tables("FusionVirtualOpSetSwitch", STAYS, FIRES)
