from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from harness import Fires, Stays, effected, optimize, parse, pass_of, tables
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import fusionc
from fusionc.passes.cleanup.subnormal_to_zero import count_subnormal

CONV = "agraph (float[N,1,4,4] x) => (float[N,M,4,4] y{}) <float[2,1,1,1] W = {}, float[2] B = {}> {{ {} }}"
LIVE = "{0.5, 1e-40}"
DEAD = "{1e-39, 1e-40}"
ADD = "agraph (float[N,2] x) => (float[N,2] y) <float[2] c = {0.5, 1e-40}, float[2] d = {2,3}> { a = Add (x, c) %s }"

IN_ALL = "the difference may be in all elements of an output"
ALONE = (
    "agraph (float[N,2] x) => (float[N,M] y) <float[2] c = {0.5, 1e-40}, int64[1] b = {1}, "
    "int64[1] e = {2}, float[1,1] W = {3}, float[1] B = {4}> { a = Mul (x, c) %s }"
)
LOOKED_UP = (
    "agraph (int64[N] i) => (float[N,2] y) <float[4,2] E = {1,2,1e-40,1e-41,5,6,7,8}, "
    "float[2,2] W = {1,2,3,4}, float[2] B = {0, 1}, float[2] Z = {0, 1e-37}> { %s }"
)


def conv(then: str, weights: str = LIVE, bias: str = "{1, 2}", outputs: str = "") -> str:
    return CONV.format(outputs, weights, bias, then)


def grows(operator: str) -> str:
    return f"{operator} may enlarge the difference"


def in_float16() -> onnx.ModelProto:
    model = parse("agraph (float16[N,2] x) => (float16[N,2] y) { y = Mul (x, c) }")
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 1e-6], np.float16), "c"))
    return model


