from harness import Fires, Stays, tables


def casts(start: str, *to: int, end: str) -> str:
    names = ["a", *(f"c{i}" for i in range(len(to) - 1)), "last"]
    chain = " ".join(
        f"{out} = Cast <to = {t}> ({before})"
        for before, out, t in zip(names, names[1:], to, strict=False)
    )
    return (
        f"agraph ({start}[N] x) => ({end}[N] y) {{ a = Add (x, x) {chain} y = Sub (last, last) }}"
    )


LOSES = "the inner Cast may change a number"


def fill(
    value: str, to: int, end: str, source: str = "float", more: str = "", rest: str = ""
) -> str:
    """A constant tensor of the shape of x, in another type."""
    written = f"<value = {source}[1] {{{value}}}>" if value else ""
    return (
        f"agraph (float[N,3] x) => ({end}[a,b] y{more}) "
        f"{{ s = Shape (x) c = ConstantOfShape {written} (s) y = Cast <to = {to}> (c) {rest} }}"
    )


NOT_HELD = "the other type cannot hold the value"
STAYS = [
    *[
        Stays(f"a constant of {value} to type {to}", fill(value, to, end, source), NOT_HELD)
        for value, to, end, source in (
            ("nan", 6, "int32", "float"),
            ("inf", 7, "int64", "float"),
            ("2147483648", 6, "int32", "int64"),
            ("-1", 2, "uint8", "int64"),
            ("1.0e30", 7, "int64", "float"),
            ("9223372036854775808.0", 7, "int64", "double"),
            ("1.0004883", 10, "float16", "double"),
        )
    ],
    Stays(
        "a constant to text", fill("1", 8, "string"), "the value is not a number of a common type"
    ),
    Stays(
        "a constant to bfloat16",
        fill("1", 16, "bfloat16"),
        "the value is not a number of a common type",
    ),
    Stays(
        "a constant that others use",
        fill("1", 7, "int64", more=", float[a,b] z", rest="z = Neg (c)"),
        "an interior value is used elsewhere",
    ),
    Stays("to another type", casts("float", 11, end="double"), None),
    Stays("through float16", casts("float", 10, 1, end="float"), LOSES),
    Stays("through integers", casts("float", 7, 1, end="float"), LOSES),
    Stays("int64 through float", casts("int64", 1, 7, end="int64"), LOSES),
    Stays("int32 through float", casts("int32", 1, 6, end="int32"), LOSES),
    Stays("signed through unsigned", casts("int32", 13, 7, end="int64"), LOSES),
    Stays("float through bool", casts("float", 9, 1, end="float"), LOSES),
    Stays(
        "to text, which has more digits of a wider type",
        "agraph (float[N] x) => (string[N] y) { b = Cast <to = 11> (x) y = Cast <to = 8> (b) }",
        "the number may be spelled differently in the other type",
    ),
    Stays(
        "the inner one is used elsewhere",
        "agraph (float[N] x) => (float[N] y, double[N] z) { b = Cast <to = 11> (x) y = Cast <to = 1> (b) z = Neg (b) }",
        "an interior value is used elsewhere",
    ),
    Stays(
        "an unknown type",
        "agraph (float[N] x) => (float[N] y) "
        "{ f = own.F (x) b = Cast <to = 11> (f) c = Cast <to = 1> (b) y = Neg (c) }",
        "the element type is unknown",
    ),
]

FIRES = [
    *[
        Fires(
            f"a constant of {value or 'nothing'} to type {to}",
            fill(value, to, end, source),
            ["Shape", "ConstantOfShape"],
        )
        for value, to, end, source in (
            ("", 7, "int64", "float"),
            ("1", 1, "float", "int64"),
            ("16777217", 1, "float", "int64"),
            ("-2.75", 3, "int8", "float"),
            ("-0.5", 2, "uint8", "float"),
            ("255.9", 2, "uint8", "float"),
            ("1.0e30", 10, "float16", "float"),
            ("nan", 9, "bool", "float"),
            ("nan", 11, "double", "float"),
            ("1", 6, "int32", "bool"),
            ("9223372036854775807", 13, "uint64", "int64"),
        )
    ],
    Fires("to its own type", casts("float", 1, end="float"), ["Add", "Sub"]),
    Fires("float through double", casts("float", 11, 1, end="float"), ["Add", "Sub"]),
    Fires(
        "float through double to integers",
        casts("float", 11, 6, end="int32"),
        ["Add", "Cast", "Sub"],
        edge_values=False,
    ),
    Fires(
        "from input to output",
        "agraph (float[N] x) => (float[N] y) { a = Cast <to = 11> (x) y = Cast <to = 1> (a) }",
        ["Identity"],
    ),
    Fires("int32 through double", casts("int32", 11, 6, end="int32"), ["Add", "Sub"]),
    Fires("int32 through int64", casts("int32", 7, 6, end="int32"), ["Add", "Sub"]),
    Fires("three", casts("float", 11, 11, 1, end="float"), ["Add", "Sub"], 2),
    Fires(
        "bool through float",
        "agraph (bool[N] x) => (bool[N] y) { a = Not (x) b = Cast <to = 1> (a) c = Cast <to = 9> (b) y = Not (c) }",
        ["Not", "Not"],
    ),
]

test_stays, test_fires = tables("CastRemovePass", STAYS, FIRES, in_functions="less often")
