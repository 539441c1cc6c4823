"""Constants with names that onnxruntime gives to its own."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime
import pytest
from harness import parse

import fusionc
from fusionc.attempt.runtime_names import avoid_names_of_the_runtime

# MatMulAddFusion makes a Gemm of this product and names the shapes of its Reshapes.
PRODUCT = """agraph (float[1,3,4] x) => (float[3,4] y) <float[4,4] w, float[4] b, int64[2] {name} = {{3, 4}}> {{
    i = Identity (x) p = MatMul (i, w) s = Add (p, b) y = Reshape (s, {name}) }}"""


def loads(path: Path) -> bool:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(str(path), options)
    except Exception:
        return False
    return True


@pytest.mark.parametrize("name", ["gemm_input_shape", "gemm_output_shape"])
def test_a_result_has_no_constant_whose_name_onnxruntime_gives_to_another(
    name: str, tmp_path: Path
) -> None:
    onnx.save(parse(PRODUCT.format(name=name)), tmp_path / "a.onnx")
    assert not loads(tmp_path / "a.onnx")
    fusionc.convert(tmp_path / "a.onnx", output=tmp_path / "b.onnx")
    assert loads(tmp_path / "b.onnx")


def test_branches_read_the_new_name_and_declared_constants_keep_theirs() -> None:
    model = parse("""agraph (float[6] x, bool c, int64[1] gemm_output_shape) => (float[A,B] y)
        <int64[2] gemm_input_shape_token_7 = {2, 3}, int64[1] gemm_output_shape = {1}, int64[2] kept_gemm_input_shape_token_7> {
        y = If (c) <then_branch = t () => (float[A,B] p) { p = Reshape (x, gemm_input_shape_token_7) },
            else_branch = e () => (float[A,B] q) { q = Reshape (x, gemm_input_shape_token_7) }> }""")
    avoid_names_of_the_runtime(model)
    names = [tensor.name for tensor in model.graph.initializer]
    assert names[1] == "gemm_output_shape" and "gemm_input_shape_token_7" not in names
    assert len(set(names)) == 3
    for branch in model.graph.node[0].attribute:
        assert branch.g.node[0].input[1] == names[0]
