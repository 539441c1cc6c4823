from harness import (
    Fires,
    Stays,
    assert_same_numbers,
    operators,
    optimize,
    parse,
    pass_of,
    seen_by_subgraph,
    tables,
)

KEYS = "t = Transpose <perm = [0,1,3,2]> (r) y = MatMul (a, t)"
VALUES = "y = MatMul (a, r)"
REPEAT = "u = Unsqueeze (x, two) e = Expand (u, wide) r = Reshape (e, whole)"


def graph(
    product: str = KEYS,
    a: str = "float[B,8,1,5] a",
    x: str = "float[B,2,T,5] x",
    constants: str = "int64[1] two = {2}, int64[5] wide = {1,1,4,1,1}, int64[4] whole = {0,8,-1,5}",
    repeat: str = REPEAT,
    more: str = "",
) -> str:
    return f"agraph ({a}, {x}) => (float[p,q,r,s] y{more}) <{constants}> {{ {repeat} {product} }}"


def sizes(two: int = 2, wide: str = "1,1,4,1,1", whole: str = "0,8,-1,5") -> str:
    return f"int64[1] two = {{{two}}}, int64[5] wide = {{{wide}}}, int64[4] whole = {{{whole}}}"


NOT_REPEATED = "it is not known that each matrix is repeated"
UNKNOWN = "the number of matrices is unknown"
STAYS = [
    Stays("one matrix for all", graph(a="float[B,1,1,5] a"), "the other operand is not known to have as many matrices"),
    Stays("another target", graph(), "for target onnx no gain is known", target="onnx"),
    Stays("three axes", graph(a="float[8,8,5] a"), "the rank is not 4"),
    Stays("five axes", graph(a="float[3,8,8,1,5] a", x="float[8,2,T,5] x").replace("q,r,s] y", "q,r,s,t] y"), "the rank is not 4"),
    Stays("an operand of unknown rank", graph(a="float[] a"), "the rank is unknown", valid=False),
    Stays("matrices of unknown rank", graph(x="float[] x"), NOT_REPEATED, valid=False),
    Stays("another length, which an empty batch allows", graph(constants=sizes(whole="0,8,7,5")), NOT_REPEATED),
    Stays(
        "as many matrices as the caller says",
        "agraph (float[B,8,1,5] a, float[B,T,10] k, int64[1] n) => (float[p,q,r,s] y) "
        f"<int64[1] zero = {{0}}, int64[1] five = {{5}}, {sizes()}> {{ each = Concat <axis = 0> (zero, zero, n, five) "
        f"h = Reshape (k, each) x = Transpose <perm = [0,2,1,3]> (h) {REPEAT} {KEYS} }}",
        UNKNOWN,
    ),
    Stays(
        "repeated to as many as the caller says",
        "agraph (float[B,8,1,5] a, float[B,2,7,5] x, int64[1] n) => (float[p,q,r,s] y) <int64[1] zero = {0}, "
        "int64[2] rest = {7,5}, int64[1] two = {2}, int64[5] wide = {1,1,4,1,1}> "
        f"{{ whole = Concat <axis = 0> (zero, n, rest) {REPEAT} {KEYS} }}",
        UNKNOWN,
    ),
    Stays("all, one after another", graph(constants=sizes(1, "1,4,1,1,1"), x="float[B,2,3,5] x"), NOT_REPEATED),
    Stays("rows repeated", graph(constants=sizes(3, "1,1,1,4,1", "0,8,-1,5"), x="float[B,2,4,5] x"), NOT_REPEATED),
    Stays(
        "the batch repeated, too", graph(constants=sizes(wide="3,1,4,1,1"), x="float[1,2,T,5] x", a="float[3,8,1,5] a"), NOT_REPEATED
    ),
    Stays("other matrices", graph(VALUES, "float[B,4,1,T] a", constants=sizes(whole="0,4,-1,10"), x="float[B,2,4,5] x").replace(",T] a", ",4] a"), NOT_REPEATED),
    Stays("turned in another way", graph("t = Transpose <perm = [0,1,2,3]> (r) y = MatMul (a, t)", a="float[B,8,1,3] a", x="float[B,2,3,5] x"), None),
    Stays("on the left", graph("y = MatMul (r, a)", a="float[B,8,5,4] a"), None),
    Stays("used elsewhere", graph(more=", float[p,q,r,s] z", product=f"{KEYS} z = Neg (r)"), "an interior value is used elsewhere"),
    Stays("a graph output", graph(more=", float[b,c,d,e] r"), "an interior value is a graph output"),
    Stays("a subgraph uses it", seen_by_subgraph(graph(), "r", "float[b,c,d,e]"), "an interior value is used elsewhere"),
    Stays(
        "unknown repetitions",
        "agraph (float[B,8,1,5] a, float[B,2,T,5] x, int64[5] wide) => (float[p,q,r,s] y) <int64[1] two = {2}, int64[4] whole = {0,8,-1,5}> "
        f"{{ {REPEAT} {KEYS} }}",
        NOT_REPEATED,
    ),
]  # fmt: skip

LEFT_KEYS = ["Transpose", "Reshape", "MatMul", "Reshape"]
LEFT_VALUES = ["Reshape", "MatMul", "Reshape"]
UNKNOWN_KEYS = ["Shape", "Mul", "Transpose", "Concat", "Reshape", "MatMul", "Concat", "Reshape"]
FIRES = [
    Fires("keys", graph(), LEFT_KEYS),
    Fires("values", graph(VALUES, "float[B,8,1,T] a"), LEFT_VALUES),
    Fires("several rows", graph(a="float[B,8,3,5] a"), LEFT_KEYS),
    Fires("rows of which the number is unknown", graph(a="float[B,8,S,5] a"), UNKNOWN_KEYS, opset=15),
    Fires("no rows", graph(a="float[B,8,0,5] a"), LEFT_KEYS),
    Fires("no batch", graph(VALUES, "float[B,8,3,4] a", "float[B,2,4,5] x", sizes(whole="0,8,4,5")), LEFT_VALUES, sizes={"B": 0}),
    Fires("no rows, as it turns out", graph(a="float[B,8,S,5] a"), UNKNOWN_KEYS, sizes={"S": 0}),
    Fires("an axis from the end", graph(constants=sizes(-3)), LEFT_KEYS),
    Fires("numbers only", graph(a="float[3,8,2,5] a", x="float[3,2,7,5] x"), LEFT_KEYS),
    Fires("one batch for all", graph(a="float[1,8,2,5] a"), LEFT_KEYS),
    Fires("one group", graph(x="float[B,1,T,5] x", constants=sizes(wide="1,1,8,1,1")), LEFT_KEYS),
    Fires("opset 9", graph().replace("Unsqueeze (x, two)", "Unsqueeze <axes = [2]> (x)"), LEFT_KEYS, opset=9),
    Fires("half", graph().replace("float[", "float16["), LEFT_KEYS),
    Fires("double", graph(VALUES, "float[B,8,2,T] a").replace("float[", "double["), LEFT_VALUES),
]  # fmt: skip

test_stays, test_fires = tables("RepeatedMatMulUbFusionPass", STAYS, FIRES, in_functions="never")


def test_no_batch_and_an_unknown_number_of_rows() -> None:
    """By itself: ShapeReshapePass gives up tensors without elements."""
    model = parse(graph(VALUES, "float[B,8,S,4] a", "float[B,2,4,5] x", sizes(whole="0,8,4,5")))
    result, _ = optimize(model, [pass_of("RepeatedMatMulUbFusionPass")])
    assert operators(result)["Expand"] == 0
    assert_same_numbers(model, result, "rounding", {"B": 0})
