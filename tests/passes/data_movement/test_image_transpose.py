from harness import Fires, Stays, tables

TO_PIXELS = "i = Conv (x, w) r = Reshape (i, shape) y = Transpose <perm = [0, 2, 1]> (r)"
TO_IMAGE = "t = Transpose <perm = [0, 2, 1]> (x) r = Reshape (t, shape) y = Conv (r, w)"
UNKNOWN_BATCH = "the Reshape is not known to keep batch and channels"
NO_SIZES = "rows and columns are computed when the model runs, or are 0"


def pixels(
    body: str = TO_PIXELS,
    x: str = "float[N,3,7,9] x",
    shape: str = "{0, 4, 35}",
    y: str = "float[N,35,4] y",
    weights: str = "float[4,3,3,3] w",
) -> str:
    constant = f", int64[{shape.count(',') + 1}] shape = {shape}" if shape else ""
    return f"agraph ({x}) => ({y}) <{weights}{constant}> {{ {body} }}"


def image(
    body: str = TO_IMAGE,
    x: str = "float[N,30,4] x",
    shape: str = "{0, 4, 5, 6}",
    y: str = "float[N,3,3,4] y",
    weights: str = "float[3,4,3,3] w",
) -> str:
    return pixels(body, x, shape, y, weights)


STAYS = [
    Stays("pixels, target onnx", pixels(), "for target onnx no gain is known", target="onnx"),
    Stays("image, target onnx", image(), "for target onnx no gain is known", target="onnx"),
    Stays("pixels in another order", pixels(TO_PIXELS.replace("0, 2, 1", "1, 0, 2"), y="float[4,N,35] y"), None),
    Stays("an image of pixels in another order", image(TO_IMAGE.replace("0, 2, 1", "1, 0, 2"), "float[4,N,30] x"), None),
    Stays("no convolution in front", pixels(TO_PIXELS.replace("Conv (x, w)", "Relu (x)"), "float[N,4,5,7] x"), None),
    Stays("no convolution behind", image(TO_IMAGE.replace("Conv (r, w)", "Relu (r)"), y="float[N,4,5,6] y"), None),
    Stays(
        "weights of a convolution",
        image(
            "t = Transpose <perm = [0, 2, 1]> (x) r = Reshape (t, shape) y = Conv (w, r)",
            "float[2,9,3] x",
            "{2, 3, 3, 3}",
            "float[1,2,5,6] y",
            "float[1,3,7,8] w",
        ),
        None,
    ),
    Stays("rows alone are flattened", pixels(shape="{0, 20, 7}", y="float[N,7,20] y"), UNKNOWN_BATCH),
    Stays("the batch, too", pixels(shape="{1, -1, 35}", y="float[1,35,M] y"), UNKNOWN_BATCH),
    Stays("pixels of other channels", image(shape="{0, 2, 10, 6}", weights="float[3,2,3,3] w", y="float[N,3,8,4] y"), UNKNOWN_BATCH),
    Stays(
        "one axis of an image",
        pixels(x="float[N,3,7] x", shape="{0, 4, 5}", weights="float[4,3,3] w", y="float[N,5,4] y"),
        "the rank of the image is not 4",
    ),
    Stays(
        "an unknown rank",
        pixels("q = Reshape (x, k) " + TO_PIXELS.replace("(x, w)", "(q, w)"), "float[N,3,7,9] x, int64[K] k"),
        "the shape is unknown",
    ),
    Stays(
        "unknown channels",
        pixels(x="float[N,3,7,9] x, float[C,3,3,3] w", weights="float[1] o", shape="{0, 0, 35}", y="float[N,35,C] y"),
        "the number of channels is unknown",
    ),
    Stays(
        "a shape of pixels from outside",
        pixels(x="float[N,3,H,W] x, int64[3] shape", shape="", y="float[N,P,4] y"),
        UNKNOWN_BATCH,
    ),
    Stays("rows that are known, of an unknown image", pixels(x="float[N,3,H,W] x", shape="{-1, 4, 35}", y="float[N,35,4] y"), UNKNOWN_BATCH),
    Stays("no pixels", pixels(x="float[N,3,2,9] x", shape="{0, 4, 0}", y="float[N,0,4] y"), NO_SIZES),
    Stays("a shape of an image from outside", image(x="float[N,P,4] x, int64[4] shape", shape="", y="float[N,3,H,W] y"), UNKNOWN_BATCH),
    Stays(
        "pixels that a product reads",
        pixels(TO_PIXELS.replace("y =", "p =") + " y = MatMul (p, v)", y="float[N,35,2] y", weights="float[4,3,3,3] w, float[4,2] v"),
        "only matrix products read the result, and they exchange axes themselves",
    ),
    Stays("rows that are copied", image(x="float[N,P,4] x", shape="{0, 4, 0, -1}", y="float[N,3,P,1] y", weights="float[3,4,1,1] w"), NO_SIZES),
    Stays(
        "the pixels are used otherwise",
        pixels(f"{TO_PIXELS} z = Neg (r)", y="float[N,35,4] y, float[N,4,35] z"),
        "an interior value is used elsewhere",
    ),
    Stays(
        "what is turned is used otherwise",
        image(f"{TO_IMAGE} z = Neg (t)", y="float[N,3,3,4] y, float[N,4,30] z"),
        "an interior value is used elsewhere",
    ),
]  # fmt: skip

