"""What is switched in vain is said, once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fusionc.attempt.conversion_plan import ConversionPlan, plan_of
from fusionc.graph_kernel.flags.file_of_flags import VARIABLE
from fusionc.options import Options
from fusionc.passes import PASSES
from fusionc.report import Plog
from fusionc.switches import preset
from fusionc.why.pass_answer import state_of

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")
FLAGS = "--graph_kernel_flags"


def plan(**options: Any) -> ConversionPlan:
    with Plog() as plog:
        return plan_of(Options(Path("in.onnx"), Path("out.onnx"), **options), plog)


@pytest.mark.parametrize(
    ("flags", "switch", "notice"),
    [
        (
            "--disable_pass=PrunePass,ReluFusionPass",
            None,
            f"off by {FLAGS}, although a switch file cannot switch them off: PrunePass",
        ),
        (
            "--disable_pass=split_concat_fusion",
            "SplitConcatFusionPass:on",
            f"{FLAGS} overrides the switches of SplitConcatFusionPass",
        ),
        (
            "--enable_pass=GeluFusionPass",
            "GeluFusionPass:off",
            f"{FLAGS} overrides the switches of GeluFusionPass",
        ),
        ("--disable_pass=split_concat_fusion", "GeluFusionPass:off", None),
        ("--enable_pass=MatMulAllReduce", None, "never matches: MatMulAllReduce: "),
        (None, "MatMulAllReduce:on", "never matches: MatMulAllReduce: "),
        (
            None,
            "AutomaticUbFusion:on;TbeEltwiseFusionPass:off",
            "no effect without --enable_graph_kernel: AutomaticUbFusion",
        ),
        ("--opt_level=1", "AutomaticUbFusion:on", None),
        (None, "AutomaticUbFusion:off", None),
    ],
)
def test_switches_without_effect(flags: str | None, switch: str | None, notice: str | None) -> None:
    notices = plan(graph_kernel_flags=flags, optimization_switch=switch).notices
    assert [text.startswith(notice or "?") for text in notices if "not valid" not in text] == (
        [True] if notice else []
    )


def test_an_environment_that_overrides_a_switch_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("s.json").write_text('{"Switch": {"GraphFusion": {"GeluFusionPass": "on"}}}')
    monkeypatch.setenv(VARIABLE, "--disable_pass=GeluFusionPass")
    (notice,) = plan(fusion_switch_file=Path("s.json")).notices
    assert notice == (
        f"the environment variable {VARIABLE} overrides the switches of GeluFusionPass"
    )


def test_areas_of_a_switch_file() -> None:
    file = Path("s.json")
    file.write_text(json.dumps({"Switch": {"UBFusion": {"TbeEltwiseFusionPass": "on"}}}))
    (notice,) = plan(fusion_switch_file=file).notices
    assert notice == "no effect without --enable_graph_kernel: TbeEltwiseFusionPass"
    assert not plan(fusion_switch_file=file, enable_graph_kernel=True).notices
    file.write_text(preset("default", PASSES))
    assert not plan(fusion_switch_file=file).notices


@pytest.mark.parametrize(
    ("name", "value", "instead"),
    [
        ("ASCEND_MODULE_LOG_LEVEL", "GE=0:FE=1", "--log"),
        ("DUMP_GE_GRAPH", "2", "--dump_graph"),
        ("MS_DEV_ENABLE_KERNEL_PACKET", "1", "8.0"),
        ("OMP_NUM_THREADS", "4", "SessionOptions.intra_op_num_threads"),
    ],
)
def test_environment_variables_without_effect(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, instead: str
) -> None:
    for other in ("ASCEND_MODULE_LOG_LEVEL", "DUMP_GE_GRAPH", "OMP_NUM_THREADS"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, value)
    (notice,) = plan(enable_graph_kernel=True).notices
    assert notice.startswith(f"the environment variable {name} has no effect: ")
    assert instead in notice
    without = plan().notices  # only kernels have to do with threads
    assert without == (() if name == "OMP_NUM_THREADS" else (notice,))


def test_why_does_not_advise_a_switch_that_the_flags_override() -> None:
    gelu = next(p for p in PASSES if p.name == "GeluFusionPass")
    off = plan(optimization_switch="GeluFusionPass:off")
    assert '"GeluFusionPass:on" switches it on' in state_of(gelu, off)
    state = state_of(gelu, plan(graph_kernel_flags="--disable_pass=GeluFusionPass"))
    assert state.startswith("off by --disable_pass of the graph kernel flags, which no other")
    assert state_of(gelu, plan()) == "on"
