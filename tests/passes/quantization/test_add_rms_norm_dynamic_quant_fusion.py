import numpy as np
import pytest
from harness import Fires, Stays, make_feeds, optimize, parse, pass_of, session, tables

SCALE = "w = Div (m, c)"
ROUND = "d = Div (x, w) r = Round (d) y = Cast <to = 3> (r)"
CLIPPED = "d = Div (x, w) r = Round (d) p = Clip (r, low, high) y = Cast <to = 3> (p)"


def graph(
    scale: str = SCALE,
    end: str = ROUND,
    x: str = "float[B,S,4] x",
    y: str = "int8[a,b,c] y, float[d,e,f] w",
    c: str = "127",
    reduce: str = "a = Abs (x) m = ReduceMax (a, ax)",
    low: str = "-128",
    axis: str = "-1",
    before: str = "",
    least: str = "float least = {0.00001}",
) -> str:
    constants = f"int64[1] ax = {{{axis}}}, float c = {{{c}}}, {least}, float low = {{{low}}}, float high = {{127}}, float[4] g, float[4] t"
    return f"agraph ({x}) => ({y}) <{constants}> {{ {before} {reduce} {scale} {end} }}"


SHAPE = "the scale has another shape than the largest elements"
KEPT = "q = Div (m, c) w = Max (q, least)"
NORMED = {
    "before": "b = Add (x, x) n = RMSNormalization (b, g) h = Mul (n, t)",
    "y": "int8[a,b,c] y",
}
OTHER = "the scale is computed from another value"
STAYS = [
    Stays("opset 13", graph(reduce="a = Abs (x) m = ReduceMax <axes = [-1]> (a)"), "before opset 14 Reshape cannot make an axis of length 0", opset=13),
    Stays("double", graph().replace("float", "double"), "the elements are not float32", opset=21),
    Stays("rank 1", graph(x="float[4] x", y="int8[a] y"), "the rank is less than 2", opset=21),
    Stays("another axis", graph(axis="1"), "the reduced axes are not the last ones", opset=21),
    Stays("all axes", graph(reduce="a = Abs (x) m = ReduceMax (a)"), "the largest element is not taken over exactly the last axis", opset=21),
    Stays("an unknown length", graph(x="float[B,S,H] x"), "the length of the last axis is unknown", opset=21),
    Stays("an empty last axis", graph(x="float[B,S,0] x"), "the last axis is empty", opset=21),
    Stays("an unknown rank", graph(x="float[] x"), "the rank is unknown", opset=21, valid=False),
    Stays("the largest of each row without its axis", graph(x="float[4,4,4] x", y="int8[a,b,c] y", reduce="a = Abs (x) m = ReduceMax <keepdims = 0> (a, ax)"), "the reduced axes are dropped", opset=21),
    Stays("clipped to less from above", graph(end=CLIPPED).replace("high = {127}", "high = {126}"), "the result is clipped to a smaller range than that of int8", opset=21),
    Stays("clipped to less", graph(end=CLIPPED, low="-8"), "the result is clipped to a smaller range than that of int8", opset=21),
    Stays("clipped by two numbers", graph(end=CLIPPED).replace("float low = {-128}", "float[2] low = {-128, -128}"), "a bound of the result is not a single number", opset=21, valid=False),
    Stays("a least scale for each column", graph(KEPT, least="float[4] least"), SHAPE, opset=21),
    Stays("a least scale for each batch", graph(KEPT, least="float[2,1,1] least", x="float[1,S,4] x"), SHAPE, opset=21),
    Stays("a least scale that raises the rank", graph(KEPT, least="float[1,1,1,1] least", y="int8[a,b,c,d] y"), SHAPE, opset=21),
    Stays("divided by another number", graph(c="7"), None, opset=21),
    Stays("not of the magnitude", graph(reduce="m = ReduceMax (x, ax)"), None, opset=21),
    Stays("of something else", graph(before="q = Neg (x)", reduce="a = Abs (q) m = ReduceMax (a, ax)"), None, opset=21),
    Stays("a norm by its scaled form", graph(**NORMED, reduce="a = Abs (h) m = ReduceMax (a, ax)", end=ROUND.replace("(x,", "(n,")), OTHER, opset=23),
    Stays("a scaled norm by the norm", graph(**NORMED, reduce="a = Abs (n) m = ReduceMax (a, ax)", end=ROUND.replace("(x,", "(h,")), OTHER, opset=23),
    Stays("to int32", graph(end=ROUND.replace("to = 3", "to = 6"), y="int32[a,b,c] y"), None, opset=21),
    Stays("cut off instead of rounded", graph(end=ROUND.replace("Round", "Floor")), None, opset=21),
    Stays("rounded values are used elsewhere", graph(end=f"{ROUND} z = Neg (r)", y="int8[a,b,c] y, float[d,e,f] z"), "an interior value is used elsewhere", opset=21),
    Stays("another target", graph(), "for target onnx no gain is known", opset=21, target="onnx"),
]  # fmt: skip

