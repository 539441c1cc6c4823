from harness import Stays, pass_of, stays_table

STAYS = [
    Stays(
        "a product",
        "agraph (float[M,4] x) => (float[M,5] y) <float[4,5] W> { y = MatMul (x, W) }",
        None,
    ),
    Stays(
        "a product and somebody's AllReduce",
        "agraph (float[M,4] x) => (float[M,5] y) <float[4,5] W> { p = MatMul (x, W) y = own.AllReduce (p) }",
        None,
    ),
]

test_stays = stays_table("MatMulAllReduce", STAYS)


def test_it_says_why() -> None:
    assert "collective" in pass_of("MatMulAllReduce").never_matches
