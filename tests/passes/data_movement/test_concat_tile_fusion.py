from harness import Fires, Stays, tables


def graph(
    second: str = "r",
    axis: int = 0,
    repeats: str = "{1, 3}",
    y: str = "float[A,B] y",
    x: str = "float[N,4] a, float[M,4] b",
) -> str:
    return f"agraph ({x}) => ({y}) <int64[2] r = {repeats}, int64[2] other = {{1, 2}}> {{ p = Tile (a, r) q = Tile (b, {second}) y = Concat <axis = {axis}> (p, q) }}"


STAYS = [
    Stays(
        "other repeats",
        graph("other", axis=1, x="float[2,4] a, float[2,4] b"),
        "the repeats differ",
    ),
    Stays(
        "repeats that are no vector",
        graph().replace("int64[2] r = {1, 3}", "int64[2,1] r = {1, 3}"),
        "the repeats are not a vector",
        valid=False,
    ),
    Stays(
        "no repeats at all",
        graph(repeats="{1, 0}", x="float[1,P] a, float[1,Q] b"),
        "an axis is repeated 0 times, and the values may differ along it",
    ),
    Stays(
        "the joined axis is repeated",
        graph(axis=1, x="float[2,4] a, float[2,4] b"),
        "the joined axis is repeated",
    ),
    Stays(
        "repeats that are computed",
        graph("s", x="float[N,4] a, float[M,4] b, int64[2] s"),
        "the repeats are not constant",
    ),
    Stays(
        "a tiled value is used elsewhere",
        graph(y="float[A,B] y, float[N,12] p"),
        "an interior value is a graph output",
    ),
]

FIRES = [
    Fires("rows", graph(), ["Concat", "Tile"]),
    Fires(
        "columns",
        graph(axis=-1, repeats="{3, 1}", x="float[2,4] a, float[2,3] b"),
        ["Concat", "Tile"],
    ),
    Fires(
        "equal repeats of two constants",
        graph("s").replace("int64[2] other", "int64[2] s = {1, 3}, int64[2] other"),
        ["Concat", "Tile"],
    ),
]

test_stays, test_fires = tables("ConcatTileFusionPass", STAYS, FIRES)