SCALES = ["Abs", "ReduceMax", "Div"]
NAN = ["Equal", "Where"]
BLOCKS = ["QuantizeLinear", *NAN]
ROWS = ["Reshape", *BLOCKS]
END = ["Reshape", "Reshape", *BLOCKS, "Shape", "Reshape"]
TYPED = ["Reshape", "Reshape", "Shape", "ConstantOfShape", *BLOCKS, "Shape", "Reshape"]
LEFT = [*SCALES, *END]

# TorchAir's three, each with and without what it may have
FLAT = "f = Constant <value_ints = [-1, 4]> () x = Reshape (n, f)"
TORCHAIR = {
    "plain": "x = Identity (n)",
    "smooth": "x = Mul (n, t)",
    "flattened": FLAT,
    "flattened by Flatten": "x = Flatten <axis = 2> (n)",
    "smooth, flattened": FLAT.replace("x = Reshape (n", "o = Mul (n, t) x = Reshape (o"),
    "cast": "x = Cast <to = 1> (n)",
    "flattened, cast": FLAT.replace("x = Reshape", "o = Reshape") + " x = Cast <to = 1> (o)",
}


def torchair(
    form: str, *, with_sum: bool, epsilon: str = "", dims: str = "B,S", written: bool = False
) -> str:
    """A sum, its normalization and the quantization of that; "cast" is of float16, to float32."""
    is_half = "cast" in form
    is_flat = "flattened" in form
    if is_half:
        norm = f"s = Add (u, k) n = RMSNormalization {epsilon} (s, h)"
    elif written:
        norm = "s = Add (u, k) p = Pow (s, two) v = ReduceMean (p, ax) e = Add (v, eps) o1 = Sqrt (e) o2 = Reciprocal (o1) o3 = Mul (s, o2) n = Mul (o3, g)"
    else:
        norm = f"s = Add (u, k) n = RMSNormalization {epsilon} (s, g)"
    before = TORCHAIR[form]
    reduce = "a = Abs (x) m = ReduceMax (a, ax)"
    end = ROUND
    if form == "plain":
        before = ""
        reduce = reduce.replace("(x)", "(n)")
        end = ROUND.replace("(x,", "(n,")
    kind = "float16" if is_half else "float"
    outputs = "int8[i,j] y, float[l,o] w" if is_flat else "int8[i,j,q] y, float[l,o,r] w"
    outputs += f", {kind}[z1,z2,z3] s" if with_sum else ""
    text = graph(
        before=f"{norm} {before}",
        reduce=reduce,
        end=end,
        x=f"{kind}[{dims},4] u, {kind}[{dims},4] k",
        y=outputs,
    )
    return text.replace(
        "float[4] t>", "float[4] t, float16[4] h, float two = {2}, float eps = {0.00001}>"
    )


def left(form: str, ends: list[str]) -> list[str]:
    return ["Add", "RMSNormalization", *{"plain": [], "smooth": ["Mul"], "flattened": ["Constant", "Reshape"], "flattened by Flatten": ["Flatten"], "smooth, flattened": ["Constant", "Mul", "Reshape"], "cast": ["Cast"], "flattened, cast": ["Constant", "Reshape", "Cast"]}[form], *SCALES, *ends]  # fmt: skip


