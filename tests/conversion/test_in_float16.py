"""--precision_mode_v2 with float16 through the whole conversion: a bound, nodes that stay in float32
because they break it or because the user says so, and wrong uses of each option.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from harness import parse
from onnx import TensorProto, numpy_helper

import fusionc
from fusionc import api
from fusionc.errors import UsageError, VerificationError
from fusionc.options import options_of
from fusionc.report import Report
from fusionc.requested.float16.precision_modes import MODES, OLDER

LAYERS = 12
SIZE = 32
# no fusion, so that the planted faults stay in the model
QUICK: dict[str, Any] = {"runtime_level": ("disabled",), "oo_level": "O1"}
PLANTED = LAYERS // 2  # the layer with a fault


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FUSIONC_PROCESS_LOG_PATH", str(tmp_path / "log"))
    rng = np.random.default_rng(0)
    np.savez("in.npz", x=rng.standard_normal((4, SIZE)).astype(np.float32))


def network(planted: str = "") -> onnx.ModelProto:
    """Matrix products in a row, each with a Relu. After one there may be two more operators, whose
    result is the usual one in float32: "overflow", values beyond float16 are scaled back; "digits",
    a number is added that has no digits left in float16 for the others, and subtracted again.
    """
    rng = np.random.default_rng(1)
    tensors = {"large": np.full(SIZE, 3e4, np.float32)}
    body = ""
    last = "x"
    for number in range(LAYERS):
        weight = rng.standard_normal((SIZE, SIZE)).astype(np.float32) * np.sqrt(2 / SIZE)
        body += f"[product{number}] m{number} = MatMul ({last}, w{number})\n"
        last = f"m{number}"
        if number == PLANTED and planted == "overflow":
            weight = weight * 3e4
            body += f"[back] back = Div ({last}, large)\n"
            last = "back"
        if number == PLANTED and planted == "digits":
            body += f"[there] there = Add ({last}, large)\n[back] back = Sub (there, large)\n"
            last = "back"
        body += f"[relu{number}] r{number} = Relu ({last})\n"
        last = f"r{number}"
        tensors[f"w{number}"] = weight.astype(np.float32)
    declared = ", ".join(f"float[{','.join(map(str, a.shape))}] {n}" for n, a in tensors.items())
    graph = f"agraph (float[4,{SIZE}] x) => (float[4,{SIZE}] {last})\n<{declared}>\n{{{body}}}"
    model = parse(graph)
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(tensors[tensor.name], tensor.name))
    return model


def converted(planted: str = "", **options: Any) -> Report:
    onnx.save(network(planted), "in.onnx")
    return fusionc.convert("in.onnx", output="out.onnx", inputs="in.npz", **(QUICK | options))


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def notices(report: Report, text: str) -> list[str]:
    return [notice for notice in report.notices if text in notice]


def distance() -> float:
    """How far the result moves the output, as a share of its largest value."""
    made = [
        onnxruntime.InferenceSession(name, providers=["CPUExecutionProvider"]).run(
            None, dict(np.load("in.npz"))
        )[0]
        for name in ("in.onnx", "out.onnx")
    ]
    return float(np.abs(made[0] - made[1]).max() / np.abs(made[0]).max())


def half_products(model: onnx.ModelProto) -> int:
    """The number of products with a weight of float16."""
    halves = {t.name for t in model.graph.initializer if t.data_type == TensorProto.FLOAT16}
    return sum(node.op_type == "MatMul" and node.input[1] in halves for node in model.graph.node)


@pytest.mark.parametrize("mode", ["fp16", "mixed_float16"])
def test_everything_in_float16(mode: str) -> None:
    report = converted(precision_mode_v2=mode)
    model = onnx.load("out.onnx")
    assert operators(model) == ["Cast", *["MatMul", "Relu"] * LAYERS, "Cast"]
    assert {v.type.tensor_type.elem_type for v in (*model.graph.input, *model.graph.output)} == {1}
    assert Path("out.onnx").stat().st_size < 0.6 * Path("in.onnx").stat().st_size
    assert report.verification is not None
    assert "; in float16: within the bound (cosine 0.999) on 1 samples" in report.verification
    assert notices(report, "in float16: ")[0] == (
        f"in float16: {LAYERS} of {LAYERS} convolutions and matrix products, "
        f"{2 * LAYERS} of {2 * LAYERS} nodes of float32"
    )
    assert len(notices(report, "smaller, not faster")) == 1
    assert not notices(report, "random inputs") and not report.in_float32
    assert 0 < distance() < 0.01


@pytest.mark.parametrize(
    ("planted", "kept", "cost"),
    [
        ("overflow", [f"product{PLANTED}", "back"], "its values reach 1.22e+05, and float16 ends"),
        (
            "digits",
            ["there"],
            "off by r11 1 (cosine 0.000000) with this node in float16, and by r11 0.0",
        ),
    ],
)
def test_a_planted_fault_stays_in_float32(planted: str, kept: list[str], cost: str) -> None:
    report = converted(planted, precision_mode_v2="mixed_float16", precision_error=0.02)
    assert sorted(report.in_float32) == sorted(kept)
    told = notices(report, "stays in float32: ")
    assert len(told) == len(kept) and any(cost in notice for notice in told)
    assert half_products(onnx.load("out.onnx")) / LAYERS >= 0.9
    assert distance() <= 0.02
    Path("keep.txt").write_text("\n".join(report.in_float32))
    result = Path("out.onnx").read_bytes()
    again = converted(planted, precision_mode_v2="mixed_float16", keep_dtype="keep.txt")
    assert Path("out.onnx").read_bytes() == result and not again.in_float32


def test_fp16_keeps_nothing_and_writes_nothing_wrong() -> None:
    with pytest.raises(VerificationError, match="the result in float16 is beyond") as error:
        converted("overflow", precision_mode_v2="fp16")
    assert error.value.code == "E13028"
    assert "mixed_float16 instead of fp16" in error.value.hint
    assert not Path("out.onnx").exists()


SAMPLES = Path(__file__).parents[2] / "sample_models"
DECODER = """agraph (float[1,8,16,16] x) => (float[1,4,16,16] y)
    <float[8,8,3,3] a, float[8,8,2,2] b, float[4,16,1,1] c, float[4] d> {
    e = Conv <pads = [1, 1, 1, 1]> (x, a) f = Relu (e)
    p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (f)
    u = ConvTranspose <strides = [2, 2]> (p, b) j = Concat <axis = 1> (u, f) o = Conv (j, c, d)
    y = Sigmoid (o) }"""
RECURRENT = """agraph (float[6,2,8] x) => (float[6,1,2,4] y)
    <float[1,16,8] w, float[1,16,4] r> { y, h, c = LSTM <hidden_size = 4> (x, w, r) }"""


@pytest.mark.parametrize(
    "model",
    ["conv_bn", "matmul_bias", "transformer_block", DECODER, RECURRENT],
    ids=["conv_bn", "matmul_bias", "transformer_block", "decoder", "recurrent"],
)
def test_models_keep_the_bound(model: str) -> None:
    source = SAMPLES / f"{model}.onnx"
    if model in (DECODER, RECURRENT):
        source = Path("in.onnx")
        onnx.save(parse(model), source)
    rng = np.random.default_rng(0)
    inputs = {
        value.name: rng.standard_normal(
            [dim.dim_value or 2 for dim in value.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for value in onnx.load(source).graph.input
    }
    np.savez("in.npz", **inputs)
    report = fusionc.convert(
        source, output="out.onnx", inputs="in.npz", precision_mode_v2="mixed_float16"
    )
    assert report.verification is not None
    assert "; in float16: within the bound (cosine 0.999) on 1 samples" in report.verification
    words = notices(report, "in float16: ")[0].split()
    assert int(words[2]) >= 0.9 * int(words[4]) and not report.in_float32
    assert Path("out.onnx").stat().st_size < source.stat().st_size + 1000


def kept(text: str) -> dict[str, Any]:
    Path("keep.txt").write_text(text)
    return {"keep_dtype": "keep.txt"}


def customized(text: str) -> dict[str, Any]:
    Path("types.cfg").write_text(text)
    return {"customize_dtypes": "types.cfg"}


def mixed(**lists: Any) -> dict[str, Any]:
    content = {f"{name}-list": changes for name, changes in lists.items()}
    Path("lists.json").write_text(json.dumps(content))
    return {"modify_mixlist": "lists.json"}


HALF = "InputDtype:float16,float16,OutputDtype:float16"
SINGLE = "InputDtype:float32,float32,OutputDtype:float32"
RULES = [  # name, mode, options, products in float16, all nodes in float16
    ("nodes by name", "fp16", lambda: kept("product3\nrelu3\n"), LAYERS - 1, 2 * LAYERS - 2),
    ("nodes by type", "mixed_float16", lambda: kept("OpType::Relu"), LAYERS, LAYERS),
    ("nodes by Ascend's type", "fp16", lambda: kept("OpType::MatMulV2"), 0, LAYERS),
    ("only one node", None, lambda: customized(f"product3::{HALF}"), 1, 1),
    ("one node not", "fp16", lambda: customized(f"product3::{SINGLE}"), LAYERS - 1, 2 * LAYERS - 1),
    (
        "a name beats a type, and both beat --keep_dtype",
        "fp16",
        lambda: kept("OpType::MatMul") | customized(f"OpType::MatMulV2:{SINGLE}\nproduct3::{HALF}"),
        1,
        LAYERS + 1,
    ),
    (
        "an operator is put on the black list",
        "mixed_float16",
        lambda: mixed(black={"to-add": ["Relu"]}),
        LAYERS,
        LAYERS,
    ),
    (
        "an operator of Ascend leaves the white list",
        "mixed_float16",
        lambda: mixed(white={"to-remove": ["MatMulV2"]}),
        0,
        0,
    ),
    (
        "lists name gray operators",
        "mixed_float16",
        lambda: mixed(gray={"to-add": ["MatMul"]}, white={"to-add": ["Relu"]}),
        LAYERS - 1,
        2 * LAYERS - 1,
    ),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule[0])
def test_rules_for_single_nodes(rule: tuple[Any, ...]) -> None:
    _, mode, options, products, nodes = rule
    report = converted(precision_mode_v2=mode, verify=False, **options())
    assert notices(report, "in float16: ")[0] == (
        f"in float16: {products} of {LAYERS} convolutions and matrix products, "
        f"{nodes} of {2 * LAYERS} nodes of float32"
    )
    assert half_products(onnx.load("out.onnx")) == products
    assert len(notices(report, "what float16 costs is not measured")) == (nodes > 0)


def test_what_is_customized_to_float32_results_rounds_its_inputs() -> None:
    converted(
        verify=False,
        **customized("product3::InputDtype:float16,float16,OutputDtype:float32"),
    )
    nodes = {node.name: node for node in onnx.load("out.onnx").graph.node}
    assert list(nodes["product3"].input) == ["r2_rounded", "w3_rounded"]
    assert list(nodes["product3"].output) == ["m3"]


WRONG = [
    ("no file", lambda: {"keep_dtype": "none.txt"}, "the file of --keep_dtype does not exist"),
    ("a line", lambda: customized("product3: float16"), "does not understand the line product3"),
    (
        "a type",
        lambda: customized("product3::InputDtype:float8,float16,OutputDtype:float16"),
        "has the type float8",
    ),
    (
        "a form that no node has",
        lambda: customized("product3::InputDtype:float32,float32,OutputDtype:float16"),
        "types that no node can have",
    ),
    (
        "too many inputs",
        lambda: customized(f"relu3::{HALF}"),
        "gives types for 2 inputs of relu3",
    ),
    ("not JSON", lambda: mixed() | kept("") | write("lists.json", "{"), "is not JSON"),
    ("a list", lambda: mixed(red={}), "has the key red-list"),
    ("a change", lambda: mixed(black={"add": []}), "has the key add"),
    ("not names", lambda: mixed(black={"to-add": "Relu"}), "is not a list of names"),
    ("a typo", lambda: mixed(black={"to-add": ["Conv2E"]}), "names Conv2E"),
    (
        "an operator that is not there",
        lambda: mixed(white={"to-remove": ["Relu"]}),
        "Relu is not on the white-list",
    ),
    (
        "two lists",
        lambda: mixed(white={"to-add": ["SoftmaxV2"]}, black={"to-add": ["Softmax"]}),
        "is in to-add of black-list and of white-list",
    ),
    ("gray to where", lambda: mixed(gray={"to-remove": ["Relu"]}), "gray-list has to-remove"),
]


def write(name: str, text: str) -> dict[str, Any]:
    Path(name).write_text(text)
    return {}


@pytest.mark.parametrize(("options", "what"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_wrong_files(options: Any, what: str) -> None:
    with pytest.raises(UsageError) as error:
        converted(precision_mode_v2="mixed_float16", verify=False, **options())
    assert what in error.value.what and error.value.code in ("E10001", "E10410")
    assert error.value.where and error.value.hint


def test_names_that_the_model_lacks_are_told() -> None:
    report = converted(
        precision_mode_v2="mixed_float16",
        verify=False,
        **customized(f"none::{HALF}\nOpType::Conv2D:{HALF}"),
        **mixed(black={"to-add": ["SparseSoftmaxCrossEntropyWithLogits"]}),
    )
    assert "--customize_dtypes: the model does not have none, OpType::Conv2D" in report.notices
    assert notices(report, "no operator of ONNX corresponds to SparseSoftmax")


@pytest.mark.parametrize(("older", "mode"), OLDER.items())
def test_older_names(older: str, mode: str) -> None:
    options = options_of("in.onnx", precision_mode=older)
    assert options.precision == mode and (mode in MODES or mode == older)


def test_both_names_contradict_each_other() -> None:
    with pytest.raises(
        UsageError, match="--precision_mode and --precision_mode_v2 are both given"
    ) as error:
        converted(precision_mode_v2="fp16", precision_mode="force_fp16")
    assert error.value.hint == "leave out one of the two"


def test_options_without_a_lower_precision() -> None:
    report = converted(verify=False, precision_error=0.1, **kept(""), **mixed())
    lower = "fp16, mixed_float16, cube_fp16in_fp32out or mixed_bfloat16"
    useful = {
        "precision_error": f"{lower}, or --customize_dtypes",
        "keep_dtype": lower,
        "modify_mixlist": "mixed_float16 or mixed_bfloat16",
    }
    assert notices(report, "has no effect without --precision_mode_v2=") == [
        f"--{name} has no effect without --precision_mode_v2={modes}"
        for name, modes in useful.items()
    ]
    report = converted(verify=False, precision_mode_v2="fp16", **kept(""))
    assert not notices(report, "keep_dtype has no effect")


def test_without_inputs() -> None:
    onnx.save(network(), "in.onnx")
    report = fusionc.convert("in.onnx", output="out.onnx", precision_mode_v2="fp16", **QUICK)
    assert notices(report, "measured on random inputs; give real ones with --inputs")


def test_commands_that_look_at_rewrites_refuse() -> None:
    onnx.save(network(), "in.onnx")
    for name, call in {
        "bisect": api.bisect,
        "tune": api.tune,
        "why": lambda *a, **b: api.why(*a, "IdentityPass", **b),
    }.items():
        with pytest.raises(UsageError, match=f"{name} does not lower a model"):
            call("in.onnx", precision_mode_v2="fp16")


def test_an_old_opset() -> None:
    onnx.save(parse("agraph (float[2] x) => (float[2] y) { y = Abs (x) }", 6, 3), "in.onnx")
    with pytest.raises(UsageError, match="float16 needs opset 7") as error:
        fusionc.convert("in.onnx", output="out.onnx", precision_mode_v2="fp16", verify=False)
    assert "--target_opset" in error.value.hint


def test_what_onnxruntime_does_not_load_is_not_written() -> None:
    """Its optimizers make a LayerNormalization of two types of such a chain."""
    chain = """u = ReduceMean (x, ax) d = Sub (x, u) s = Pow (d, two) v = ReduceMean (s, ax)
        e = Add (v, eps) r = Sqrt (e) n = Div (d, r) a = Mul (n, g) y = Add (a, b)"""
    constants = "float[4] g, float[4] b, int64[1] ax = {-1}, float two = {2}, float eps = {1e-5}"
    onnx.save(
        parse(f"agraph (float[2,3,4] x) => (float[2,3,4] y) <{constants}> {{ {chain} }}"), "in.onnx"
    )
    with pytest.raises(VerificationError, match="cannot load the result in float16") as error:
        fusionc.convert("in.onnx", output="out.onnx", precision_mode_v2="fp16", **QUICK)
    assert "--keep_dtype" in error.value.hint and not Path("out.onnx").exists()
    report = fusionc.convert("in.onnx", output="out.onnx", precision_mode_v2="fp16")
    assert notices(report, "in float16: ") and "LayerNormalization" in operators(
        onnx.load("out.onnx")
    )


@pytest.mark.usefixtures("needs_a_compiler")
def test_with_kernels() -> None:
    chain = "a = Sigmoid (x) b = Mul (a, w) c = Exp (b) d = Add (c, w) y = Tanh (d)"
    onnx.save(
        parse(f"agraph (float[64,4096] x) => (float[64,4096] y) <float[4096] w> {{ {chain} }}"),
        "in.onnx",
    )
    rng = np.random.default_rng(0)
    np.savez("in.npz", x=rng.standard_normal((64, 4096)).astype(np.float32))
    report = fusionc.convert(
        "in.onnx",
        output="out.onnx",
        inputs="in.npz",
        precision_mode_v2="fp16",
        enable_graph_kernel=True,
    )
    model = onnx.load("out.onnx")
    assert report.kernels is not None and report.areas
    assert any(node.domain == "fusionc.gk" for node in model.graph.node)
    assert weights_in(model) == {TensorProto.FLOAT16}
    options = onnxruntime.SessionOptions()
    fusionc.register_kernels(options, "out.onnx")
    feeds = dict(np.load("in.npz"))
    session = onnxruntime.InferenceSession("out.onnx", options, providers=["CPUExecutionProvider"])
    (made,) = session.run(None, feeds)
    (right,) = onnxruntime.InferenceSession("in.onnx").run(None, feeds)
    assert 0 < np.abs(made - right).max() < 0.01


def weights_in(model: onnx.ModelProto) -> set[int]:
    return {tensor.data_type for tensor in model.graph.initializer}
