"""Real models: those that onnx ships, exports of modern ones, and those on which onnxruntime tests
its own fusions.

All of them in every configuration: `make sweep`. What lies in ../shared is skipped where that
folder is absent.
"""

from __future__ import annotations

import importlib.util
import os
from collections import Counter
from pathlib import Path

import onnx
import pytest
from harness import all_nodes, effected, optimize

import fusionc
from fusionc.passes import PASSES

ROOT = Path(__file__).parents[1]
LIGHT = sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("*.onnx"))
SHARED = ROOT.parent / "shared"
DEFAULT = [p for p in PASSES if p.default != "off"]
pytestmark = pytest.mark.long
in_shared = pytest.mark.skipif(not SHARED.is_dir(), reason=f"{SHARED} is not there")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FUSIONC_PROCESS_LOG_PATH", str(tmp_path / "log"))


def hydrate(name: str, path: str) -> None:
    """Write a model of ../shared with weights."""
    recipe = SHARED / "models/skeleton.py"
    spec = importlib.util.spec_from_file_location("skeleton", recipe)
    assert spec is not None and spec.loader is not None
    skeleton = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(skeleton)
    skeleton.hydrate(onnx.load(SHARED / f"models/{name}.onnx"), os.fspath(Path(path)))


def batchnorms_behind_convolutions(model: onnx.ModelProto) -> int:
    makers = {name: node.op_type for node in model.graph.node for name in node.output}
    return sum(
        node.op_type == "BatchNormalization" and makers.get(node.input[0]) == "Conv"
        for node in model.graph.node
    )


def test_there_are_nine_light_models() -> None:
    assert len(LIGHT) == 9


@pytest.mark.parametrize("path", LIGHT, ids=lambda p: p.stem)
def test_light_models_lose_every_batch_normalization_behind_a_convolution(path: Path) -> None:
    model = onnx.load(path)
    assert optimize(model, [])[0] == model
    result, counts = optimize(model, DEFAULT)
    assert batchnorms_behind_convolutions(result) == 0
    assert effected(counts) > 0 or len(result.graph.node) == len(model.graph.node)


@pytest.mark.parametrize("name", ["light_squeezenet", "light_shufflenet"])
def test_light_models_are_verified(name: str) -> None:
    path = next(p for p in LIGHT if p.stem == name)
    report = fusionc.convert(path, output="out.onnx")
    assert report.verification.startswith("equal") and report.nodes_after <= report.nodes_before


# Exports without their weights: what they have to become at most, counting all nodes.
EXPORTS = {
    "bnzoo-ts-s": 38,
    "dlrm-ts-b": 96,
    "ifloop-ts": 12,
    "localfn": 27,
    "lstm-ts-s": 11,
    "mlp_bn-ts-b": 23,
    "groupsplit-dyn-s": 17,
}


@in_shared
@pytest.mark.parametrize("name", EXPORTS)
def test_exports_become_small_and_stay_right(name: str) -> None:
    hydrate(name, "in.onnx")
    report = fusionc.convert("in.onnx", output="out.onnx")
    assert report.verification.startswith("equal") and report.nodes_after <= EXPORTS[name]
    in_memory, _ = fusionc.optimize(onnx.load("in.onnx"), verify=False)
    assert in_memory.SerializeToString() == Path("out.onnx").read_bytes()


@in_shared
@pytest.mark.parametrize(
    ("dynamic", "static"), [("unet-dyn-b", "unet-dyn-s"), ("bnzoo-dyn-raw", "bnzoo-dyn-s")]
)
def test_exports_with_fixed_sizes_become_as_small_as_static_ones(dynamic: str, static: str) -> None:
    for name in (dynamic, static):
        hydrate(name, f"{name}.onnx")
    inputs = onnx.load(f"{static}.onnx").graph.input
    sizes = {
        value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in inputs
    }
    _, expected = fusionc.optimize(f"{static}.onnx", verify=False)
    _, report = fusionc.optimize(f"{dynamic}.onnx", verify=False, input_shape=sizes)
    assert report.nodes_after <= expected.nodes_after