LAST = ["Conv", "Transpose", "Reshape"]
SECOND = ["Reshape", "Transpose", "Conv"]
FIRES = [
    Fires("pixels of an image", pixels(), LAST),
    Fires("pixels of an image, all numbers", pixels(x="float[2,3,7,9] x", shape="{2, 4, -1}", y="float[2,35,4] y"), LAST),
    Fires("an unknown batch in its place", pixels(shape="{-1, 4, 35}"), LAST),
    Fires("unknown rows and columns", pixels(x="float[N,3,H,W] x", shape="{0, 0, -1}", y="float[N,P,4] y", weights="float[4,3,1,1] w"), LAST),
    Fires(
        "pixels that are not only read by a product",
        pixels(TO_PIXELS.replace("y =", "p =") + " y = MatMul (p, v) z = Neg (p)", y="float[N,35,2] y, float[N,35,4] z", weights="float[4,3,3,3] w, float[4,2] v"),
        [*LAST, "MatMul", "Neg"],
    ),
    Fires("an image that others use, too", pixels(f"{TO_PIXELS} z = Neg (i)", y="float[N,35,4] y, float[N,4,5,7] z"), [*LAST, "Neg"]),
    Fires("an image of pixels", image(), SECOND),
    Fires("an unknown batch of pixels in its place", image(shape="{-1, 4, 5, 6}"), SECOND),
    Fires("unknown rows", image(x="float[N,P,4] x", shape="{0, 4, -1, 1}", y="float[N,3,P,1] y", weights="float[3,4,1,1] w"), SECOND),
    Fires("an image that others take, too", image(f"{TO_IMAGE} z = Neg (r)", y="float[N,3,3,4] y, float[N,4,5,6] z"), [*SECOND, "Neg"]),
    Fires(
        "from an image to another one",
        pixels(
            TO_PIXELS.replace("y =", "p =") + " q = Relu (p) t = Transpose <perm = [0, 2, 1]> (q) s = Reshape (t, back) y = Conv (s, v)",
            y="float[N,2,3,5] y",
            weights="float[4,3,3,3] w, float[2,4,3,3] v, int64[4] back = {0, 4, 5, 7}",
        ),
        [*LAST, "Relu", *SECOND],
        effected=2,
    ),
    *[Fires(f"opset {opset}", pixels(), LAST, opset=opset) for opset in (9, 21)],
]  # fmt: skip

test_stays, test_fires = tables("ImageTransposePass", STAYS, FIRES, in_functions="never")