# A sum of float16 that is joined with its normalization is not rounded: all passes together give other integers.
WIDE = [form for form in TORCHAIR if "cast" not in form]
EPSILON = "<epsilon = 0.000002>"
FIRES = [
    Fires("plain", graph(), LEFT, opset=21),
    Fires("rank 2, as flattened", graph(x="float[M,4] x", y="int8[a,b] y, float[c,d] w"), [*SCALES, *ROWS], opset=21),
    Fires("known dimensions", graph(x="float[2,3,4] x"), [*SCALES, *BLOCKS], opset=21),
    Fires("known dimensions, rank 2", graph(x="float[3,4] x", y="int8[a,b] y, float[c,d] w"), [*SCALES, *BLOCKS], opset=22),
    Fires("one dimension is 0", graph(x="float[2,0,4] x"), LEFT, opset=21, inside_if=False),
    Fires("rank 4", graph(x="float[B,S,2,4] x", y="int8[a,b,c,d] y"), LEFT, opset=21),
    Fires("clipped", graph(end=CLIPPED), LEFT, opset=21),
    Fires("clipped evenly", graph(end=CLIPPED, low="-127"), LEFT, opset=21),
    Fires("times 1/127", graph("w = Mul (m, c)", c="0.007874015748031496"), ["Abs", "ReduceMax", "Mul", *END], opset=21),
    Fires("kept from zero", graph(KEPT), [*SCALES, "Max", *END], opset=21),
    Fires("kept from zero by Clip", graph("q = Div (m, c) w = Clip (q, least)"), ["Abs", "ReduceMax", "Div", "Clip", "Max", *END], opset=21),
    Fires("the largest kept from zero", graph("q = Clip (m, least) w = Div (q, c)"), ["Abs", "ReduceMax", "Clip", "Div", "Max", "Div", *END], opset=21),
    Fires("the largest kept from zero, times 1/127", graph("q = Clip (m, least) w = Mul (c, q)", c="0.007874015748031496"), ["Abs", "ReduceMax", "Clip", "Mul", "Max", "Mul", *END], opset=21),
    *[Fires(f"opset {opset}", graph(), LEFT, opset=opset) for opset in (22, 23, 24)],
    *[Fires(f"opset {opset}, zero points", graph(), [*SCALES, *TYPED], opset=opset) for opset in (18, 19, 20)],
    Fires("opset 14", graph(reduce="a = Abs (x) m = ReduceMax <axes = [-1]> (a)"), [*SCALES, *TYPED], opset=14),
    Fires("opset 17, known dimensions", graph(reduce="a = Abs (x) m = ReduceMax <axes = [2]> (a)", x="float[2,3,4] x"), [*SCALES, *TYPED], opset=17),
    *[Fires(f"TorchAir's, {form}", torchair(form, with_sum=False), left(form, ROWS if "flat" in form else END), opset=23) for form in WIDE],
    *[Fires(f"TorchAir's, {form}, the sum is used", torchair(form, with_sum=True, epsilon=EPSILON), left(form, ROWS if "flat" in form else END), opset=23) for form in WIDE],
    Fires("a cast", graph(before="x = Cast <to = 1> (o)", x="float16[B,S,4] o"), ["Cast", *LEFT], opset=23),
    Fires("TorchAir's, known dimensions", torchair("smooth", with_sum=True, dims="2,3"), left("smooth", BLOCKS), opset=23),
    Fires("TorchAir's, written out", torchair("plain", with_sum=True, written=True), ["Add", "Pow", "ReduceMean", "Add", "Sqrt", "Reciprocal", "Mul", "Mul", *SCALES, *TYPED]),
]  # fmt: skip

test_stays, test_fires = tables(
    "AddRmsNormDynamicQuantFusionPass", STAYS, FIRES, in_functions="never"
)
PASS = pass_of("AddRmsNormDynamicQuantFusionPass")


@pytest.mark.parametrize("with_sum", [False, True])
@pytest.mark.parametrize("epsilon", ["", EPSILON])
@pytest.mark.parametrize("form", TORCHAIR)
def test_the_integers_are_the_same_bit_by_bit(form: str, epsilon: str, with_sum: bool) -> None:
    for dims in ("B,S", "3,5"):
        model = parse(
            torchair(form, with_sum=with_sum, epsilon=epsilon, dims=dims)
            .replace("4]", "37]")
            .replace("-1, 4]", "-1, 37]"),
            23,
        )
        result, counts = optimize(model, [PASS])
        wanted = "Cast" if "cast" in form else "Flatten" if "flat" in form else ""
        assert [c.pattern for c in counts if c.effected] == [f"AddRmsNorm{wanted}DynamicQuant"]
        sessions = session(model), session(result)
        for seed in range(10):
            feeds = make_feeds(model, {"": 3, "S": 5}, seed)
            for feed in feeds.values():
                feed *= np.array(10.0 ** (seed % 8 - 4), feed.dtype)  # from small to large
                if seed % 2:
                    feed[0, 0] = 0
                if seed % 5 == 4:
                    feed[1, 1, 7] = np.nan
                    feed[2, 0, 36] = np.inf
                    feed[2, 1, 0] = -np.inf
            for expected, actual in zip(*(s.run(None, feeds) for s in sessions), strict=True):
                assert expected.dtype == actual.dtype
                np.testing.assert_array_equal(actual, expected)
