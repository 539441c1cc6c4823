"""What is found in a model, and that nothing is found where there is nothing."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from harness import parse, with_function
from onnx import TensorProto, numpy_helper

from fusionc.errors import FusioncError
from fusionc.inspect import dry_run
from fusionc.inspect.inspect_story import Inspection, inspect

CONV = "agraph (float[2,3,4,4] x) => (float[2,4,4,4] y) <float[4,3,1,1] W> { y = Conv (x, W) }"
TWO = (
    "agraph (float[2,64] x) => (float[2,64] y) <float[64,64] V, float[64,64] W> { a = MatMul "
    "(x, V) y = MatMul (a, W) }"
)


def inspected(model: onnx.ModelProto, folder: Path) -> Inspection:
    onnx.save(model, folder / "m.onnx")
    return inspect(folder / "m.onnx")


def topics(model: onnx.ModelProto, folder: Path) -> list[str]:
    return [finding.topic for finding in inspected(model, folder).findings]


def with_weights(text: str, **arrays: np.ndarray) -> onnx.ModelProto:
    model = parse(text)
    for tensor in model.graph.initializer:
        if tensor.name in arrays:
            tensor.CopyFrom(
                numpy_helper.from_array(arrays[tensor.name].astype(np.float32), tensor.name)
            )
    return model


def test_nothing_is_found_in_a_plain_model(tmp_path: Path) -> None:
    assert topics(parse(CONV), tmp_path) == []
    assert topics(parse(TWO), tmp_path) == []


def test_subnormal_numbers_are_counted(tmp_path: Path) -> None:
    weights = np.ones((4, 3, 1, 1))
    for place, number in enumerate((1e-40, 0, 1e-37)):
        weights[place, place] = number
    (found,) = inspected(with_weights(CONV, W=weights), tmp_path).findings
    assert found.topic == "subnormal numbers" and found.text.startswith(
        "1 element of 1 constant below"
    )
    assert found.places == ("W",) and "SubnormalToZeroPass" in found.to_do


def test_large_weights_are_looked_at_without_copies_of_them(tmp_path: Path) -> None:
    weights = np.ones((1 << 11, 1 << 10), np.float32)
    weights[:, 3] = 0
    model = parse(
        "agraph (float[2,2048] x) => (float[2,1024] y) <float[2048,1024] W> { y = MatMul (x, W) }"
    )
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, "W"))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True)
    tracemalloc.start()
    (found,) = inspect(tmp_path / "m.onnx").findings
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.text.startswith("1 output of 1 operator")
    assert most < 1.5 * weights.nbytes


@pytest.mark.parametrize(
    ("text", "shape", "dead"),
    [
        (CONV, (4, 3, 1, 1), np.s_[1:3]),
        (("agraph (float[2,3,4,4] x) => (float[2,4,4,4] y) <float[3,4,1,1] W> { y = "
            "ConvTranspose (x, W) }"),
         (3, 4, 1, 1), np.s_[:, 1:3]),
        ("agraph (float[2,3] x) => (float[2,4] y) <float[3,4] W> { y = MatMul (x, W) }", (3, 4), np.s_[:, 1:3]),
        ("agraph (float[2,3] x) => (float[2,4] y) <float[3,4] W> { y = Gemm (x, W) }", (3, 4), np.s_[:, 1:3]),
        (("agraph (float[2,3] x) => (float[2,4] y) <float[4,3] W> { y = Gemm <transB = 1> (x, "
            "W) }"), (4, 3), np.s_[1:3]),
    ],
    ids=["Conv", "ConvTranspose", "MatMul", "Gemm", "Gemm with transB"],
)  # fmt: skip
def test_dead_filters_are_those_of_the_outputs(
    text: str, shape: tuple[int, ...], dead: object, tmp_path: Path
) -> None:
    weights = np.ones(shape)
    weights[dead] = 0
    (found,) = inspected(with_weights(text, W=weights), tmp_path).findings
    assert found.topic == "dead filters" and "2 of 4" in found.text
    weights[:] = 1
    weights[0, 0] = 0
    assert topics(with_weights(text, W=weights), tmp_path) == []


def test_weights_that_are_there_twice(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).normal(size=(64, 64))
    (equal,) = inspected(with_weights(TWO, V=weights, W=weights), tmp_path).findings
    assert (
        equal.topic == "weights stored twice"
        and "16.0 KiB" in equal.text
        and equal.places == ("V", "W")
    )
    (turned,) = inspected(with_weights(TWO, V=weights, W=weights.T), tmp_path).findings
    assert (
        turned.topic == "weights stored transposed"
        and "16.0 KiB" in turned.text
        and turned.places == ("V", "W")
    )
    assert topics(with_weights(TWO, V=weights, W=weights + 1), tmp_path) == []
    symmetric = weights + weights.T
    assert topics(with_weights(TWO, V=symmetric, W=symmetric), tmp_path) == ["weights stored twice"]


def test_operators_without_a_kernel_of_their_type(tmp_path: Path) -> None:
    half = parse(
        "agraph (float16[2,3,4,4] x) => (float16[2,3,4,4] y) { y = InstanceNormalization (x, "
        "s, "
        "s) }"
    )
    half.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float16), "s"))
    (found,) = inspected(half, tmp_path).findings
    assert (
        found.topic == "computed in float32"
        and "1 InstanceNormalization" in found.text
        and "float16" in found.text
    )


@pytest.mark.parametrize("of_type", ["double", "bfloat16"])
def test_operators_that_onnxruntime_does_not_load(of_type: str, tmp_path: Path) -> None:
    """It puts Casts around operators that have no kernel for float16, and for no other type."""
    text = f"agraph ({of_type}[2] x) => ({of_type}[2] y) {{ y = Erf (x) }}"
    (found,) = inspected(parse(text), tmp_path).findings
    assert found.topic == "no kernel" and found.places == ("Erf:y",)
    with pytest.raises(Exception, match="NOT_IMPLEMENTED"):
        onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(("op", "domain"), [("Reluu", ""), ("MyOp", "my")])
def test_operators_that_onnxruntime_does_not_know(op: str, domain: str, tmp_path: Path) -> None:
    model = parse("agraph (float[2] x) => (float[2] y) { y = Relu (x) }")
    model.graph.node[0].op_type = op
    model.graph.node[0].domain = domain
    model.opset_import.add(domain="my", version=1)
    (found,) = inspected(model, tmp_path).findings
    assert (
        found.topic == "unknown operators"
        and f"1 {op}" in found.text
        and "--custom_op_library" in found.to_do
    )


def test_what_runs_step_by_step_and_what_leaves_the_blocked_layout(tmp_path: Path) -> None:
    loop = parse("""agraph (float[2] x, int64 n) => (float[2] y) <bool go = {1}> {
        y = Loop (n, go, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t) {
            d = Identity (c) t = Add (s, s) }> }""")
    assert topics(loop, tmp_path) == ["computed step by step"]
    flat = parse("agraph (float[2,3,4] x) => (float[2,4,4] y) <float[4,3,1] W> { y = Conv (x, W) }")
    (found,) = inspected(flat, tmp_path).findings
    assert found.topic == "convolutions over one axis" and "Conv1dToConv2dPass" in found.to_do


def test_open_sizes_say_how_to_fix_them(tmp_path: Path) -> None:
    model = parse("""agraph (float[N,4] x, float[N,M] z) => (float[K] y) <int64[1] one = {0}, int64[1] four = {4}> {
        s = Shape (x) n = Gather (s, one) t = Mul (n, four) y = Reshape (x, t) }""")
    (found,) = inspected(model, tmp_path).findings
    assert (
        found.topic == "open sizes"
        and found.text == "x[N,4], z[N,M]: shapes are computed from these sizes in 3 nodes"
    )
    assert '--input_shape "x:1,4;z:1,M" and numbers in place of M: many' in found.to_do


def test_sizes_of_images_are_left_to_the_user_and_named_as_the_model_names_them(
    tmp_path: Path,
) -> None:
    model = parse("agraph (float[N,3,h,w] x, float[N,q,4] z) => (float[N,3,h,w] y) { y = Neg (x) }")
    model.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "unk__6"
    model.graph.output[0].type.tensor_type.shape.dim[2].dim_param = "floor(h/2 - 1/2) + " * 9 + "h"
    found = inspected(model, tmp_path)
    (finding,) = found.findings
    assert finding.text == "x[N,3,h,w], z[N,unk__6,4]: no shape is computed from these sizes"
    assert finding.to_do.startswith(
        'nothing needs to be done; to fix them, convert with --input_shape "x:1,3,h,w;z:1,unk'
    )
    assert dict(found.facts)["output"] == "y  float[N,3,floor(h/2 - 1/2) + floor(h/2 - 1/2) + f…,w]"


def test_sizes_without_a_name(tmp_path: Path) -> None:
    model = parse(
        "agraph (float[N,3,?,?] x, float[N,?] z, float[N] v) => (float[N,3,?,?] y) { y = Neg (x) }"
    )
    model.graph.input[2].type.tensor_type.ClearField("shape")
    (found,) = inspected(model, tmp_path).findings
    assert found.to_do.endswith(
        '--input_shape "x:1,3,H,W;z:1,?;v:…" and numbers in place of H, W, ?, …'
    )


def test_what_else_is_read_is_no_shape(tmp_path: Path) -> None:
    model = parse(
        """agraph (float[N,4] x, int64[2] more) => (int64[2] y) { s = Shape (x) y = Add (s, more) }"""
    )
    (found,) = inspected(model, tmp_path).findings
    assert found.text == "x[N,4]: shapes are computed from these sizes in 1 node"


def test_weights_in_a_file_of_their_own(tmp_path: Path) -> None:
    weights = np.ones((4, 3, 1, 1))
    weights[1] = 0
    onnx.save(
        with_weights(CONV, W=weights),
        tmp_path / "m.onnx",
        save_as_external_data=True,
        size_threshold=0,
    )
    assert [finding.topic for finding in inspect(tmp_path / "m.onnx").findings] == ["dead filters"]


def test_strings_and_other_types_are_no_trouble(tmp_path: Path) -> None:
    model = parse("agraph (float[2] x) => (float[2] y) { y = Identity (x) }")
    model.graph.initializer.append(
        onnx.helper.make_tensor("s", TensorProto.STRING, [2000], [b"abc"] * 2000)
    )
    model.graph.initializer.append(onnx.helper.make_tensor("e", TensorProto.FLOAT, [0], []))
    assert topics(model, tmp_path) == []


def test_what_passes_take_is_not_said_to_be_written_out(tmp_path: Path) -> None:
    """Where they leave it, it is."""
    alone = "agraph (float[2,4] x) => (float[2,4] y) { y = HardSwish (x) }"
    (found,) = inspected(parse(alone), tmp_path).findings
    assert found.topic == "written out when the model is loaded" and "1 HardSwish" in found.text
    assert (
        topics(
            parse("agraph (float[2,4] x) => (float[2,4] y) { a = Mish (x) y = Abs (x) }"), tmp_path
        )
        == []
    )


@pytest.mark.parametrize(
    ("kind", "op", "opset", "topic"),
    [
        ("float16", "Relu", 18, "written out when the model is loaded"),
        ("float16", "Relu", 21, "computed in float32"),
        ("float16", "ThresholdedRelu", 21, "computed in float32"),
        ("float16", "Softmax", 21, "written out when the model is loaded"),
        ("float", "Mish", 18, "written out when the model is loaded"),
        ("double", "Elu", 21, "no kernel"),
        ("float", "Relu", 21, None),
    ],
)
def test_onnxruntime_says_which_operators_it_writes_out(
    kind: str, op: str, opset: int, topic: str | None, tmp_path: Path
) -> None:
    """Some that it could write out it computes in float32, and of some it has no kernels, or no
    rule to write them.
    """
    model = parse(f"agraph ({kind}[2,4] x) => ({kind}[2,4] y) {{ y = {op} (x) }}", opset)
    assert topics(model, tmp_path) == ([topic] if topic else [])


def flat(channels: int, length: int, times: int = 1) -> onnx.ModelProto:
    weights = ", ".join(f"float[{channels},{channels},9] w{k}" for k in range(times))
    body = " ".join(f"v{k + 1} = Conv <pads = [4, 4]> (v{k}, w{k})" for k in range(times))
    sizes = f"1,{channels},{length}"
    return parse(
        f"agraph (float[{sizes}] v0) => (float[{sizes}] v{times}) <{weights}> {{ {body} }}"
    )


def test_the_pass_says_of_convolutions_over_one_axis_how_many_it_takes(tmp_path: Path) -> None:
    (large,) = inspected(flat(64, 512, 3), tmp_path).findings
    assert large.to_do == (
        "convert: Conv1dToConv2dPass turns 3 of 3 convolutions into convolutions over two axes"
    )
    (small,) = inspected(flat(2, 5), tmp_path).findings
    assert small.to_do.startswith(
        "nothing needs to be done: Conv1dToConv2dPass leaves them as they are"
    )


CELL = "m{k} = MatMul (h{k}, R) g{k} = Add (m{k}, x) s{k} = Sigmoid (g{k}) h{n} = Mul (s{k}, g{k})"


def unrolled(steps: int) -> onnx.ModelProto:
    body = " ".join(CELL.format(k=k, n=k + 1) for k in range(steps))
    return parse(
        f"agraph (float[1,8] h0, float[1,8] x) => (float[1,8] h{steps}) <float[8,8] R> {{ {body} }}"
    )


def test_a_recurrence_that_is_unrolled(tmp_path: Path) -> None:
    (found,) = inspected(unrolled(6), tmp_path).findings
    assert found.topic == "an unrolled recurrence" and "up to 6 times: 6 products" in found.text
    assert found.places[0] == "MatMul:m0" and len(found.places) == 6
    assert topics(unrolled(3), tmp_path) == []


def test_one_weight_on_many_values_is_no_recurrence(tmp_path: Path) -> None:
    body = " ".join(f"y{k} = MatMul (x{k}, R)" for k in range(6))
    inputs = ", ".join(f"float[1,8] x{k}" for k in range(6))
    outputs = ", ".join(f"float[1,8] y{k}" for k in range(6))
    assert (
        topics(parse(f"agraph ({inputs}) => ({outputs}) <float[8,8] R> {{ {body} }}"), tmp_path)
        == []
    )


def test_convolutions_of_integers(tmp_path: Path) -> None:
    model = parse(
        "agraph (uint8[1,3,8,8] x) => (int32[1,4,6,6] y) { y = ConvInteger (x, W) }",
    )
    model.graph.initializer.append(numpy_helper.from_array(np.ones((4, 3, 3, 3), np.int8), "W"))
    quantized, found = inspected(model, tmp_path).findings
    assert quantized.topic == "quantized"
    assert found.topic == "convolutions of integers" and found.places == ("ConvInteger:y",)


@pytest.mark.parametrize(("kind", "expected"), [("int8", ["signed activations"]), ("uint8", [])])
def test_activations_with_a_sign(kind: str, expected: list[str], tmp_path: Path) -> None:
    model = parse(f"""agraph (float[2,4] x, float[2,4] z) => (float[2,4] y) <float s = {{0.25}}, {kind} o = {{0}}> {{
        q = QuantizeLinear (x, s, o) d = DequantizeLinear (q, s, o) y = Add (d, z) }}""")
    in_float = ["quantized", "dequantized and computed in float32"]
    assert topics(model, tmp_path) == [*in_float, *expected]


def test_what_the_passes_leave_is_not_promised(tmp_path: Path) -> None:
    """Subnormal numbers that show in the result stay as they are."""
    model = with_weights(
        "agraph (float[2] x) => (float[2] y) <float[2] c> { y = Add (x, c) }", c=np.full(2, 1e-40)
    )
    (found,) = inspected(model, tmp_path).findings
    assert found.topic == "subnormal numbers"
    assert (
        "a conversion leaves them as they are: SubnormalToZeroPass takes no effect" in found.to_do
    )


def test_a_model_that_cannot_be_converted_is_looked_over_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise FusioncError("the passes undo each other", hint="")

    monkeypatch.setattr(dry_run, "run", fail)
    model = parse("agraph (float[2,4] x) => (float[2,4] y) { y = HardSwish (x) }")
    assert topics(model, tmp_path) == ["written out when the model is loaded"]


def test_what_is_in_a_function_that_is_inlined_is_still_there(tmp_path: Path) -> None:
    graph = "agraph (uint8[1,1,8,8] x) => (int32[1,1,1,1] y) { y = my.F (x) }"
    model = with_function(graph, "F", "y = ConvInteger (x, x)")
    _, found = inspected(model, tmp_path).findings
    assert found.topic == "convolutions of integers" and "1 ConvInteger" in found.text


def test_the_cost_of_a_run_is_told_with_the_sizes_that_it_assumes(tmp_path: Path) -> None:
    fixed = inspected(parse(TWO), tmp_path)
    assert fixed.cost is not None and fixed.cost.macs == 2 * 2 * 64 * 64
    assert fixed.facts[-1] == ("cost", "16,384 MACs, 32.0 KiB of weights, 1.0 KiB for values")
    free = inspected(parse(TWO.replace("[2,64]", "[N,64]")), tmp_path)
    assert free.cost is not None and free.cost.macs == 2 * 64 * 64
    assert free.facts[-1][1].endswith("512 B for values (with 1 for each open size)")
    assert free.as_json()["cost"]["macs"] == 2 * 64 * 64
