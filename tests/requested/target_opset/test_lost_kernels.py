"""What onnxruntime has no kernel for at a newer opset is named, or refused, and never advised."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import pytest
from harness import parse

import fusionc
from fusionc.errors import UsageError
from fusionc.requested.target_opset import (
    LostKernel,
    latest_opset,
    loses_kernels,
    newest_opset,
    raise_opset,
)

QKV = "float[B,2,S,4] q, float[B,2,S,4] k, float[B,2,S,4] v"
ATTENTION = f"agraph ({QKV}) => (float[B,2,S,4] y) {{ y = Attention (q, k, v) }}"
pytestmark = [
    pytest.mark.skipif(newest_opset() < 25, reason="this onnxruntime does not know opset 25"),
    pytest.mark.usefixtures("in_a_folder_of_its_own"),
]


def lost(text: str, opset: int, version: int) -> Sequence[LostKernel]:
    found = list[LostKernel]()
    raise_opset(parse(f"agraph {text}", opset), version, tell=found.append)
    return found


def test_a_kernel_that_is_lost_is_told() -> None:
    onnx.save(parse(ATTENTION, 23), "in.onnx")
    report = fusionc.convert("in.onnx", output="out.onnx", target_opset=25)
    said = "onnxruntime has no kernel for Attention of opset 25 and runs the operators of its ONNX definition one by one"
    assert [
        notice
        for notice in report.notices
        if said in notice and "--target_opset 24 keeps it" in notice
    ]
    assert report.verification is not None
    assert (
        "NaN and Inf left out, for which Attention of opset 25 may give other results"
        in report.verification
    )
    report = fusionc.convert("in.onnx", output="out.onnx", target_opset=24)
    assert not report.notices and report.verification == "equal in 7 runs"


TYPES = [
    pytest.param(
        "float16",
        12,
        [LostKernel("Dropout", 12, "computes this operator in float between Casts")],
        id="float16",
    ),
    pytest.param("float", 12, [], id="float"),
    pytest.param("float16", 11, [], id="no newer operator"),
]


@pytest.mark.parametrize(("kind", "version", "expected"), TYPES)
def test_by_element_types(kind: str, version: int, expected: Sequence[LostKernel]) -> None:
    assert (
        lost(f"({kind}[N] x) => ({kind}[N] y) {{ a = Identity (x) y = Dropout (a) }}", 10, version)
        == expected
    )


def test_in_subgraphs() -> None:
    text = f"""({QKV}, bool c) => (float[B,2,S,4] y) {{ y = If (c)
        <then_branch = t () => (float[B,2,S,4] p) {{ p = Attention (q, k, v) }},
         else_branch = e () => (float[B,2,S,4] r) {{ r = Neg (q) }}> }}"""
    assert [kernel.op for kernel in lost(text, 23, 25)] == ["Attention"]


@pytest.mark.parametrize(
    ("opset", "version", "hint"), [(17, 22, "give at most 21"), (20, 22, "give at most 21")]
)
def test_what_would_not_run_is_refused(opset: int, version: int, hint: str) -> None:
    model = parse("agraph (float[1,2,6,6] x) => (float[1,2,1,1] y) { y = GlobalLpPool (x) }", opset)
    with pytest.raises(
        UsageError, match="onnxruntime has no kernel for GlobalLpPool of opset 22"
    ) as caught:
        raise_opset(model, version)
    assert caught.value.hint == hint


GELU = "b = Div (n, r)  c = Erf (b)  d = Add (c, one)  e = Mul (n, d)  y = Mul (e, half)"
RMS = "s = Mul (x, x)  v = ReduceMean <axes = [-1]> (s)  w = Add (v, tiny)  q = Sqrt (w)  n = Div (x, q)"


@pytest.mark.parametrize(("pool", "opset"), [("GlobalAveragePool", 23), ("GlobalLpPool", 20)])
def test_no_opset_is_advised_that_loses_a_kernel(pool: str, opset: int) -> None:
    text = f"""agraph (float[N,8] x, float[1,2,6,6] i) => (float[N,8] y, float[1,2,1,1] p) <float r = {{1.4142135}},
        float one = {{1}}, float half = {{0.5}}, float tiny = {{0.00001}}> {{ p = {pool} (i)  {RMS}  {GELU} }}"""
    onnx.save(parse(text, 17), "in.onnx")
    report = fusionc.convert("in.onnx", output="out.onnx", target="onnx", verify=False)
    (advice,) = [notice for notice in report.notices if "would allow" in notice]
    assert advice.startswith(f"--target_opset {opset} would allow: ")


def test_an_opset_that_does_not_change_the_operator_loses_no_kernel() -> None:
    model = parse(ATTENTION, 23)
    assert not loses_kernels(model, 24, "")
    assert loses_kernels(model, 25, "")


def test_the_latest_opset_for_onnxsims_call_costs_no_kernel() -> None:
    result, is_right = fusionc.simplify(parse(ATTENTION, 23), target_opset_version="latest")
    assert is_right and result.opset_import[0].version == 24
    assert latest_opset(parse(ATTENTION.replace("Attention (q, k, v)", "Add (q, k)"), 23), 26) == 26
