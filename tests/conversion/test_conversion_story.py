"""The whole story, through the Python API and as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from harness import operators, parse

import fusionc
from fusionc.attempt.asked_model import AskedModel
from fusionc.conversion import conversion_story, save_if_right
from fusionc.passes.convolution.conv2d_transpose_batchnorm_fusion import (
    Conv2DTransposeBatchnormFusionPass,
)
from fusionc.passes.convolution.conv_batchnorm_fusion import ConvBatchnormFusionPass
from fusionc.report import stage_times
from fusionc.rewrite import Match, Tape
from fusionc.runtime.run_errors import Overdue

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_models"
SWITCHES = sorted((ROOT / "switch_configs").glob("*.json"))
# nodes before and after the default switches; a change of the passes changes these on purpose
EXPECTED = {
    "control_flow": (11, 6),
    "conv_bn": (15, 6),
    "matmul_bias": (15, 3),
    "split_concat": (14, 6),
    "transformer_block": (73, 17),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_samples_become_smaller_and_stay_right(name: str) -> None:
    report = fusionc.convert(SAMPLES / f"{name}.onnx", output="out.onnx")
    assert (report.nodes_before, report.nodes_after) == EXPECTED[name]
    assert report.verification is not None and report.verification.startswith("equal")
    assert sum(operators(onnx.load("out.onnx")).values()) == report.nodes_after
    again = fusionc.convert("out.onnx", output="again.onnx", verify=False)
    assert again.effected == 0


@pytest.mark.parametrize("switches", SWITCHES, ids=lambda p: p.stem)
@pytest.mark.parametrize("name", EXPECTED)
def test_every_switch_file_works(name: str, switches: Path) -> None:
    report = fusionc.convert(
        SAMPLES / f"{name}.onnx", output="out.onnx", fusion_switch_file=switches
    )
    assert report.output is not None and report.output.exists()
    if switches.stem == "all_off":
        assert onnx.load("out.onnx") == onnx.load(SAMPLES / f"{name}.onnx")
    if switches.stem in ("portable", "all_off"):
        assert all(count.kind == "GraphFusion" for count in report.patterns)


def test_the_only_batchnorm_that_is_left_has_no_convolution() -> None:
    fusionc.convert(SAMPLES / "conv_bn.onnx", output="out.onnx")
    assert "BatchNormalization" not in operators(onnx.load("out.onnx"))


def test_a_wrong_rewrite_is_named_and_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Conv2DTransposeBatchnormFusionPass.rewrite

    def wrong(self: Conv2DTransposeBatchnormFusionPass, m: Match, new: Tape) -> Any:
        result = right(self, m, new)
        return new.Mul(result, new.const(np.float32(1.01)))

    monkeypatch.setattr(Conv2DTransposeBatchnormFusionPass, "rewrite", wrong)
    with pytest.raises(fusionc.VerificationError) as caught:
        fusionc.convert(SAMPLES / "conv_bn.onnx", output="out.onnx")
    error = caught.value
    assert "Conv2DTransposeBatchnormFusionPass, pattern ConvTransposeBatchnorm" in error.where
    assert "Conv2DTransposeBatchnormFusionPass:off" in error.hint and error.exit_code == 3
    assert sorted(os.listdir()) == ["log"]


def test_a_result_that_exists_is_not_harmed_by_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    precious = (SAMPLES / "matmul_bias.onnx").read_bytes()
    Path("out.onnx").write_bytes(precious)
    monkeypatch.setattr(ConvBatchnormFusionPass, "rewrite", lambda self, m, new: new.Neg(m.x))
    with pytest.raises(fusionc.FusioncError):
        fusionc.convert(SAMPLES / "conv_bn.onnx", output="out.onnx")
    assert Path("out.onnx").read_bytes() == precious


def test_a_wrong_converter_is_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(proto: onnx.ModelProto, version: int, *_: object) -> onnx.ModelProto:
        next(node for node in proto.graph.node if node.op_type == "Relu").op_type = "Neg"
        return proto

    monkeypatch.setattr("fusionc.requested.requests.raise_opset", wrong)
    with pytest.raises(fusionc.VerificationError) as caught:
        fusionc.convert(SAMPLES / "conv_bn.onnx", output="out.onnx", target_opset=23)
    assert "raised to opset 23" in caught.value.where and not Path("out.onnx").exists()
    assert "raising the opset is at fault, not a pass" in str(caught.value.hint)


def fusionc_command(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fusionc", *map(str, words)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


def test_the_greps_of_the_documentation_find_the_patterns_in_order() -> None:
    done = fusionc_command("convert", "--model", SAMPLES / "conv_bn.onnx")
    assert done.returncode == 0, done.stderr
    grep = """cat log/debug/plog/* | grep "GraphId" | grep -v "effected_times=0" | grep "effected_times=" """
    lines = subprocess.run(grep, shell=True, capture_output=True, text=True).stdout.splitlines()
    assert [line.partition("pattern=")[2] for line in lines] == [
        "PadConv, matched_times=1, effected_times=1.",
        "ConvBatchnorm, matched_times=2, effected_times=2.",
        "ConvTransposeBatchnorm, matched_times=1, effected_times=1.",
        "ConvMul, matched_times=1, effected_times=1.",
        "ConvAdd, matched_times=1, effected_times=1.",
        "ConvActivation, matched_times=2, effected_times=2.",
        "ConvClip, matched_times=1, effected_times=1.",
    ]
    assert [line for line in done.stdout.splitlines() if "effected_times" in line] == lines
    counts = json.loads(Path("fusion_result.json").read_text())["session_and_graph_id_0_0"]
    assert counts["graph_fusion"]["ConvBatchnormFusionPass"] == {
        "effect_times": "2",
        "match_times": "2",
    }


def test_a_pattern_that_another_pass_enabled_is_logged_after_it() -> None:
    text = """agraph (float[1,2,4,4] x) => (float[1,2,4,4] y)
    <float[2,2,1,1] W, float[2] s, float[2] b, float[2] m, float[2] v> {
        c = Conv (x, W) t = Transpose <perm = [0, 2, 3, 1]> (c) u = Transpose <perm = [0, 3, 1, 2]> (t)
        n = BatchNormalization (u, s, b, m, v) y = Relu (n)
    }"""
    onnx.save(parse(text, opset=18), "in.onnx")
    lines = fusionc.convert("in.onnx", output="out.onnx").pattern_lines
    places = [next(at for at, line in enumerate(lines) if f"[{name}]" in line) for name in (
        "TransOpSymmetryEliminationPass", "ConvBatchnormFusionPass"
    )]  # fmt: skip
    assert places == sorted(places)
    times = [line.split()[1][-27:] for line in lines]
    assert times == sorted(set(times))


def test_a_user_s_check_in_three_commands() -> None:
    model = SAMPLES / "transformer_block.onnx"
    assert fusionc_command("convert", "--model", model, "--output", "fused").returncode == 0
    assert fusionc_command("verify", model, "fused.onnx").returncode == 0
    assert fusionc_command("verify", model, SAMPLES / "conv_bn.onnx").returncode == 3


def test_a_reader_that_goes_does_no_harm() -> None:
    """As in `fusionc convert … | head -1`: the model is written, and the exit code says so."""
    model = os.fspath(SAMPLES / "conv_bn.onnx")
    command = [sys.executable, "-m", "fusionc", "convert", "--model", model, "--output", "fused"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b"" and process.wait() == 0
    assert Path("fused.onnx").exists()


GUARDED = """agraph (float[B,3,8] q, float[B,3,8] k, bool[B,1,3,3] seen) => (float[B,3,8] y)
    <float c = {0.5}, float zero = {0}, float far = {-inf}, int64[4] heads = {0,0,2,4}, int64[3] merged = {0,0,8}> {
    r = Reshape (q, heads) a = Transpose <perm = [0, 2, 1, 3]> (r) u = Reshape (k, heads)
    b = Transpose <perm = [0, 2, 3, 1]> (u) d = Transpose <perm = [0, 2, 1, 3]> (u)
    s = MatMul (a, b) t = Mul (s, c) m = Where (seen, zero, far) z = Add (t, m) x = Softmax <axis = -1> (z)
    n = IsNaN (x) p = Where (n, zero, x) o = MatMul (p, d) h = Transpose <perm = [0, 2, 1, 3]> (o)
    y = Reshape (h, merged) }"""


def test_what_is_for_finite_numbers_is_verified_with_these_only() -> None:
    onnx.save(parse(GUARDED), "in.onnx")
    report = fusionc.convert("in.onnx", output="out.onnx")
    assert "MultiHeadAttention" in report.operators_after
    assert report.verification is not None and report.verification.startswith("equal in 5 runs")
    assert (
        "NaN and Inf left out, for which MultiHeadAttentionFusionPass may give other results"
        in report.verification
    )
    report = fusionc.convert(
        "in.onnx", output="out.onnx", optimization_switch="MultiHeadAttentionFusionPass:off"
    )
    assert report.verification == "equal in 7 runs"


def test_the_stages_account_for_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked to change is prepared, and written for the verification; a large model takes
    time to save.
    """
    clock = iter(range(1_000_000))
    slow = {"reference": 0, "save": 0, "publish": 0}

    def taking(name: str, seconds: int, work: Any) -> Any:
        def slowly(*arguments: Any, **named: Any) -> Any:
            slow[name] += 1
            for _ in range(seconds):
                next(clock)
            return work(*arguments, **named)

        return slowly

    for module in (conversion_story, stage_times):
        monkeypatch.setattr(module, "perf_counter", lambda: float(next(clock)))
    monkeypatch.setattr(AskedModel, "reference", taking("reference", 1000, AskedModel.reference))
    monkeypatch.setattr(save_if_right, "save", taking("save", 200, save_if_right.save))
    monkeypatch.setattr(save_if_right, "published", taking("publish", 30, save_if_right.published))
    report = fusionc.convert(SAMPLES / "conv_bn.onnx", output="out.onnx", out_nodes="features")
    assert list(report.stages) == ["load", "prepare", "fuse", "save", "verify"]
    assert report.stages["prepare"] > 1000 and 230 < report.stages["save"] < 300
    assert slow["save"] == 1 and report.seconds - sum(report.stages.values()) < 60


def test_help_and_completion_know_the_names_that_are_imported_on_first_use() -> None:
    program = "import fusionc; print(set(fusionc.__all__) - set(dir(fusionc)))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("place", ["a pass", "elsewhere"])
def test_a_limit_that_is_too_short_is_no_fault_of_the_model(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def overdue(*_: object) -> None:
        raise Overdue("it takes longer than 0.001 s")

    owner, name = (
        (ConvBatchnormFusionPass, "rewrite") if place == "a pass" else (conversion_story, "attempt")
    )
    monkeypatch.setattr(owner, name, lambda *_, **__: overdue())
    with pytest.raises(fusionc.FusioncError) as caught:
        fusionc.convert(SAMPLES / "conv_bn.onnx", output="out.onnx")
    assert caught.value.what == "onnxruntime is too slow: it takes longer than 0.001 s"
    assert caught.value.hint == "give it more seconds" and not Path("out.onnx").exists()


def test_the_default_result_can_be_quantized_by_onnxruntime(in_a_folder_of_its_own: None) -> None:
    """It needs the types behind onnxruntime's own operators, which it does not infer itself."""
    from onnxruntime.quantization import quantize_dynamic

    model = parse("""agraph (float[N,S,8] x) => (float[N,S,8] y) <float[8,32] W, float[32,8] V> {
        h = MatMul (x, W) e = Sigmoid (h) k = Mul (h, e) p = MatMul (k, V) y = Neg (p) }""")
    onnx.save(model, "model.onnx")
    fusionc.convert("model.onnx", output="out.onnx")
    assert "QuickGelu" in [node.op_type for node in onnx.load("out.onnx").graph.node]
    quantize_dynamic("out.onnx", "quantized.onnx")
    assert [node.op_type for node in onnx.load("quantized.onnx").graph.node].count(
        "MatMulInteger"
    ) == 2


def unknown_operator() -> str:
    """The path of a model that onnxruntime cannot run."""
    onnx.save(parse("g (float[2] x) => (float[2] y) { y = mine.Unknown (x) }"), "unknown.onnx")
    return "unknown.onnx"


def test_a_result_that_nothing_verifies_has_an_exit_code_of_its_own() -> None:
    source = unknown_operator()
    command = [sys.executable, "-m", "fusionc"]
    done = run_command(*command, "convert", "--model", source)
    assert done.returncode == 4 and Path("unknown_fusionc.onnx").exists()
    assert done.stderr.startswith("NOT VERIFIED: onnxruntime cannot load unknown.onnx: ")
    assert done.stderr.count("\n") == 1 and "run success" not in done.stdout
    again = run_command(*command, "convert", "--model", source, "--no-verify")
    assert (again.returncode, again.stderr) == (0, "")
    compared = run_command(*command, "verify", source, "unknown_fusionc.onnx")
    assert compared.returncode == 4 and compared.stderr.startswith("NOT VERIFIED: onnxruntime")


def test_a_result_that_must_be_verified_is_not_written_without() -> None:
    source = unknown_operator()
    assert fusionc.convert(source, output="written.onnx").unverified
    with pytest.raises(fusionc.UnverifiedError, match="nothing of the result could be verified"):
        fusionc.convert(source, output="out.onnx", require_verification=True)
    assert not Path("out.onnx").exists() and not list(Path().glob(".*"))
    with pytest.raises(fusionc.UsageError, match="the verification is off"):
        fusionc.convert(source, require_verification=True, verify=False)


def test_a_result_that_is_verified_in_part_is_verified() -> None:
    report = fusionc.convert(SAMPLES / "conv_bn.onnx", output="out.onnx", verify_budget=1e-9)
    assert report.verification is not None and report.verification.startswith("verified in part")
    assert report.unverified == ""


@pytest.mark.parametrize(
    ("options", "may"),
    [
        ({}, True),
        ({"enable_graph_kernel": True}, False),
        ({"enable_graph_kernel": False}, False),
        ({"graph_kernel_flags": "--opt_level=2"}, False),
        ({"graph_kernel_flags": "--disable_pass=IdentityPass"}, True),
        ({"target": "onnx"}, False),
    ],
)
def test_kernels_are_recommended_where_they_are_possible_and_not_excluded(
    options: dict[str, Any], may: bool
) -> None:
    report = fusionc.convert(SAMPLES / "control_flow.onnx", output="o", verify=False, **options)
    assert report.may_get_kernels is may


def run_command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False)
