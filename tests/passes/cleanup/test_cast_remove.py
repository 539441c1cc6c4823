from harness import Fires, Stays, tables


def casts(start: str, *to: int, end: str) -> str:
    names = ["a", *(f"c{i}" for i in range(len(to) - 1)), "last"]
    chain = " ".join(
        f"{out} = Cast <to = {t}> ({before})" for before, out, t in zip(names, names[1:], to, strict=False)
    )
    return f"agraph ({start}[N] x) => ({end}[N] y) {{ a = Add (x, x) {chain} y = Sub (last, last) }}"


LOSES = "the inner Cast loses something"
STAYS = [
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
        "a number may be written in another way in the other type",
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

test_stays, test_fires = tables("CastRemovePass", STAYS, FIRES)
