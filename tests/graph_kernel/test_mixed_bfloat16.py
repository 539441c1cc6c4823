"""--precision_mode_v2=mixed_bfloat16 through the whole conversion: two verdicts, a bound, products
that stay in float32 because they break it or because the user says so.
"""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import fusionc
from fusionc.errors import UsageError, VerificationError
from fusionc.report.table import show_report
from fusionc.runtime import processor

MODE = {"enable_graph_kernel": True, "precision_mode_v2": "mixed_bfloat16"}
NO_EFFECT = (
    "--precision_mode_v2=mixed_bfloat16 has no effect: no kernel multiplies numbers of float32"
)
CHANNELS = 64
OFFSET = 1000.0  # whose last digit in bfloat16 is 4
needs_bfloat16 = pytest.mark.skipif(
    not processor.has_bfloat16(), reason="the processor has no bfloat16"
)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FUSIONC_PROCESS_LOG_PATH", str(tmp_path / "log"))
    rng = np.random.default_rng(0)
    np.savez("in.npz", x=rng.standard_normal((1, CHANNELS, 28, 28)).astype(np.float32))


def network(planted: str = "") -> onnx.ModelProto:
    """Two convolutions in a row, or four with a planted fault in the third, whose result is the
    usual one in float32: "digits", it takes the difference of large numbers; "overflow", it has a
    weight that bfloat16 rounds to infinity.
    """
    rng = np.random.default_rng(1)
    tensors = list[onnx.TensorProto]()
    nodes = list[onnx.NodeProto]()
    last = "x"
    for number in range(4 if planted else 2):
        w = rng.standard_normal((CHANNELS, CHANNELS, 3, 3)).astype(np.float32) / 24
        b = np.zeros(CHANNELS, np.float32)
        if planted == "digits" and number == 1:
            b[:2] = OFFSET
        if planted == "digits" and number == 2:
            w[:, :2] = 0
            w[:, 0, 1, 1] = 1
            w[:, 1, 1, 1] = -1
        if planted == "overflow" and number == 2:
            w[0, 0, 1, 1] = np.finfo(np.float32).max
        if planted == "overflow" and number == 1:
            w[0] = 0
            b[0] = 1.2e-38
        tensors += [
            numpy_helper.from_array(w, f"w{number}"),
            numpy_helper.from_array(b, f"b{number}"),
        ]
        inputs = [last, f"w{number}", f"b{number}"]
        nodes.append(
            helper.make_node("Conv", inputs, [f"c{number}"], f"conv{number}", pads=[1] * 4)
        )
        nodes.append(helper.make_node("Relu", [f"c{number}"], [f"r{number}"], f"relu{number}"))
        last = f"r{number}"
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, CHANNELS, 28, 28])
        for name in ("x", last)
    ]
    graph = helper.make_graph(nodes, "network", ports[:1], ports[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.checker.check_model(model)
    return model


def result(kernels: bool) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    if kernels:
        fusionc.register_kernels(options, "out.onnx")
    session = onnxruntime.InferenceSession("out.onnx", options, providers=["CPUExecutionProvider"])
    made: np.ndarray = session.run(None, dict(np.load("in.npz")))[0]
    return made


@needs_bfloat16
@pytest.mark.usefixtures("needs_a_compiler")
def test_two_verdicts() -> None:
    onnx.save(network(), "in.onnx")
    report = fusionc.convert("in.onnx", output="out.onnx", inputs="in.npz", **MODE)
    assert report.verification is not None
    without, _, with_them = report.verification.partition("; with them, in bfloat16: ")
    assert without.startswith("without generated kernels: equal")
    assert with_them.startswith("within the bound (cosine 0.999) on 1 samples")
    assert not any("float32" in notice for notice in report.notices)
    plain = result(False)
    narrow = result(True)
    distance = np.abs(plain - narrow).max() / np.abs(plain).max()
    assert 1e-4 < distance < 0.02
    assert {v.type.tensor_type.elem_type for v in onnx.load("out.onnx").graph.output} == {1}


@needs_bfloat16
@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("planted", ["digits", "overflow"])
def test_a_planted_layer_stays_in_float32(planted: str) -> None:
    onnx.save(network(planted), "in.onnx")
    report = fusionc.convert(
        "in.onnx", output="out.onnx", inputs="in.npz", precision_error=0.02, **MODE
    )
    kept = [notice for notice in report.notices if "stays in float32" in notice]
    assert len(kept) == 1 and kept[0].startswith("conv2 stays in float32: ")
    assert report.in_float32 == ["conv2"]
    assert report.verification is not None and "within the bound (0.02)" in report.verification
    plain = result(False)
    narrow = result(True)
    assert 1e-5 < np.abs(plain - narrow).max() / np.abs(plain).max() <= 0.02
    Path("keep.txt").write_text("\n".join(report.in_float32))
    again = fusionc.convert(
        "in.onnx", output="kept.onnx", inputs="in.npz", keep_dtype="keep.txt", **MODE
    )
    assert not any("float32" in notice or "names" in notice for notice in again.notices)
    assert Path("kept.onnx").read_bytes() == Path("out.onnx").read_bytes()


@needs_bfloat16
@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("line", ["OpType::Conv", "\n".join(f"conv{k}" for k in range(2))])
def test_what_the_user_keeps(line: str) -> None:
    onnx.save(network(), "in.onnx")
    Path("keep.txt").write_text(f"{line}\n\nOpType::Nothing\n")
    report = fusionc.convert("in.onnx", output="out.onnx", keep_dtype="keep.txt", **MODE)
    assert "--keep_dtype: the model does not have OpType::Nothing" in report.notices
    (told,) = (notice for notice in report.notices if "bfloat16" in notice)
    assert told == f"{NO_EFFECT} except those that --keep_dtype keeps"
    assert report.verification is not None and "bfloat16" not in report.verification
    assert np.allclose(result(False), result(True), rtol=1e-3, atol=1e-5)


@needs_bfloat16
@pytest.mark.usefixtures("needs_a_compiler")
def test_a_bound_that_no_product_keeps() -> None:
    onnx.save(network(), "in.onnx")
    report = fusionc.convert(
        "in.onnx", output="out.onnx", inputs="in.npz", precision_error=1e-6, **MODE
    )
    assert sum("stays in float32" in notice for notice in report.notices) == 2
    assert sorted(report.in_float32) == [f"conv{number}" for number in range(2)]
    text = StringIO()
    show_report(report, text)
    listed = [line.split() for line in text.getvalue().splitlines() if "in float32" in line]
    assert [line[-1] for line in listed if line[:2] == ["in", "float32"]] == report.in_float32
    no_effect = "--precision_mode_v2=mixed_bfloat16 has no effect: all products stay in float32"
    assert no_effect in report.notices
    assert np.allclose(result(False), result(True), rtol=1e-3, atol=1e-5)


def test_it_needs_kernels() -> None:
    onnx.save(network(), "in.onnx")
    with pytest.raises(UsageError, match="none are generated") as error:
        fusionc.convert("in.onnx", precision_mode_v2="mixed_bfloat16")
    assert (error.value.hint, error.value.code) == ("add --enable_graph_kernel", "E10001")


def test_other_modes() -> None:
    with pytest.raises(UsageError, match="precision_mode_v2"):
        fusionc.convert("in.onnx", enable_graph_kernel=True, precision_mode_v2="mixed_hif8")


def test_a_processor_without_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSIONC_KERNELS_WITHOUT", "bf16")
    processor.has_bfloat16.cache_clear()
    try:
        onnx.save(network(), "in.onnx")
        report = fusionc.convert("in.onnx", output="out.onnx", verify=False, **MODE)
        assert any("changes nothing" in notice for notice in report.notices)
    finally:
        processor.has_bfloat16.cache_clear()


@pytest.mark.usefixtures("needs_a_compiler")
def test_without_inputs() -> None:
    onnx.save(network(), "in.onnx")
    report = fusionc.convert("in.onnx", output="out.onnx", **MODE)
    expected = "real ones with --inputs" if processor.has_bfloat16() else "changes nothing"
    assert any(expected in notice for notice in report.notices)


@needs_bfloat16
@pytest.mark.usefixtures("needs_a_compiler")
def test_a_model_that_has_kernels_of_bfloat16() -> None:
    """It is judged as the conversion that made the kernels was."""
    onnx.save(network(), "in.onnx")
    fusionc.convert("in.onnx", output="out.onnx", inputs="in.npz", **MODE)
    report = fusionc.convert("out.onnx", output="again.onnx", inputs="in.npz")
    assert report.verification is not None
    assert "with them, in bfloat16: within the bound (cosine 0.999)" in report.verification
    with pytest.raises(VerificationError, match="compute in bfloat16: beyond") as error:
        fusionc.convert("out.onnx", output="more.onnx", inputs="in.npz", precision_error=1e-6)
    assert error.value.where == "out.kernels.so" and "convert the original" in error.value.hint
    assert not Path("more.onnx").exists()


@needs_bfloat16
@pytest.mark.usefixtures("needs_a_compiler")
def test_kernels_whose_products_all_stay_in_float32_are_those_of_float32() -> None:
    onnx.save(network(), "in.onnx")
    Path("keep.txt").write_text("OpType::Conv")
    fusionc.convert("in.onnx", output="out.onnx", keep_dtype="keep.txt", **MODE)
    fusionc.convert("in.onnx", output="usual.onnx", enable_graph_kernel=True)
    assert Path("out.onnx").read_bytes() == Path("usual.onnx").read_bytes()
    report = fusionc.convert("out.onnx", output="again.onnx")
    assert report.verification is not None and "bfloat16" not in report.verification


@needs_bfloat16
@pytest.mark.usefixtures("needs_a_compiler")
def test_nothing_to_multiply_in_bfloat16() -> None:
    """Each message about bfloat16 comes once, and none about what it costs."""
    onnx.save(network(), "in.onnx")
    for options in (
        {"target": "onnx"},
        {"optimization_switch": "BlockedConvolutionFusionPass:off"},
    ):
        report = fusionc.convert("in.onnx", output="out.onnx", **{**MODE, **options})
        assert [notice for notice in report.notices if "bfloat16" in notice] == [NO_EFFECT]


@needs_bfloat16
@pytest.mark.usefixtures("needs_a_compiler")
def test_the_cost_is_not_measured_without_verification() -> None:
    onnx.save(network(), "in.onnx")
    report = fusionc.convert("in.onnx", output="out.onnx", verify=False, **MODE)
    (told,) = (notice for notice in report.notices if "bfloat16" in notice)
    assert told == "what bfloat16 costs is not measured, because --no-verify is given"
    again = fusionc.convert("out.onnx", output="again.onnx", **MODE)
    assert [notice for notice in again.notices if "bfloat16" in notice] == [
        "--precision_mode_v2=mixed_bfloat16 has no effect: the model has kernels already",
        "what bfloat16 costs is measured on random inputs; give real ones with --inputs",
    ]
