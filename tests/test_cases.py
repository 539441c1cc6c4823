"""Small models on which fusionc once fell short: each converts to what its README says.

They are read from ../shared/cases. An own judge compares, beside the verification of the
conversion: the model as it came and the result run in onnxruntime with its optimizers off, on
random values, values at half steps and zeros.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray

import fusionc

CASES = Path(__file__).parents[2] / "shared" / "cases"
pytestmark = [
    pytest.mark.skipif(
        not CASES.is_dir(), reason="the cases lie in ../shared/cases, which is absent"
    ),
    pytest.mark.usefixtures("in_a_folder_of_its_own"),
]
Check = Callable[[onnx.ModelProto, Any], bool]
KERNELS: dict[str, Any] = {"enable_graph_kernel": True}
INTEGERS = {
    onnx.TensorProto.UINT8: np.uint8,
    onnx.TensorProto.INT8: np.int8,
    onnx.TensorProto.INT64: np.int64,
}
FLOATS = {
    onnx.TensorProto.FLOAT: np.float32,
    onnx.TensorProto.FLOAT16: np.float16,
    onnx.TensorProto.DOUBLE: np.float64,
}
TYPES: dict[int, Any] = INTEGERS | FLOATS | {onnx.TensorProto.BOOL: np.bool_}
SIZES = 3


@dataclass(frozen=True)
class Case:
    """One conversion: its options, what its result must be, and how near its outputs must lie."""

    file: str
    options: Mapping[str, Any] = field(default_factory=dict)
    check: Check = lambda model, report: True
    is_exact: bool = False
    is_run: bool = True
    changes_sizes: bool = False


def operators(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def without(*names: str) -> Check:
    return lambda model, report: not set(names) & set(operators(model))


def has(*names: str) -> Check:
    return lambda model, report: set(names) <= set(operators(model))


def opset(version: int) -> Check:
    return lambda model, report: version in [o.version for o in model.opset_import if not o.domain]


def is_told(text: str) -> Check:
    return lambda model, report: any(text in notice for notice in report.notices)


def stays(name: str, version: int) -> Check:
    return lambda model, report: has(name)(model, report) and opset(version)(model, report)


def one_pair_of(quantize: int, dequantize: int) -> Check:
    def check(model: onnx.ModelProto, report: Any) -> bool:
        found = operators(model)
        return found["QuantizeLinear"] <= quantize and found["DequantizeLinear"] <= dequantize

    return check


def not_larger(model: onnx.ModelProto, report: Any) -> bool:
    return model.ByteSize() <= 1.3 * (CASES / "low_precision" / "r34_decomp.onnx").stat().st_size


GROUPS = without("FusedConv", "FusedGemm")
RESULTS = [
    Case("06_qdq_maxpool_22", check=one_pair_of(1, 0)),
    Case("06_qdq_maxpool_22", {"target": "onnx"}, check=one_pair_of(1, 0)),
    Case("23_semicolon_inputs", {"input_shape": {"in_a;in_b:0": (2, 4)}}, changes_sizes=True),
    Case("23_semicolon_inputs", {"output_type": "out;put:0:FP16"}, is_run=False),
    Case("23_semicolon_inputs", {"out_nodes": "out;put:0"}),
    Case("35_matmulnbits_llm", is_run=False),
    Case("35_matmulnbits_llm", {"target_opset": 23}, opset(23), is_run=False),
    Case("35_matmulnbits_llm", {"out_nodes": "gt"}, is_run=False),
    Case("43_dit_attention_casts_f16cast", check=has("MultiHeadAttention")),
    Case("45_attention_raised_slower", {"target_opset": 25}, is_told("Attention")),
    Case("47_opset_before_7", {"target_opset": 13}, opset(13)),
    Case("48_static_batch_override", {"input_shape": {"x": (4, 3, 32, 32)}}, is_run=False),
    Case(
        "49_cut_zipmap",
        {"out_nodes": "output_label;probabilities"},
        without("ZipMap"),
        is_run=False,
    ),
    Case(
        "50b_genai_simplified_layernorm",
        {"target_opset": 23},
        stays("SimplifiedLayerNormalization", 23),
    ),
    Case("51_function_default_leaky", {"target_opset": 20}, opset(20)),
    Case("53_gelu_tail", KERNELS),
    Case("54_function_of_older_opset", {"target_opset": 18}, opset(18)),
    Case("concat_empty", check=has("ReduceSum")),
    Case("concat_empty", {"verify": False}, check=has("ReduceSum")),
    Case("prelu_n1", KERNELS),
    Case("half_cast_identity"),
    Case("sign_half_nan", KERNELS),
    Case("check_int4", {"check_rewrites": True}),
    Case("raise_Softmax_0", {"target_opset": 18}, opset(18)),
    Case("raise_Softmax_n0", {"target_opset": 18}, opset(18)),
    Case("concat_k0", is_run=False),
    Case("scalar_rank", KERNELS),
    Case("elem_for_damaged_cache", KERNELS),
    Case("raise_clip7_float16", {"target_opset": 18}, opset(18)),
    *(
        Case(f"low_precision/{name}", check=GROUPS)
        for name in ("r13_residual", "r35_torchq", "r44_dw_group")
    ),
    *(Case(f"low_precision/{name}", check=GROUPS) for name in ("r39_u8io", "t63_gemm_relu_zp0")),
    Case("low_precision/t60_u8round_a", is_exact=True),
    Case("low_precision/r34_fakequant"),
    Case("low_precision/s54_div_round", is_exact=True),
    Case("low_precision/t61_fq_perch", is_exact=True),
    Case("low_precision/ties16", is_exact=True),
    Case("low_precision/r41_f16_qdq", {"target_opset": 23}, opset(23), is_exact=True),
    Case("low_precision/r05_neg_axis_T", check=without("Gemm")),
    Case("low_precision/r14_sharedbias", check=lambda model, report: operators(model)["Conv"] == 2),
    *(
        Case(f"low_precision/{name}", KERNELS)
        for name in ("r37_ptoken", "r23_skiprms16", "s55_f16_scale2")
    ),
    *(
        Case(f"low_precision/{name}")
        for name in ("t64_mm2d", "t64_mm3d_transW", "r41_mm_s8s8", "s57_mmint_s8s8")
    ),
    *(Case(f"low_precision/{name}") for name in ("s57_convint_pc", "r01_const")),
    Case("low_precision/r34_decomp", check=not_larger),
]


def feeds_of(model: onnx.ModelProto, seed: int) -> dict[str, NDArray[Any]]:
    """Values of one kind for each seed: random ones, half steps of the model's own scales,
    zeros.
    """
    rng = np.random.default_rng(seed)
    sizes = dict[str, int]()
    steps = steps_of(model)
    feeds = dict[str, NDArray[Any]]()
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = [
            d.dim_value if d.HasField("dim_value") else size_of(d, sizes, rng)
            for d in tensor.shape.dim
        ]
        kind = TYPES[tensor.elem_type]
        if kind in INTEGERS.values() or kind is np.bool_:
            values = rng.integers(0, 2 if kind is np.bool_ else 100, shape)
        elif seed % 3 == 2:
            values = np.zeros(shape)
        else:
            values = (
                rng.standard_normal(shape)
                if seed % 3 == 0
                else rng.integers(-40, 40, shape) * rng.choice(steps, shape) / 2
            )
        feeds[value.name] = np.asarray(values, kind)
    return feeds


def steps_of(model: onnx.ModelProto) -> list[float]:
    """The positive constants of a model that may be scales."""
    constants = [t for t in model.graph.initializer if t.data_type in FLOATS]
    values = [onnx.numpy_helper.to_array(t).reshape(-1) for t in constants]
    return [
        float(value) for some in values if some.size <= 64 for value in some if 0 < value < 1
    ] or [0.5]


def size_of(
    dimension: onnx.TensorShapeProto.Dimension, sizes: dict[str, int], rng: np.random.Generator
) -> int:
    return sizes.setdefault(dimension.dim_param, int(rng.integers(1, 1 + SIZES)))


def run(
    model: Path, feeds: Mapping[str, NDArray[Any]], with_kernels: bool = False
) -> list[NDArray[Any]]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    if with_kernels:
        fusionc.register_kernels(options, model)
    return ort.InferenceSession(model, options).run(None, feeds)


def is_near(ours: NDArray[Any], theirs: NDArray[Any], least: Any, is_exact: bool) -> bool:
    if is_exact or ours.dtype.kind not in "fV":
        return bool(np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f"))
    tolerance = 4e-3 if least == np.float16 else 2e-5
    scale = float(np.nanmax(np.abs(ours), initial=1e-3, where=np.isfinite(ours)))
    return bool(np.allclose(theirs, ours, rtol=tolerance, atol=tolerance * scale, equal_nan=True))


@pytest.mark.parametrize(
    "case", RESULTS, ids=lambda case: f"{case.file}-{'-'.join(map(str, case.options))}"
)
def test_a_case_converts_to_what_its_readme_says(
    case: Case, request: pytest.FixtureRequest
) -> None:
    if case.options == KERNELS:
        request.getfixturevalue("needs_a_compiler")
    source = CASES / f"{case.file}.onnx"
    report = fusionc.convert(source, output="out.onnx", **case.options)
    model = onnx.load("out.onnx")
    if case.options.get("verify", True):
        assert report.verification is not None and "equal" in report.verification, (
            report.verification
        )
    assert case.check(model, report), operators(model)
    if case.is_run:
        assert_equal_outputs(source, case)


def assert_equal_outputs(source: Path, case: Case) -> None:
    original = onnx.load(source)
    kinds = {value.type.tensor_type.elem_type for value in original.graph.input}
    least = np.float16 if onnx.TensorProto.FLOAT16 in kinds else np.float32
    declared = onnx.load("out.onnx") if case.changes_sizes else original
    for seed in range(9):
        feeds = feeds_of(declared, seed)
        try:
            expected = run(source, feeds)
        except Exception:  # onnxruntime refuses these sizes
            continue
        for flag in (False, True) if case.options == KERNELS else (False,):
            for ours, theirs in zip(expected, run(Path("out.onnx"), feeds, flag), strict=True):
                assert is_near(np.asarray(ours), np.asarray(theirs), least, case.is_exact), (
                    seed,
                    flag,
                )


def test_areas_that_differ_in_a_scalar_share_their_functions(needs_a_compiler: None) -> None:
    fusionc.convert(
        CASES / "52_many_scalar_areas.onnx",
        output="out.onnx",
        enable_graph_kernel=True,
        verify=False,
    )
    assert len(onnx.load("out.onnx").functions) > 100
    assert Path("out.kernels.so").stat().st_size < 1_000_000


def test_the_preset_exact_is_exact() -> None:
    switches = Path(__file__).parents[1] / "switch_configs" / "exact.json"
    fusionc.convert(CASES / "pow2_last1.onnx", output="out.onnx", fusion_switch_file=switches)
    x = np.random.default_rng(0).standard_normal((2000, 512, 1)).astype(np.float32)
    (ours,) = run(CASES / "pow2_last1.onnx", {"x": x})
    (theirs,) = run(Path("out.onnx"), {"x": x})
    assert np.array_equal(ours, theirs)


def test_a_type_that_cannot_be_raised_says_so_before_anything_is_written() -> None:
    """onnxruntime runs ThresholdedRelu of double by its definition, which is of opset 18: there,
    and nowhere else.
    """
    with pytest.raises(fusionc.FusioncError) as caught:
        fusionc.convert(CASES / "raise_trelu_double.onnx", output="out.onnx", target_opset=23)
    said = "onnxruntime has no kernel for ThresholdedRelu of opset 22 that takes double"
    assert (caught.value.what, caught.value.hint) == (said, "leave the option out")


MODE_3 = [
    pytest.param("50b_genai_simplified_layernorm", 0, id="runs"),
    pytest.param("40_loop_shadowing", 1, id="fails"),
]


@pytest.mark.parametrize(("file", "code"), MODE_3)
def test_mode_3_says_what_onnxruntime_says(file: str, code: int) -> None:
    from click.testing import CliRunner

    from fusionc.cli import main

    done = CliRunner().invoke(
        main, ["convert", "--model", str(CASES / f"{file}.onnx"), "--mode", "3"]
    )
    assert bool(done.exit_code) == bool(code), done.output
