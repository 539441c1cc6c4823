from harness import Fires, Stays, tables


def graph(x: str, y: str, perm: str) -> str:
    return f"agraph (float[{x}] x) => (float[{y}] y) {{ y = Transpose <perm = {perm}> (x) }}"


STAYS = [
    Stays("two large axes", graph("N,1,3", "3,1,N", "[2, 1, 0]"), None),
    Stays("two unknown dimensions", graph("N,1,M", "1,N,M", "[1, 0, 2]"), None),
    Stays("perhaps 1", graph("2,N,3", "N,2,3", "[1, 0, 2]"), None),
    Stays("an empty dimension", graph("0,1,3", "1,0,3", "[1, 0, 2]"), None),
    Stays("identity", graph("2,1,3", "2,1,3", "[0, 1, 2]"), None),
]

FIRES = [
    Fires("one head", graph("N,1,3,4", "N,3,1,4", "[0, 2, 1, 3]"), ["Reshape"]),
    Fires("a column", graph("5,1", "1,5", "[1, 0]"), ["Reshape"]),
    Fires("two axes of one", graph("1,3,1,N", "3,1,1,N", "[1, 2, 0, 3]"), ["Reshape"]),
]

test_stays, test_fires = tables("Dim1TransposeToSqueezePass", STAYS, FIRES, in_functions="never")
