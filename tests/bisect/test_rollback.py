"""With --on_mismatch rollback the rewrites at fault are left out, and the result is verified."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner
from harness import parse
from planted_faults import FAULTS, Fault, model_of, planted

import fusionc
from fusionc.cli import main
from fusionc.passes.convolution.conv_batchnorm_fusion import ConvBatchnormFusionPass

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")

FEW = [fault for fault in FAULTS if fault.model in ("conv_bn", "split_concat")][::3]
NORMS = """agraph (float[1,3,16,16] x) => (float[1,3,6,6] y)
    <float[3,3,3,3] W, float[3] g, float[3] b, float[3] m, float[3] v> {
    c1 = Conv (x, W) n1 = BatchNormalization (c1, g, b, m, v) c2 = Conv (n1, W)
    n2 = BatchNormalization (c2, g, b, m, v) c3 = Conv (n2, W) n3 = BatchNormalization (c3, g, b, m, v)
    c4 = Conv (n3, W) n4 = BatchNormalization (c4, g, b, m, v) c5 = Conv (n4, W)
    y = BatchNormalization (c5, g, b, m, v) }"""


@pytest.mark.parametrize("fault", FEW, ids=str)
def test_a_fault_is_left_out(fault: Fault) -> None:
    onnx.save(model_of(fault), "model.onnx")
    with planted(fault) as (plant,):
        report = fusionc.convert(
            "model.onnx", output="out.onnx", on_mismatch="rollback", export_compile_stat=1
        )
    assert report.verification is not None and report.verification.startswith("equal")
    left = f"{plant.fault.pass_name} left {', '.join(plant.labels)} as it is: the result is wrong with this rewrite"
    assert left in report.notices
    content = json.loads(Path("fusion_result.json").read_text())
    passes = content["session_and_graph_id_0_0"]
    counters = {**passes.get("graph_fusion", {}), **passes.get("ub_fusion", {})}[fault.pass_name]
    left_out = content["fusionc"]["left_out_times"]["session_and_graph_id_0_0"]
    assert left_out == {fault.pass_name: "1"}
    assert counters.keys() <= {"match_times", "effect_times", "repository_hit_times"}
    assert int(counters["match_times"]) > int(counters["effect_times"])
    assert fusionc.convert("model.onnx", output="right.onnx").effected > report.effected


def test_the_log_can_be_searched_and_the_default_fails() -> None:
    onnx.save(model_of(FEW[0]), "model.onnx")
    with planted(FEW[0]):
        failed = CliRunner().invoke(main, ["convert", "--model", "model.onnx"])
        assert failed.exit_code == 3 and not Path("model_fusionc.onnx").exists()
        result = CliRunner().invoke(
            main, ["convert", "--model", "model.onnx", "--on_mismatch", "rollback"]
        )
    assert result.exit_code == 0 and Path("model_fusionc.onnx").exists()
    log = Path(result.stdout.partition("\nlog")[2].split("\n")[0].strip()).read_text()
    assert (
        f"Rollback:GraphId[0], Pass[{FEW[0].pass_name}]: pattern=" in log
        and "left_out_times=1" in log
    )


def test_a_pass_that_is_wrong_everywhere_is_off_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ConvBatchnormFusionPass.rewrite
    monkeypatch.setattr(
        ConvBatchnormFusionPass, "rewrite", lambda self, m, new: new.Neg(right(self, m, new))
    )
    onnx.save(parse(NORMS), "model.onnx")
    report = fusionc.convert("model.onnx", output="out.onnx", on_mismatch="rollback")
    assert (
        "ConvBatchnormFusionPass is off: the result was wrong with 3 of its rewrites"
        in report.notices
    )
    assert "ConvBatchnormFusionPass" not in [count.pass_name for count in report.patterns]
    assert report.verification is not None and report.verification.startswith("equal")