STAYS = [
    Stays("nothing subnormal", conv("y = Conv (x, W, B)", "{0.5, 1e-37}"), None),
    Stays("float16", in_float16, None),
    Stays(
        "a default that the caller may override",
        "agraph (float[N,2] x, float[2] c = {0.5, 1e-40}) => (float[N,2] y) { y = Mul (x, c) }",
        None,
    ),
    Stays(
        "read as it is",
        "agraph (float[N,2] x) => (float[2] y) <float[2] c = {0.5, 1e-40}> { y = Abs (c) }",
        None,
    ),
    Stays(
        "nothing larger",
        conv("y = Conv (x, W, B)", DEAD),
        "all elements of the constant are small",
    ),
    Stays(
        "hardly larger",
        conv("y = Conv (x, W, B)", "{1e-31, 1e-40}"),
        "all elements of the constant are small",
    ),
    Stays("a quotient", conv("a = Conv (x, W) b = Conv (x, W, B) y = Div (b, a)"), grows("Div")),
    Stays("a large factor", ADD.replace("{2,3}", "{2,1e30}") % "y = Mul (a, d)", grows("Mul")),
    Stays(
        "large factors together",
        ADD.replace("{2,3}", "{2,1e9}") % "b = Mul (a, d) y = Mul (b, d)",
        grows("Mul"),
    ),
    Stays(
        "large factors together, on the longer of two ways",
        ADD.replace("{2,3}", "{2,1e9}")
        % "b = Mul (a, d) c1 = Relu (b) e = Add (c1, a) y = Mul (e, d)",
        grows("Mul"),
    ),
    Stays(
        "behind a Tanh, which leaves what is small", ADD % "b = Tanh (a) y = Log (b)", grows("Log")
    ),
    Stays("a tiny divisor", ADD.replace("{2,3}", "{2,1e-30}") % "y = Div (a, d)", grows("Div")),
    Stays("a root", ADD % "y = Sqrt (a)", grows("Sqrt")),
    Stays(
        "far behind",
        conv("a = Conv (x, W, B) b = Relu (a) c = Add (b, x) y = Log (c)"),
        grows("Log"),
    ),
    *[
        Stays(
            f"a sum after {cut}, which may leave only what is small",
            conv(f"a = Conv (x, W) b = {cut} z = Conv (b, V) y = Log (z)").replace(
                "float[2] B = {1, 2}", "float[2,2,1,1] V = {1,2,3,4}, float c = {0}"
            ),
            grows("Log"),
        )
        for cut in ("Relu (a)", "Clip (a, c)", "Max (a, c)")
    ],
    *[
        Stays(f"steep: {body}", (ADD % body).replace("{2,3}", "{2,1e30}"), grows(body.split()[2]))
        for body in (
            "y = LeakyRelu <alpha = 1e30> (a)",
            "y = HardSigmoid <alpha = 1e30> (a)",
            "y = PRelu (a, d)",
        )
    ],
    Stays("a comparison", ADD % "b = Greater (a, d) y = Cast <to = 1> (b)", grows("Greater")),
    Stays("whether it is zero", ADD % "b = Cast <to = 9> (a) y = Cast <to = 1> (b)", grows("Cast")),
    Stays(
        "as a slope that is a result",
        conv("a = Conv (x, W, B) y = PRelu (x, a)"),
        grows("PRelu"),
    ),
    Stays(
        "a normalization that divides by nothing more",
        "agraph (float[N,2,4] x) => (float[N,2,4] y) <float[2,1] c = {0.5, 1e-40}, float[2] s = {1,1}, "
        "float[2] b = {0,0}> { a = Mul (x, c) y = InstanceNormalization <epsilon = 0.0> (a, s, b) }",
        grows("InstanceNormalization"),
    ),
    Stays(
        "compared itself",
        ADD % "b = Equal (d, c) e = Where (b, a, x) y = Identity (e)",
        "the constant has other uses, too",
    ),
    Stays(
        "weights that are an output",
        "agraph (float[N,2] x) => (float[N,2] y, float[2] c) <float[2] c = {0.5, 1e-40}> { y = Mul (x, c) }",
        "the constant is an output",
    ),
    Stays(
        "where the largest is",
        conv(
            "a = Conv (x, W, B) y, i = MaxPool <kernel_shape = [1, 1]> (a)",
            outputs=", int64[N,M,4,4] i",
        ),
        grows("MaxPool"),
    ),
    Stays("a part of the result", ALONE % "y = Slice (a, b, e, b)", IN_ALL),
    Stays("the smallest of each row", ALONE % "y = ReduceMin (a, b)", IN_ALL),
    Stays(
        "one of two channels, and a product with it",
        ALONE
        % "p, q = Split <axis = 1, num_outputs = 2> (a) s = Sigmoid (p) r = Mul (q, s) y = MatMul (r, W)",
        IN_ALL,
    ),
    Stays(
        "one of two channels, normalized",
        "agraph (float[N,2,4] x) => (float[N,1,4] y) <float[2,1] c = {0.5, 1e-40}, float[2] s = {1,1}, "
        "float[2] o = {0,0}, int64[1] b = {1}, int64[1] e = {2}> "
        "{ a = Mul (x, c) n = InstanceNormalization (a, s, o) y = Slice (n, b, e, b) }",
        IN_ALL,
    ),
    Stays("a dead row", LOOKED_UP % "y = Gather (E, i)", IN_ALL),
    Stays(
        "a dead row before a product without a bias",
        LOOKED_UP % "a = Gather (E, i) y = MatMul (a, W)",
        IN_ALL,
    ),
    Stays(
        "an operator of somebody else",
        "agraph (float[2,2] x) => (float[2,2] y) <float[2] c = {0.5, 1e-40}> "
        "{ a = Mul (x, c) y = com.microsoft.Inverse (a) }",
        grows("Inverse"),
    ),
]


def fires(name: str, graph: str, operators: list[str], times: int = 1) -> Fires:
    # Infinity times a subnormal number is infinite, times 0 it is NaN; the constants are outside of the If.
    return Fires(name, graph, operators, times, edge_values=False, inside_if=False)


