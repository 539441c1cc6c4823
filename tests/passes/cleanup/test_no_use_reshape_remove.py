from harness import Fires, Stays, tables


def graph(node: str, x: str = "float[N,4,6] x", constants: str = "", more: str = "") -> str:
    out = ",".join("abcd"[: x.count(",") + 1])
    return f"agraph ({x}{more}) => (float[{out}] y) <{constants}> {{ a = Relu (x) b = {node} y = Neg (b) }}".replace(
        "<> ", ""
    )


RESIZE = 'Resize <mode = "nearest"> (a, , scales)'
CROP = 'Resize <mode = "nearest", coordinate_transformation_mode = "tf_crop_and_resize"> (a, roi, scales)'
SCALES = "float[4] scales = {{1, 1, {0}, {0}}}"
STAYS = [
    Stays(
        "Resize of one pixel by another factor",
        graph(RESIZE, "float[1,1,1,1] x", SCALES.format("1.5")),
        None,
    ),
    Stays(
        "Resize to the size that there is, of a part",
        graph(
            CROP,
            "float[1,1,4,4] x",
            SCALES.format("1") + ", float[8] roi = {0, 0, 0, 0, 1, 1, 0.5, 0.5}",
        ),
        None,
    ),
    Stays(
        "Resize that moves by half a pixel",
        graph(
            CROP.replace("tf_crop_and_resize", "tf_half_pixel_for_nn"),
            "float[1,1,4,4] x",
            SCALES.format("1") + ", float[0] roi = {}",
        ),
        None,
        opset=11,
    ),
    Stays(
        "Resize that interpolates",
        graph(RESIZE.replace("nearest", "linear"), "float[1,1,4,4] x", SCALES.format("1")),
        None,
    ),
    Stays(
        "Squeeze of an empty list, which some read as all",
        graph("Squeeze (a, ax)", "float[2,4] x", "int64[0] ax = {}"),
        None,
    ),
    Stays(
        "the model says that the shape stays, but the caller decides",
        "agraph (float[2,4] x, int64[2] s) => (float[2,4] y) { a = Relu (x) y = Reshape (a, s) }",
        None,
    ),
    Stays("another shape", graph("Reshape (a, s)", constants="int64[3] s = {0, 6, 4}"), None),
    Stays("a shape that is not known", graph("Reshape (a, s)", more=", int64[3] s"), None),
    Stays(
        "Flatten of rank 3",
        graph("Flatten (a)").replace("(float[a,b,c] y)", "(float[a,b] y)"),
        None,
    ),
    Stays(
        "Expand of the batch", graph("Expand (a, s)", "float[1,4] x", "int64[2] s = {3, 1}"), None
    ),
    Stays("Expand to a size from outside", graph("Expand (a, s)", more=", int64[3] s"), None),
    Stays("Tile twice", graph("Tile (a, r)", constants="int64[3] r = {1, 2, 1}"), None),
    Stays(
        "Slice that turns round",
        graph(
            "Slice (a, b0, e, ax, st)",
            "float[2,4] x",
            "int64[1] b0 = {-1}, int64[1] e = {-100}, int64[1] ax = {1}, int64[1] st = {-1}",
        ),
        None,
    ),
    Stays(
        "Slice of opset 10, of a dimension that is not known",
        graph(
            "Slice (a, b0, e, ax)",
            constants="int64[1] b0 = {0}, int64[1] e = {9}, int64[1] ax = {0}",
        ),
        None,
        opset=10,
    ),
    Stays(
        "Slice that takes a part",
        graph(
            "Slice (a, b0, e, ax)",
            constants="int64[1] b0 = {1}, int64[1] e = {9}, int64[1] ax = {1}",
        ),
        None,
    ),
    Stays("Pad and crop", graph("Pad (a, p)", constants="int64[6] p = {0,1,0,0,-1,0}"), None),
    Stays(
        "Resize by 2", graph("Resize (a, , s)", "float[1,1,4] x", "float[3] s = {1, 1, 2}"), None
    ),
]

LEFT = ["Relu", "Neg"]
FIRES = [
    Fires(
        "Reshape to its own numbers",
        graph("Reshape (a, s)", "float[2,4,6] x", "int64[3] s = {2, 4, 6}"),
        LEFT,
    ),
    Fires("Reshape with zeros", graph("Reshape (a, s)", constants="int64[3] s = {0, 0, 6}"), LEFT),
    Fires(
        "Reshape with one open dimension",
        graph("Reshape (a, s)", constants="int64[3] s = {-1, 4, 6}").replace("N,", "3,"),
        LEFT,
    ),
    Fires(
        "Reshape to the shape of itself",
        "agraph (float[N,M] x) => (float[a,b] y) { a = Relu (x) s = Shape (a) b = Reshape (a, s) y = Neg (b) }",
        LEFT,
    ),
    Fires("Flatten of rank 2", graph("Flatten (a)", "float[N,4] x"), LEFT),
    Fires("Expand to ones", graph("Expand (a, s)", constants="int64[1] s = {1}"), LEFT),
    Fires("Tile once", graph("Tile (a, r)", constants="int64[3] r = {1, 1, 1}"), LEFT),
    Fires(
        "Slice of everything",
        graph(
            "Slice (a, b0, e, ax)",
            constants="int64[1] b0 = {0}, int64[1] e = {9}, int64[1] ax = {1}",
        ),
        LEFT,
    ),
    Fires(
        "Slice of opset 9", graph("Slice <starts = [0], ends = [4], axes = [1]> (a)"), LEFT, opset=9
    ),
    Fires("Pad by nothing", graph("Pad (a, p)", constants="int64[6] p = {0,0,0,0,0,0}"), LEFT),
    Fires("Pad of opset 9", graph("Pad <pads = [0, 0, 0, 0, 0, 0]> (a)"), LEFT, opset=9),
    Fires(
        "Resize by 1 of an open batch",
        graph("Resize (a, , s)", "float[N,1,4] x", "float[3] s = {1, 1, 1}"),
        LEFT,
    ),
    Fires(
        "Resize to the same size",
        graph("Resize (a, , , s)", "float[2,1,4] x", "int64[3] s = {2, 1, 4}"),
        LEFT,
    ),
    Fires(
        "Resize by 1", graph("Resize (a, , s)", "float[2,1,4] x", "float[3] s = {1, 1, 1}"), LEFT
    ),
]

test_stays, test_fires = tables("NoUseReshapeRemovePass", STAYS, FIRES, in_functions="less often")
