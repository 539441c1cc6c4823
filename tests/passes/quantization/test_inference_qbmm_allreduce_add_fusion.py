from harness import Stays, pass_of, stays_table

PRODUCT = "p = MatMulInteger (a, W) c = Cast <to = 1> (p) q = Mul (c, s)"
STAYS = [
    Stays(
        "a quantized product and its bias",
        f"agraph (uint8[M,4] a, float s, float[5] B) => (float[M,5] y) <uint8[4,5] W> {{ {PRODUCT} y = Add (q, B) }}",
        None,
    ),
    Stays(
        "with somebody's AllReduce between",
        f"agraph (uint8[M,4] a, float s, float[5] B) => (float[M,5] y) <uint8[4,5] W> {{ {PRODUCT} r = own.AllReduce (q) y = Add (r, B) }}",
        None,
    ),
]

test_stays = stays_table("InferenceQbmmAllreduceAddFusionPass", STAYS)


def test_it_says_why() -> None:
    assert "collective" in pass_of("InferenceQbmmAllreduceAddFusionPass").never_matches
