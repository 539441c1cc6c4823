from harness import Fires, Stays, tables


def graph(
    first: str = "Conv (p, W1, B1)",
    second: str = "Conv (q, W2, B2)",
    concat: str = "Concat <axis = 1> (s, t)",
    split: str = "p, q = Split <axis = 1, num_outputs = 2> (x)",
    W2: str = "float[4,3,3,3] W2",
    x: str = "float[N,6,5,5] x",
) -> str:
    return f"""agraph ({x}) => (float[N,a,b,c] y) <float[4,3,3,3] W1, float[4] B1, {W2}, float[4] B2> {{
        {split} s = {first} t = {second} y = {concat} }}"""


STAYS = [
    Stays("pieces in another order", graph("Conv (q, W1, B1)", "Conv (p, W2, B2)"), None),
    Stays("one piece twice", graph(second="Conv (p, W2, B2)"), None),
    Stays("concatenated along the height", graph(concat="Concat <axis = 2> (s, t)"), "the axis is not the channels"),
    Stays(
        "other strides",
        graph(second="Conv <strides = [2, 2], pads = [2, 2, 2, 2]> (q, W2, B2)", x="float[N,6,6,6] x"),
        "the convolutions have different attributes",
    ),
    Stays(
        "other weights",
        graph(second="Conv <pads = [0, 0, 0, 0]> (q, W2, B2)", W2="float[4,3,3,3] W2")
        .replace("float[4,3,3,3] W2", "float[5,3,3,3] W2")
        .replace("float[4] B2", "float[5] B2"),
        "the weights have different shapes",
    ),
    Stays("an activation on one of them", graph(second="Relu (q)", concat="Concat <axis = 1> (s, s)"), None),
    Stays(
        "one convolution is used elsewhere",
        graph()
        .replace("y = ", "z = Relu (s) y = ")
        .replace("(float[N,a,b,c] y)", "(float[N,a,b,c] y, float[N,d,e,f] z)"),
        "an interior value is used elsewhere",
    ),
]

FIRES = [
    Fires("with biases", graph(), ["Conv"]),
    Fires("without biases", graph("Conv (p, W1)", "Conv (q, W2)"), ["Conv"]),
    Fires("one bias", graph("Conv (p, W1)"), ["Conv"]),
    Fires(
        "negative axes",
        graph(concat="Concat <axis = -3> (s, t)", split="p, q = Split <axis = -3, num_outputs = 2> (x)"),
        ["Conv"],
    ),
    Fires(
        "attributes",
        graph(
            "Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (p, W1, B1)",
            "Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (q, W2, B2)",
        ),
        ["Conv"],
    ),
    Fires("attributes written out and left at their defaults", graph("Conv <group = 1> (p, W1, B1)"), ["Conv"]),
    Fires(
        "grouped already",
        graph("Conv <group = 2> (p, W1, B1)", "Conv <group = 2> (q, W2, B2)", x="float[N,12,5,5] x"),
        ["Conv"],
    ),
    Fires("the same weights twice", graph(second="Conv (q, W1, B1)"), ["Conv"]),
]

test_stays, test_fires = tables("ASplitConv2dConcatPass", STAYS, FIRES)