FIRES = [
    fires("a dead filter", conv("y = Conv (x, W, B)"), ["Conv"]),
    fires("its bias", conv("y = Conv (x, W, B)", "{0.5, 0.25}", "{1, 1e-45}"), ["Conv"]),
    fires("both", conv("y = Conv (x, W, B)", LIVE, "{1, 1e-45}"), ["Conv"], 2),
    fires(
        "behind it another Conv",
        conv("a = Conv (x, W) b = Tanh (a) z = Conv (b, V) y = Sqrt (z)").replace(
            "float[2] B = {1, 2}", "float[2,2,1,1] V = {1,2,3,4}"
        ),
        ["Conv", "Tanh", "Conv", "Sqrt"],
    ),
    fires(
        "a sum with a bias after a Relu",
        conv("a = Conv (x, W) b = Relu (a) z = Conv (b, V, B) c = Clip (z) y = Sqrt (c)").replace(
            "float[2] B", "float[2,2,1,1] V = {1,2,3,4}, float[2] B"
        ),
        ["Conv", "Relu", "Conv", "Clip", "Sqrt"],
    ),
    fires(
        "two sums after a Relu",
        conv("a = Conv (x, W) b = Relu (a) z = Conv (b, V) c = Conv (z, V) y = Sqrt (c)").replace(
            "float[2] B = {1, 2}", "float[2,2,1,1] V = {1,2,3,4}"
        ),
        ["Conv", "Relu", "Conv", "Conv", "Sqrt"],
    ),
    fires(
        "a product",
        "agraph (float[N,2] x) => (float[N,2] y) <float[2,2] W = {1,1e-40,-1e-44,2}> "
        "{ a = MatMul (x, W) y = Tanh (a) }",
        ["MatMul", "Tanh"],
    ),
    fires("used twice", ADD % "b = Mul (x, c) y = Sub (a, b)", ["Add", "Mul", "Sub"]),
    fires(
        "in float64",
        "agraph (double[N,2] x) => (double[N,2] y) <double[2] c = {0.5, 1e-310}> { y = Mul (x, c) }",
        ["Mul"],
    ),
    fires(
        "looked up",
        "agraph (int64[N] i) => (float[N,2] y) <float[4,2] E = {1,1e-40,3,4,5,6,7,8}> { y = Gather (E, i) }",
        ["Gather"],
    ),
    fires(
        "a dead row before a bias",
        LOOKED_UP % "a = Gather (E, i) b = Add (a, Z) y = Gemm (b, W, B)",
        ["Gather", "Add", "Gemm"],
    ),
    fires(
        "a part of the result before a bias",
        ALONE % "p = Slice (a, b, e, b) q = Neg (p) y = Add (q, B)",
        ["Mul", "Slice", "Neg", "Add"],
    ),
    fires(
        "a part of the result next to another one",
        ALONE
        % "p, q = Split <axis = 1, num_outputs = 2> (a) r = Neg (q) y = Concat <axis = 1> (r, x)",
        ["Mul", "Split", "Neg", "Concat"],
    ),
    fires(
        "a part of the result before a Sigmoid",
        ALONE % "p = Slice (a, b, e, b) y = Sigmoid (p)",
        ["Mul", "Slice", "Sigmoid"],
    ),
    fires(
        "normalized",
        "agraph (float[N,2,4] x) => (float[N,2,4] y) <float[2,1] c = {0.5, 1e-40}, float[2] s = {1,1}, "
        "float[2] b = {0,0}> { a = Mul (x, c) y = InstanceNormalization (a, s, b) }",
        ["Mul", "InstanceNormalization"],
    ),
    fires("divided by a constant", ADD % "y = Div (a, d)", ["Add", "Div"]),
    fires(
        "cast", ADD.replace("=> (float", "=> (double") % "y = Cast <to = 11> (a)", ["Add", "Cast"]
    ),
]

# The uses of a function's results are unknown.
test_stays, test_fires = tables("SubnormalToZeroPass", STAYS, FIRES, in_functions="less often")


