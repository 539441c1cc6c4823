"""Graph kernels through the whole conversion: the files, the log, the dumps, the answers."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from harness import parse, with_function
from models_with_areas import CHAIN, GATE

import fusionc
from fusionc.graph_kernel.flags.file_of_flags import VARIABLE
from fusionc.graph_kernel.flags.stages import CSE, StagePass
from fusionc.graph_kernel.select.simplify import Simplifier
from fusionc.graph_kernel.select.time_estimate import Savings
from fusionc.model.graph import Model


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("FUSIONC_PROCESS_LOG_PATH", str(tmp_path / "log"))
    onnx.save(parse(CHAIN), "in.onnx")


OFF = "SplitConcatFusionPass:off"
SAVED = r"estimated to save -?[\d.]+ µs of a run on one thread, and saves -?[\d.]+ µs$"
STITCHED = "--opt_level=3"  # where the whole of CHAIN is one area


def log_of(report: fusionc.Report) -> str:
    assert report.log_file is not None
    return report.log_file.read_text()


def run(model: str, kernels: bool) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    if kernels:
        fusionc.register_kernels(options, model)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    x = np.linspace(-2, 2, 24, dtype=np.float32).reshape(3, 8)
    result: np.ndarray = session.run(None, {"x": x, "g": np.ones(8, np.float32)})[0]
    return result


def test_it_is_off_by_default() -> None:
    fusionc.convert("in.onnx", output="out.onnx")
    assert not onnx.load("out.onnx").functions and not Path("out.kernels.so").exists()


@pytest.mark.usefixtures("needs_a_compiler")
def test_a_function_and_a_kernel() -> None:
    report = fusionc.convert("in.onnx", output="out.onnx", graph_kernel_flags=STITCHED)
    model = onnx.load("out.onnx")
    assert [node.domain for node in model.graph.node] == ["fusionc.gk"]
    assert [o.version for o in model.opset_import if o.domain == "fusionc.gk"] == [1]
    assert report.nodes_after == 1 and report.kernels == Path("out.kernels.so")
    assert report.verification is not None
    assert report.verification.startswith("with generated kernels and without: equal")
    before = run("in.onnx", kernels=False)
    # the same operators, inside a function
    np.testing.assert_array_equal(run("out.onnx", kernels=False), before)
    # The kernel sums and exponentiates by itself: 3.6e-7 from the operators where the processor
    # fuses multiplication and addition, 4.8e-7 where not, of numbers up to 1.8. Twice that, for
    # processors with longer
    # vectors.
    np.testing.assert_allclose(run("out.onnx", kernels=True), before, rtol=0, atol=1e-6)


@pytest.mark.usefixtures("needs_a_compiler")
def test_an_area_is_switched_off_by_its_name() -> None:
    fusionc.convert("in.onnx", output="out.onnx", graph_kernel_flags=STITCHED)
    (area,) = [node.op_type for node in onnx.load("out.onnx").graph.node]
    report = fusionc.convert(
        "in.onnx", output="off.onnx", graph_kernel_flags=f"{STITCHED} --disable_areas={area}"
    )
    assert area not in [node.op_type for node in onnx.load("off.onnx").graph.node]
    assert any(
        "it is switched off by --disable_areas" in count.refused for count in report.patterns
    )


@pytest.mark.usefixtures("needs_a_compiler")
def test_a_library_goes_with_its_model() -> None:
    fusionc.convert("in.onnx", output="out.onnx", enable_graph_kernel=True)
    assert Path("out.kernels.so").exists()
    fusionc.convert("in.onnx", output="out.onnx")
    assert not Path("out.kernels.so").exists()


def test_an_area_that_does_not_pay_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Savings, "of", lambda self, area: -1e-9)
    report = fusionc.convert("in.onnx", output="out.onnx", enable_graph_kernel=True)
    assert not onnx.load("out.onnx").functions and not Path("out.kernels.so").exists()
    reasons = {reason for count in report.patterns for reason in count.refused}
    reason = "its kernel is estimated to take at least as long as its operators one by one"
    assert reason in reasons
    told = f"has made no area, because every area was refused ({reason})"
    assert any(told in notice for notice in report.notices)


def test_where_there_is_nothing_to_join_it_is_said() -> None:
    report = fusionc.convert(
        "in.onnx", output="out.onnx", graph_kernel_flags="--enable_cluster_ops_only=Exp"
    )
    assert any(
        "has made no area, because no operators fit together" in notice for notice in report.notices
    )
    report = fusionc.convert(
        "in.onnx", output="out.onnx", graph_kernel_flags="--enable_fusion_pattern_only=Reduce"
    )
    assert any('no split pattern has "Reduce" in its name' in notice for notice in report.notices)
    report = fusionc.convert(
        "in.onnx", output="out.onnx", graph_kernel_flags="--disable_simplify_exprs=one"
    )
    assert any('there is no rule "one"' in notice for notice in report.notices)


def test_for_any_runtime_there_are_functions_only() -> None:
    report = fusionc.convert("in.onnx", output="out.onnx", enable_graph_kernel=True, target="onnx")
    assert onnx.load("out.onnx").functions and not Path("out.kernels.so").exists()
    assert report.verification is not None and report.verification.startswith("equal")


def test_without_a_compiler_there_are_functions_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "")
    monkeypatch.setenv("PATH", "")
    report = fusionc.convert("in.onnx", output="out.onnx", enable_graph_kernel=True)
    assert onnx.load("out.onnx").functions and not Path("out.kernels.so").exists()
    assert any("no C compiler" in notice for notice in report.notices)


@pytest.mark.usefixtures("needs_a_compiler")
def test_a_second_conversion_finds_nothing() -> None:
    fusionc.convert("in.onnx", output="out.onnx", enable_graph_kernel=True)
    report = fusionc.convert("out.onnx", output="again.onnx", enable_graph_kernel=True)
    assert report.effected == 0
    assert onnx.load("again.onnx") == onnx.load("out.onnx")
    assert Path("again.kernels.so").read_bytes() == Path("out.kernels.so").read_bytes()
    assert report.verification is not None and report.verification.startswith(
        "with generated kernels and without"
    )


def test_a_folder_where_the_library_would_lie() -> None:
    Path("out.kernels.so").mkdir()
    with pytest.raises(fusionc.UsageError, match="would have the same name as a folder") as caught:
        fusionc.convert("in.onnx", output="out.onnx", enable_graph_kernel=True)
    assert caught.value.where == "out.kernels.so" and not Path("out.onnx").exists()
    fusionc.convert("in.onnx", output="out.onnx")  # which needs no library
    assert Path("out.onnx").exists() and Path("out.kernels.so").is_dir()


def test_a_compiler_that_writes_junk_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = tmp_path / "junk-cc"
    program.write_text(
        '#!/bin/sh\nwhile [ $# -gt 0 ]; do [ "$1" = -o ] && echo junk > "$2"; shift; done\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("CC", str(program))
    with pytest.raises(fusionc.FusioncError, match=r"the C compiler .*junk-cc") as caught:
        fusionc.convert("in.onnx", output="out.onnx", enable_graph_kernel=True)
    assert not isinstance(caught.value, fusionc.VerificationError)
    assert caught.value.where.endswith(".so") and not Path(caught.value.where).exists()
    assert not Path("out.onnx").exists() and not Path("out.kernels.so").exists()


def test_the_library_of_another_machine_is_named() -> None:
    fusionc.convert("in.onnx", output="out.onnx", enable_graph_kernel=True)
    Path("out.kernels.so").write_bytes(b"\x7fELF of another machine")
    with pytest.raises(
        fusionc.FusioncError, match="kernels next to the model cannot be loaded"
    ) as caught:
        fusionc.convert("out.onnx", output="again.onnx", trust_kernels=True)
    assert caught.value.where == "out.kernels.so" and Path("out.kernels.so").exists()
    assert (
        not isinstance(caught.value, fusionc.VerificationError) and not Path("again.onnx").exists()
    )


@pytest.mark.usefixtures("needs_a_compiler")
def test_the_largest_element_may_be_no_number() -> None:
    """onnxruntime lets a NaN through or not, depending on where it lies."""
    text = """agraph (float[N,64] x) => (float[N,1] y) <int64[1] a = {-1}> {
        b = Abs (x)  c = ReduceMax (b, a)  y = Neg (c) }"""
    onnx.save(parse(text, opset=18), "largest.onnx")
    report = fusionc.convert("largest.onnx", output="out.onnx", enable_graph_kernel=True)
    again = fusionc.convert("out.onnx", output="again.onnx")
    assert report.kernels and again.kernels
    assert all("left out" not in str(one.verification) for one in (report, again))


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize(
    "reduced", ["ReduceProd", "ReduceSum", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax"]
)
def test_what_depends_on_the_order_of_a_reduction_stops_no_conversion(reduced: str) -> None:
    for kind in ("float", "float16", "double"):
        text = f"""agraph ({kind}[N,100] x) => ({kind}[N] y) <int64[1] a = {{1}}> {{
            s = Mul (x, x)  b = Add (s, x)  y = {reduced} <keepdims = 0> (b, a) }}"""
        onnx.save(parse(text, opset=18), "reduced.onnx")
        report = fusionc.convert("reduced.onnx", output="out.onnx", enable_graph_kernel=True)
        assert "equal in" in str(report.verification) or kind != "float"


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("op", ["LeakyRelu", "Elu", "HardSigmoid", "Selu", "Celu"])
def test_attributes_that_are_no_numbers_stop_no_conversion(op: str) -> None:
    """Neither in a kernel nor as their definition these are what onnxruntime computes."""
    model = parse(
        f"agraph (float[N,64] x) => (float[N,64] y) {{ a = Sigmoid (x) b = {op} (a) c = Neg "
        f"(b) y = Abs (c) }}"
    )
    for value in (float("nan"), float("inf"), float("-inf")):
        del model.graph.node[1].attribute[:]
        model.graph.node[1].attribute.append(onnx.helper.make_attribute("alpha", value))
        onnx.save(model, "odd.onnx")
        for flags in ("--opt_level=2", f"--enable_expand_ops={op}"):
            fusionc.convert(
                "odd.onnx", output="out.onnx", enable_graph_kernel=True, graph_kernel_flags=flags
            )
            assert op in [node.op_type for node in onnx.load("out.onnx").graph.node]


@pytest.mark.usefixtures("needs_a_compiler")
def test_the_same_bytes_again() -> None:
    for name in ("one", "two"):
        fusionc.convert("in.onnx", output=f"{name}.onnx", enable_graph_kernel=True, verify=False)
    assert Path("one.onnx").read_bytes() == Path("two.onnx").read_bytes()
    assert Path("one.kernels.so").read_bytes() == Path("two.kernels.so").read_bytes()


@pytest.mark.parametrize(
    ("name", "graph"),
    [("TbeReduceElemwiseFusionPass", CHAIN), ("TbeEltwiseFusionPass", GATE)],
)
def test_switches_of_the_passes(name: str, graph: str) -> None:
    onnx.save(parse(graph), "in.onnx")
    flags = {"enable_graph_kernel": True, "graph_kernel_flags": STITCHED}
    report = fusionc.convert("in.onnx", output="out.onnx", export_compile_stat=1, **flags)
    line = next(line for line in report.pattern_lines if f"UBFusionPass[{name}]" in line)
    assert "pattern=area, matched_times=1, effected_times=1." in line
    assert json.loads(Path("fusion_result.json").read_text())["session_and_graph_id_0_0"][
        "ub_fusion"
    ][name]
    off = {
        "switch": {**flags, "optimization_switch": f"{name}:off"},
        "flag": {"graph_kernel_flags": f"{STITCHED} --disable_pass={name}"},
    }
    for how in off.values():
        report = fusionc.convert("in.onnx", output="out.onnx", **how)
        assert not onnx.load("out.onnx").functions
        (notice,) = report.notices
        assert notice.startswith(
            f"graph kernel fusion has made no area, because {name} is off (areas that would fit: 1)"
        )
        assert "no operators fit together" not in notice


@pytest.mark.parametrize("stage", ["cluster.graph_kernel_cluster", "3.4"])
def test_a_stage_that_is_off_is_why_there_is_no_area(stage: str) -> None:
    flags = f"{STITCHED} --disable_pass={stage}"
    (notice,) = fusionc.convert("in.onnx", output="out.onnx", graph_kernel_flags=flags).notices
    name = {"3.4": "split.graph_kernel_splitter"}.get(stage, stage)
    assert notice.startswith(
        f"graph kernel fusion has made no area, because the stage pass {name} is off;"
    )


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize(
    ("name", "call", "opset"),
    [
        ("Softmax", "Softmax (a)", 20),
        ("LogSoftmax", "LogSoftmax (a)", 20),
        ("LayerNorm", "LayerNormalization (a, g)", 20),
        ("RMSNormalization", "RMSNormalization (a, g)", 23),
        ("SoftmaxCrossEntropyWithLogits", "SoftmaxCrossEntropyLoss (a, l)", 20),
        ("FastGelu", "com.microsoft.FastGelu (a)", 20),
    ],
)
def test_an_operator_that_is_not_expanded_is_said(
    name: str, call: str, opset: int, level: int
) -> None:
    """--enable_expand_ops forces the expansion in MindSpore."""
    text = f"""agraph (float[64,32] x, int64[64] l) => (float y) <float[32] g>
        {{ a = Neg (x) s = {call} b = Abs (s) y = ReduceSum <keepdims = 0> (b) }}"""
    onnx.save(parse(text, opset=opset), "in.onnx")
    flags = f"--opt_level={level} --enable_expand_ops={name}"
    said = fusionc.convert("in.onnx", output="out.onnx", graph_kernel_flags=flags, verify=False)
    operator = call.partition(" ")[0]
    stays = [node.op_type for node in onnx.load("out.onnx").graph.node]
    notices = [one for one in said.notices if one.startswith("--enable_expand_ops: ")]
    assert len(notices) == (operator.removeprefix("com.microsoft.") in stays)
    is_row = level < 3 and operator.endswith(("Softmax", "Normalization"))
    hint = "; --enable_stitch_fusion allows such areas" if is_row else ""
    assert notices == [
        f"--enable_expand_ops: {operator} is not expanded, because no area holds its parts{hint}"
    ] * len(notices)


def test_operators_of_a_function_are_in_areas_if_it_is_inlined() -> None:
    graph = "agraph (float[N,64] x) => (float[N,64] z) { a = Neg (x) b = my.MyOp (a) z = Exp (b) }"
    onnx.save(with_function(graph, "MyOp", "a = Abs (x) y = Sqrt (a)"), "in.onnx")
    flags: dict[str, Any] = {"graph_kernel_flags": "--opt_level=2", "verify": False}
    notices = fusionc.convert("in.onnx", output="out.onnx", **flags).notices
    hint = '--optimization_switch "FunctionInlinePass:on"'
    (notice,) = [one for one in notices if hint in one]
    assert notice.startswith("the operators of the functions my.MyOp are in no area")
    flags["optimization_switch"] = "FunctionInlinePass:on"
    notices = fusionc.convert("in.onnx", output="out.onnx", **flags).notices
    assert not any(hint in one for one in notices)
    assert len(onnx.load("out.onnx").graph.node) == 1


def test_an_operator_that_no_kernel_computes_is_said() -> None:
    flags = "--enable_cluster_ops=Det,Add"
    said = fusionc.convert(
        "in.onnx", output="out.onnx", graph_kernel_flags=flags, verify=False
    ).notices
    assert any(
        notice.startswith("no kernel computes Det") and "--target onnx" in notice for notice in said
    )
    said = fusionc.convert(
        "in.onnx", output="out.onnx", graph_kernel_flags=flags, verify=False, target="onnx"
    ).notices
    assert not any("no kernel computes" in notice for notice in said)


def test_a_square_is_expanded() -> None:
    text = "agraph (float[N,8] x) => (float[N,8] y) <float two = {2}, float p = {3}> { a = Exp (x)  b = Pow (a, two)"
    onnx.save(parse(f"{text}  c = Pow (b, p)  y = Neg (c) }}", opset=18), "in.onnx")
    for flags, squares in (("", 2), (" --enable_expand_ops=Square", 1)):
        fusionc.convert(
            "in.onnx",
            output="out.onnx",
            target="onnx",
            optimization_switch="PowToMulPass:off;ArithmeticSimplifyPass:off",
            graph_kernel_flags=f"--opt_level=1{flags}",
        )
        (area,) = onnx.load("out.onnx").functions
        assert [node.op_type for node in area.node].count("Pow") == squares


@pytest.mark.parametrize(
    ("level", "is_shown"), [("0", True), ("1", True), ("2", False), ("", False), (None, False)]
)
def test_the_passes_are_told_without_graph_kernels_as_in_mindspore(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    level: str | None,
    is_shown: bool,
) -> None:
    monkeypatch.delenv("GLOG_v", raising=False)
    if level is not None:
        monkeypatch.setenv("GLOG_v", level)
    monkeypatch.setenv(VARIABLE, "--disable_pass=add_rms_norm_fusion,split_concat_fusion")
    report = fusionc.convert("in.onnx", output="out.onnx", verify=False)
    assert not report.notices and not onnx.load("out.onnx").functions
    lines = {
        "graph kernel passes: RankQuestionPass,SwitchDeadBranchElimination,FunctionInlinePass,",
        "_split_concat_fusion is disabled.",
        "_SplitConcatFusionPass is disabled.",
        "_shape_reshape in ",
    }
    for text in (log_of(report), capsys.readouterr().err):
        assert {line for line in lines if line in text} == (lines if is_shown else set())
        assert "stage1_cluster" not in text


def test_a_dump_has_the_name_of_mindspore_too() -> None:
    text = """agraph (float[4,6] x) => (float[4,6] y) { a, b = Split <axis = 1, num_outputs = 2> (x)
        c = Concat <axis = 1> (a, b)  y = Neg (c) }"""
    onnx.save(parse(text, opset=18), "in.onnx")
    fusionc.convert("in.onnx", output="out.onnx", dump_graph="steps", verify=False)
    names = sorted(path.name.split("_", 1)[1] for path in Path("steps").glob("*.onnx"))
    assert names == ["SplitConcatFusionPass_split_concat_fusion.onnx", "input.onnx", "output.onnx"]
    fusionc.convert(
        "in.onnx", output="out.onnx", dump_graph="steps", verify=False, optimization_switch=OFF
    )
    assert len(list(Path("steps").glob("*.onnx"))) == 2  # a dump takes the place of the former one


@pytest.mark.parametrize("flags", [STITCHED, "--opt_level=2"])
def test_the_line_of_an_area_comes_after_the_splitters(flags: str) -> None:
    lines = fusionc.convert("in.onnx", output="out.onnx", graph_kernel_flags=flags).pattern_lines
    (splitter, *_), (area, *_) = (
        [at for at, line in enumerate(lines) if part in line]
        for part in ("[graph_kernel_splitter]", "pattern=area")
    )
    assert splitter < area


def test_the_lines_of_the_log() -> None:
    flags = "--opt_level=1 --enable_stitch_fusion --enable_pass=2.7 --disable_pass=1.3,IdentityPass,NoSuchPass"
    flags += " --disable_cluster_ops=Expp"
    report = fusionc.convert("in.onnx", output="out.onnx", graph_kernel_flags=flags)
    log = log_of(report)
    assert (
        "graph kernel passes: "
        "RankQuestionPass,SwitchDeadBranchElimination,FunctionInlinePass,IdentityPass,"
    ) in log
    assert "IdentityPass is disabled." in log
    assert "graph kernel pass stage1_cluster_3_graph_kernel_expander is disabled." in log
    assert "graph kernel pass stage2_highlevelopt1_4_arithmetic_simplify is disabled." in log
    assert "Run graph kernel pass stage2_highlevelopt1_7_graph_kernel_cse in " in log
    assert 'graph kernel pass disable flag "NoSuchPass" is not valid!' in log
    assert "GraphKernelPass[graph_kernel_splitter]: pattern=stitch, matched_times=" in log
    assert f'graph_kernel_flags = "{flags}", all flags: {{"opt_level": 1,' in log
    assert 'ONNX has no operator "Expp"; did you mean "Exp"?' in log
    assert any("NoSuchPass" in notice for notice in report.notices)
    assert any("Expp" in notice for notice in report.notices)


@pytest.mark.usefixtures("needs_a_compiler")
def test_dumps() -> None:
    for _ in range(2):
        report = fusionc.convert(
            "in.onnx", output="out.onnx", graph_kernel_flags="--dump_as_text", verify=False
        )
        assert any("graph_kernel_dump has the stages" in notice for notice in report.notices)
    folder = Path("graph_kernel_dump")
    pid = os.getpid()
    cluster = (folder / f"graph_kernel_cluster_{pid}.txt").read_text()
    assert cluster.count("Source nodes of Mul_Exp_Add_LayerNormalization_Tanh_Sub_fusion = ") == 2
    assert cluster.count("=" * 23 + "\n") == 2 and "  Exp:b = b = Exp (a)\n" in cluster
    split = (folder / f"graph_kernel_split_mode.{pid}.txt").read_text()
    assert "-------- subgraph 0, mode: composite --------" in split
    assert "OrtCustomOp" in (folder / f"fusionc_kernel_{pid}.c").read_text()
    assert not os.access(folder / f"fusionc_kernel_{pid}.c", os.W_OK) or os.getuid() == 0


@pytest.mark.usefixtures("needs_a_compiler")
def test_debug_mode_says_what_kernels_save() -> None:
    report = fusionc.convert(
        "in.onnx", graph_kernel_flags=f"{STITCHED} --enable_debug_mode", verify=False
    )
    (said,) = (notice for notice in report.notices if notice.startswith("the kernel of "))
    assert re.search(SAVED, said)
    report = fusionc.convert("in.onnx", graph_kernel_flags=STITCHED, verify=False)
    assert not any("save" in notice for notice in report.notices)


@pytest.mark.usefixtures("needs_a_compiler")
@pytest.mark.parametrize("sizes", ["1,128,28,28", "N,128,H,W"])
def test_debug_mode_says_what_convolutions_save(sizes: str) -> None:
    body = "{ a = Conv (x, w)  b = Relu (a)  y = Conv (b, w) }"
    model = parse(f"agraph (float[{sizes}] x) => (float[{sizes}] y) {body}")
    w = np.random.default_rng(0).standard_normal((128, 128, 3, 3)).astype(np.float32) / 32
    model.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    for node in model.graph.node[::2]:
        node.attribute.append(onnx.helper.make_attribute("pads", [1, 1, 1, 1]))
    onnx.save(model, "in.onnx")
    report = fusionc.convert("in.onnx", graph_kernel_flags="--enable_debug_mode", verify=False)
    (said,) = (notice for notice in report.notices if notice.startswith("the kernel of "))
    assert "_blocked_" in said
    assert re.search(SAVED, said)


def test_debug_mode_names_the_stage_that_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(
        parse("agraph (float[N] x) => (float[N] y) { a = Exp (x)  b = Sigmoid (a)  y = Neg (b) }"),
        "in.onnx",
    )
    flags = "--enable_debug_mode --enable_expand_ops=Sigmoid"
    fusionc.convert("in.onnx", output="out.onnx", graph_kernel_flags=flags)

    def wrong(self: Simplifier, model: Model, after: Callable[[StagePass], None]) -> None:
        node = model.main.of_operator("Neg")[0]
        node.proto.op_type = "Abs"
        after(CSE)

    monkeypatch.setattr(Simplifier, "simplify", wrong)
    with pytest.raises(
        fusionc.VerificationError, match="stage2_highlevelopt1_7_graph_kernel_cse changes"
    ):
        fusionc.convert("in.onnx", output="wrong.onnx", graph_kernel_flags=flags)
    assert not Path("wrong.onnx").exists()


@pytest.mark.usefixtures("needs_a_compiler")
def test_a_wrong_kernel_is_named_and_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    from fusionc.graph_kernel.lower.operator_table import OPERATORS

    monkeypatch.setitem(OPERATORS, "Sub", OPERATORS["Add"])
    with pytest.raises(
        fusionc.VerificationError, match="TbeReduceElemwiseFusionPass, pattern area"
    ):
        fusionc.convert("in.onnx", output="out.onnx", graph_kernel_flags=STITCHED)
    assert not Path("out.onnx").exists() and not Path("out.kernels.so").exists()


def test_what_does_not_compile_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from fusionc.graph_kernel.library import build_library
    from fusionc.graph_kernel.library.build_library import Built

    monkeypatch.setattr(
        build_library, "build", lambda areas, tell: Built(None, {a.name: "no" for a in areas})
    )
    report = fusionc.convert("in.onnx", output="out.onnx", enable_graph_kernel=True)
    assert not onnx.load("out.onnx").functions
    assert "do not have compile cache after compiling and will be split." in log_of(report)


def test_an_older_ir_version_is_raised_and_said() -> None:
    onnx.save(parse(GATE, opset=13, ir_version=7), "in.onnx")
    report = fusionc.convert("in.onnx", output="out.onnx", enable_graph_kernel=True)
    assert onnx.load("out.onnx").ir_version == 8
    assert any("raised to 8" in notice for notice in report.notices)
    fusionc.convert("in.onnx", output="plain.onnx")
    assert onnx.load("plain.onnx").ir_version == 7


@pytest.mark.parametrize("bias", ["float B = {0.5}", "float[1,2,1,1] B = {0.5, 1}"])
def test_a_product_of_bytes_with_a_scale_that_is_computed(bias: str) -> None:
    """Areas read it as a group of operators. The values inside have no declared shapes."""
    weights = "uint8[2,4,1,1] W = {1, 2, 127, 64, 255, 5, 0, 7}, uint8 w = {128}, float t = {0.02}"
    body = """q, s, z = DynamicQuantizeLinear (x) i = ConvInteger (q, W, z, w) c = Cast <to = 1> (i)
        k = Mul (s, t) m = Mul (c, k) y = Add (m, B)"""
    onnx.save(
        parse(f"agraph (float[N,4,4,5] x) => (float[N,2,4,5] y) <{weights}, {bias}> {{ {body} }}"),
        "in.onnx",
    )
    report = fusionc.convert("in.onnx", output="out.onnx", enable_graph_kernel=True)
    assert any(p.name == "IntegerPointwiseConvPass" and p.effected for p in report.passes())
