from harness import Fires, Stays, tables

STAYS = [
    Stays(
        "an empty one in front that may have the sizes of the result",
        "agraph (float[N,3,S] x) => (float[A,B,C] y) <float[1,3,0] past> { y = Concat <axis = 2> (past, x) }",
        None,
    ),
    Stays(
        "constants of which onnxruntime overlooks one",
        "agraph (float[N,3] x) => (float[A,B] y) <float[0,2] c, float[1,3] d> { y = Concat <axis = 1> (x, c, d) }",
        None,
        valid=False,
    ),
    Stays(
        "large constants that are used elsewhere",
        "agraph (float[N,600] x) => (float[M,600] y, float[K,600] z) <float[2,600] c, float[2,600] d> "
        "{ y = Concat <axis = 0> (x, c, d) z = Concat <axis = 0> (d, x, c) }",
        None,
    ),
    Stays(
        "a large constant twice",
        "agraph (float[N,600] x) => (float[M,600] y) <float[2,600] c> { y = Concat <axis = 0> (x, c, c) }",
        None,
    ),
    Stays(
        "constants apart",
        "agraph (float[N,4] x) => (float[M,4] y) <float[1,4] c, float[1,4] d> { y = Concat <axis = 0> (c, x, d) }",
        None,
    ),
    Stays(
        "a gap",
        "agraph (float[6,4] x) => (float[4,4] y) <int64[1] z = {0}, int64[1] a = {2}, int64[1] b = {4}, int64[1] e = {6}> { p = Slice (x, z, a, z) q = Slice (x, b, e, z) y = Concat <axis = 0> (p, q) }",
        None,
    ),
    Stays(
        "the other order",
        "agraph (float[6,4] x) => (float[6,4] y) <int64[1] z = {0}, int64[1] b = {4}, int64[1] e = {6}> { p = Slice (x, z, b, z) q = Slice (x, b, e, z) y = Concat <axis = 0> (q, p) }",
        None,
    ),
    Stays(
        "another axis",
        "agraph (float[4,4] x) => (float[2,8] y) <int64[1] z = {0}, int64[1] b = {2}, int64[1] e = {4}> { p = Slice (x, z, b, z) q = Slice (x, b, e, z) y = Concat <axis = 1> (p, q) }",
        None,
    ),
    Stays(
        "of two values",
        "agraph (float[4,4] x, float[4,4] w) => (float[4,4] y) <int64[1] z = {0}, int64[1] b = {2}, int64[1] e = {4}> { p = Slice (x, z, b, z) q = Slice (w, b, e, z) y = Concat <axis = 0> (p, q) }",
        None,
    ),
    Stays(
        "perhaps empty",
        "agraph (float[N,4] x, float[M,4] w) => (float[K,4] y) { y = Concat <axis = 0> (x, w) }",
        None,
    ),
    Stays(
        "an axis that there is not",
        "agraph (float[2,6] x) => (float[2,12] y) { y = Concat <axis = -9223372036854775808> (x, x) }",
        None,
        valid=False,
    ),
    Stays(
        "constants, and an axis that there is not",
        "agraph (float[N,4] x) => (float[M,4] y) <float[1,4] c, float[2,4] d> { y = Concat <axis = -9223372036854775808> (x, c, d) }",
        None,
        valid=False,
    ),
    Stays(
        "all empty",
        "agraph (float[0,4] x, float[0,4] w) => (float[0,4] y) { y = Concat <axis = 0> (x, w) }",
        None,
    ),
]

SLICES = "agraph (float[6,4] x) => (float[{n},4] y) <int64[1] z = {{0}}, int64[1] a = {{2}}, int64[1] b = {{-2}}, int64[1] e = {{9223372036854775807}}> {{ {body} }}"
FIRES = [
    Fires(
        "constants side by side",
        "agraph (float[N,4] x) => (float[M,4] y) <float[1,4] c, float[2,4] d> { y = Concat <axis = 0> (x, c, d) }",
        ["Concat"],
    ),
    Fires(
        "from the end",
        "agraph (float[N,4] x) => (float[N,7] y) <float[2,1] c, float[2,2] d> { y = Concat <axis = -1> (c, d, x) }",
        ["Concat"],
        sizes={"N": 2},
        zero_sizes=False,
    ),
    Fires(
        "an empty one",
        "agraph (float[N,4] x, float[0,4] w) => (float[N,4] y) { a = Neg (x) b = Concat <axis = 0> (a, w) y = Abs (b) }",
        ["Neg", "Abs"],
    ),
    Fires(
        "an empty one of three",
        "agraph (float[N,4] x, float[0,4] w) => (float[M,4] y) { a = Neg (x) y = Concat <axis = 0> (x, w, a) }",
        ["Neg", "Concat"],
    ),
    Fires(
        "all slices",
        SLICES.format(
            n=6,
            body="p = Slice (x, z, a, z) q = Slice (x, a, b, z) r = Slice (x, b, e, z) c = Concat <axis = 0> (p, q, r) y = Neg (c)",
        ),
        ["Neg"],
    ),
    Fires(
        "some slices",
        SLICES.format(
            n=4, body="p = Slice (x, z, a, z) q = Slice (x, a, b, z) y = Concat <axis = -2> (p, q)"
        ),
        ["Slice"],
    ),
    Fires(
        "slices as attributes",
        "agraph (float[6,4] x) => (float[6,4] y) { p = Slice <axes = [0], starts = [0], ends = [2]> (x) q = Slice <axes = [0], starts = [2], ends = [6]> (x) c = Concat <axis = 0> (p, q) y = Neg (c) }",
        ["Neg"],
        opset=9,
    ),
    Fires(
        "some slices as attributes",
        "agraph (float[6,4] x) => (float[5,4] y) { p = Slice <axes = [0], starts = [0], ends = [2]> (x) q = Slice <axes = [0], starts = [2], ends = [5]> (x) y = Concat <axis = 0> (p, q) }",
        ["Slice"],
        opset=9,
    ),
]

test_stays, test_fires = tables("ZConcatExt2FusionPass", STAYS, FIRES, in_functions="less often")