def dead_filters(scale: float, variance: float = 1.0) -> onnx.ModelProto:
    """Two convolutions with a BatchNormalization each, of which every eighth filter is dead."""
    rng = np.random.default_rng(0)
    nodes = []
    constants = []
    value = "x"
    for layer in range(2):
        arrays = {
            "W": rng.normal(size=(8, 8, 3, 3)),
            "s": np.ones(8),
            "b": np.ones(8),
            "m": np.zeros(8),
        }
        arrays["v"] = np.full(8, variance)
        arrays["W"][::8] *= scale
        constants += [
            numpy_helper.from_array(a.astype(np.float32), f"{n}{layer}") for n, a in arrays.items()
        ]
        nodes.append(helper.make_node("Conv", [value, f"W{layer}"], [f"c{layer}"], pads=[1] * 4))
        nodes.append(
            helper.make_node(
                "BatchNormalization", [f"c{layer}", *(f"{n}{layer}" for n in "sbmv")], [f"n{layer}"]
            )
        )
        nodes.append(helper.make_node("Relu", [f"n{layer}"], [value := f"r{layer}"]))
    info = [helper.make_tensor_value_info(name, 1, [1, 8, 6, 6]) for name in ("x", value)]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    "model",
    [dead_filters(1e-40), dead_filters(1e-36, 1e6), dead_filters(1e-44)],
    ids=["in the weights", "made by the fold", "the smallest"],
)
def test_no_subnormal_number_is_left_of_dead_filters(
    model: onnx.ModelProto, tmp_path: Path
) -> None:
    onnx.save(model, tmp_path / "m.onnx")
    fusionc.convert(tmp_path / "m.onnx", output=tmp_path / "o.onnx")
    result = onnx.load(tmp_path / "o.onnx")
    assert [node.op_type for node in result.graph.node] == ["FusedConv", "FusedConv"]
    weights = [numpy_helper.to_array(tensor) for tensor in result.graph.initializer]
    assert not any(
        ((np.abs(w) < np.finfo(w.dtype).smallest_normal) & (w != 0)).any() for w in weights
    )
    feeds = {"x": np.random.default_rng(1).normal(size=(1, 8, 6, 6)).astype(np.float32)}
    flushed, _ = optimize(model, [pass_of("SubnormalToZeroPass")])
    before, after = (ReferenceEvaluator(m).run(None, feeds)[0] for m in (model, flushed))
    assert np.abs(before - after).max() <= 1e-30


def test_a_factor_that_makes_a_filter_dead_goes_into_the_convolution() -> None:
    model = dead_filters(1)
    scale = next(tensor for tensor in model.graph.initializer if tensor.name == "s0")
    scale.CopyFrom(numpy_helper.from_array(np.array([1e-20, *[1.0] * 7], np.float32), "s0"))
    result, counts = optimize(model, [pass_of("ConvBatchnormFusionPass")])
    assert (
        effected(counts) == 2
        and [node.op_type for node in result.graph.node] == ["Conv", "Relu"] * 2
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_subnormal_number_is_counted_and_nothing_else(dtype: type[np.floating]) -> None:
    info = np.finfo(dtype)
    small = [
        info.smallest_subnormal,
        -info.smallest_subnormal,
        info.smallest_normal * 0.75,
        -info.smallest_normal / 2,
    ]
    others = [
        0.0,
        -0.0,
        info.smallest_normal,
        -info.smallest_normal,
        1.0,
        info.max,
        np.nan,
        np.inf,
        -np.inf,
    ]
    array = np.array([*others, *small] * 10_000, dtype)  # more than are looked at together
    assert count_subnormal(array) == 40_000
    assert count_subnormal(array.reshape(13, -1).T) == 40_000
    assert not count_subnormal(np.array([1e-7], np.float16)) and not count_subnormal(
        np.zeros(0, dtype)
    )


@pytest.mark.parametrize("offset", [0, 1, 6])
def test_weights_in_a_file_are_looked_at_wherever_they_begin(tmp_path: Path, offset: int) -> None:
    weights = np.ones((4, 3, 3, 3), np.float32)
    weights[1] = 1e-40
    (tmp_path / "data").write_bytes(bytes(offset) + weights.tobytes())
    model = parse(
        "agraph (float[1,3,8,8] x, float[4,3,3,3] w) => (float[1,4,6,6] y) { y = Conv (x, w) }"
    )
    del model.graph.input[1]
    outside = model.graph.initializer.add(
        name="w", dims=weights.shape, data_type=onnx.TensorProto.FLOAT
    )
    outside.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", "data"), ("offset", offset), ("length", weights.nbytes)):
        outside.external_data.add(key=key, value=str(value))
    onnx.save(model, tmp_path / "model.onnx")
    report = fusionc.convert(tmp_path / "model.onnx", output=tmp_path / "out.onnx")
    assert [p.name for p in report.passes() if p.effected] == ["SubnormalToZeroPass"]
    (written,) = onnx.load(tmp_path / "out.onnx").graph.initializer
    assert np.array_equal(numpy_helper.to_array(written), np.where(weights < 1, 0, weights))
