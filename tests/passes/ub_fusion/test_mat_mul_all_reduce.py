from harness import Fires, Stays, pass_of, tables

STAYS = [
    Stays("a product", "agraph (float[M,4] x) => (float[M,5] y) <float[4,5] W> { y = MatMul (x, W) }", None),
    Stays(
        "a product and somebody's AllReduce",
        "agraph (float[M,4] x) => (float[M,5] y) <float[4,5] W> { p = MatMul (x, W) y = own.AllReduce (p) }",
        None,
    ),
]
FIRES: list[Fires] = []

test_stays, _ = tables("MatMulAllReduce", STAYS, FIRES)


def test_it_says_why() -> None:
    assert "collective" in pass_of("MatMulAllReduce").never_matches