# Models of onnxruntime's own tests that name a fusion which is one here, and the pass that has to
# find it. The others name a fusion that is not portable, or that needs a newer opset than they
# have.
NAMED = {
    "cast_elimination.onnx": "CastRemovePass",
    "constant-subgraph.onnx": "SwitchDeadBranchElimination",
    "expand_elimination.onnx": "NoUseReshapeRemovePass",
    "fusion/bias_gelu_fusion.onnx": "GeluFusionPass",
    "fusion/conv_relu.onnx": "TbeConvElemwiseFusionPass",
    "fusion/conv_clip11.onnx": "TbeConvElemwiseFusionPass",
    "fusion/conv_hardsigmoid.onnx": "TbeConvElemwiseFusionPass",
    "fusion/conv_leakyrelu.onnx": "TbeConvElemwiseFusionPass",
    "fusion/conv_sigmoid.onnx": "TbeConvElemwiseFusionPass",
    "fusion/conv_tanh.onnx": "TbeConvElemwiseFusionPass",
    "fusion/fuse-conv-add-no-bias.onnx": "AABiasaddConvFusion",
    "fusion/fuse-conv-add-mul-3d-2.onnx": "ConvScaleFusionPass",
    "fusion/fuse-conv-bn-no-bias.onnx": "ConvBatchnormFusionPass",
    "fusion/fuse-conv-bn-add-mul-float16.onnx": "ConvBatchnormFusionPass",
    "fusion/fuse-conv-bn-mul-add-unsqueeze.onnx": "ConvBatchnormFusionPass",
    "fusion/fuse-conv-mul-no-bias.onnx": "ConvScaleFusionPass",
    "fusion/fuse-matmul-bn-directly.onnx": "GemmScaleFusionPass",
    "fusion/fuse-pad-conv.onnx": "PadConv2dFusionPass",
    "fusion/fuse-pad-nopadsconv.onnx": "PadConv2dFusionPass",
    "fusion/dynamic_quantize_matmul.onnx": "InferenceQbmmAddFusionPass",
    "fusion/dynamic_quantize_matmul_bias.onnx": "InferenceQbmmAddFusionPass",
    "fusion/fast_gelu_with_bias.onnx": "BiasGeluFusionPass",
    "fusion/gelu.onnx": "BiasGeluFusionPass",
    "fusion/gelu_opset20.onnx": "GeluFusionPass",
    "fusion/matmul_integer_to_float.onnx": "InferenceQbmmAddFusionPass",
    "fusion/matmul_scale_in0_in1_out.onnx": "TransposeScaleMatMulFusionPass",
    "fusion/transpose_matmul_4d_fusion.onnx": "TransposeScaleMatMulFusionPass",
    "fusion/gemm_sum_basic.onnx": "MatMulBiasAddFusionPass",
    "fusion/gemm_transpose_2inputs_transposed.onnx": "BatchMatMulFusionPass",
    "fusion/relu_clip_fusion_gh_issue_9753.onnx": "ClipFusionPass",
    "fusion/reshape_fusion_input_is_graph_input.onnx": "ShapeReshapePass",
    "fusion/reshape_fusion_concat_subgraph.onnx": "DimensionComputePass",
    "gemm_activation_fusion/gemm_activation_fusion.onnx": "ATbeMatMulElemwiseFusionPass",
    "matmul_add_fusion/2Input/model.onnx": "MatMulBiasAddFusionPass",
    "propagate_cast/fuse_back2back_casts_float16_float16.onnx": "CastRemovePass",
    "slice-v11-elim.onnx": "NoUseReshapeRemovePass",
    "transpose_to_reshape_valid.onnx": "Dim1TransposeToSqueezePass",
}


@in_shared
@pytest.mark.parametrize("name", NAMED)
def test_the_fusion_that_a_model_is_named_after_is_found(name: str) -> None:
    (path,) = (
        p
        for p in (SHARED / "peer_models").rglob(Path(name).name)
        if os.fspath(p).endswith(f"/{name}")
    )
    _, counts = optimize(onnx.load(path), DEFAULT)
    assert NAMED[name] in {count.pass_name for count in counts if count.effected}


@in_shared
def test_what_optimizers_get_wrong_is_not_made_larger() -> None:
    """No model of onnxruntime's tests has more nodes afterwards."""
    grown = []
    for path in sorted((SHARED / "peer_models/fusion").glob("*.onnx")):
        model = onnx.load(path)
        before, after = (
            Counter(n.op_type for n in all_nodes(m)) for m in (model, optimize(model, DEFAULT)[0])
        )
        if sum(after.values()) > sum(before.values()):
            grown.append((path.name, before, after))
    assert not grown
