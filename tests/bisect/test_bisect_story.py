"""The rewrites at fault are found, each by name, in few runs, with a small model that shows it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from time import sleep

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from harness import parse
from models_with_areas import CHAIN
from planted_faults import FAULTS, SAMPLES, Fault, Plant, model_of, planted

import fusionc
from fusionc.api import bisect, convert_up_to
from fusionc.bisect.bisect_story import Bisection
from fusionc.bisect.trials import Opinion, Trial, Trials
from fusionc.cli import main
from fusionc.errors import FusioncError, UsageError

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")

FEW = [
    fault
    for fault in FAULTS
    if fault.pass_name in ("ConvBatchnormFusionPass", "LayerNormFusionPass")
]
AT_ONCE = (
    ["MatMulBiasAddFusionPass: a lost bias", "GemmScaleFusionPass: a scale inverted"],
    [
        "PadConv2dFusionPass: pads off by one",
        "ConvBatchnormFusionPass: a lost bias",
        "AABiasaddConvFusion: a channel's bias at the next",
    ],
)
OWN = """
import fusionc
from fusionc import op

def scaled(x):
    return op.Relu(x * 2.0)

def wrong(x):
    return op.Relu(x) * 3.0

fusionc.register_replacement(scaled, wrong, name="Own")
"""
ERRATIC = """
import fusionc
from fusionc import op
asked = []
def odd(match):
    asked.append(match)
    return len(asked) % 3 == 1
fusionc.register_replacement(lambda x: op.Relu(x), lambda x: op.Clip(x, 0.0, 2.0), extra_check=odd, name="Erratic")
"""
ROUNDS_FIRST = """
import fusionc
from fusionc.rewrite import op, var

class ClaimsToBeBitwisePass(fusionc.Pass):
    patterns = (fusionc.Pattern("Neg", op.Neg(var("x"))),)
    def rewrite(self, m, new): return new.Mul(m.x, new.const(-1.00005, like=m.x))

class RoundsPass(fusionc.Pass):
    numerics = "rounding"
    patterns = (fusionc.Pattern("Abs", op.Abs(var("x"))),)
    def rewrite(self, m, new): return new.Max(m.x, new.Sub(new.const(0.0, like=m.x), m.x))

class WrongPass(fusionc.Pass):
    numerics = "rounding"
    patterns = (fusionc.Pattern("Exp", op.Exp(var("x"))),)
    def rewrite(self, m, new): return new.Pow(new.const(3.0, like=m.x), m.x)
"""
NO_FUSED_GEMM = "! grep -aq FusedGemm {model}"


@pytest.mark.parametrize("fault", FEW, ids=str)
def test_a_fault_is_found(fault: Fault) -> None:
    onnx.save(model_of(fault), "model.onnx")
    with planted(fault) as plants:
        found = bisect("model.onnx")
        assert_found(found, *plants)
        assert fusionc.convert("model.onnx", fusion_switch_file=found.switches).verification


@pytest.mark.parametrize("names", AT_ONCE, ids=len)
def test_several_at_once(names: list[str]) -> None:
    faults = [next(fault for fault in FAULTS if str(fault) == name) for name in names]
    onnx.save(model_of(faults[0]), "model.onnx")
    with planted(*faults) as plants:
        assert_found(bisect("model.onnx"), *plants)


def assert_found(found: Bisection, *plants: Plant) -> None:
    commits = [rewrite.commit for one in found.found for rewrite in one.culprit.rewrites]
    assert {(p.fault.pass_name, p.pattern, p.labels) for p in plants} == {
        (c.pass_name, c.pattern, c.nodes) for c in commits
    }
    assert len(commits) == len(plants) and found.is_all
    assert found.runs <= sum(math.ceil(math.log2(one.culprit.count)) + 2 for one in found.found)
    for one in found.found:
        assert one.minimal is not None and one.minimal.shown
        assert one.files[0].stat().st_size < 8192


def test_a_right_result_is_that() -> None:
    onnx.save(model_of(FEW[0]), "model.onnx")
    found = bisect("model.onnx")
    assert (found.found, found.runs, found.switches) == ([], 1, None) and found.summary.startswith(
        "equal"
    )


def test_the_command_names_what_it_found() -> None:
    onnx.save(model_of(FEW[0]), "model.onnx")
    Path("base.txt").write_text("DropOutPass:off\nConvBatchnormFusionPass:on\n")
    with planted(FEW[0]):
        result = CliRunner().invoke(
            main, ["bisect", "--model", "model.onnx", "--fusion_switch_file", "base.txt"]
        )
    assert result.exit_code == 3, result.output
    assert "ConvBatchnormFusionPass, pattern ConvBatchnorm, at " in result.stdout
    assert "model_bisect/1_ConvBatchnormFusionPass.onnx" in result.stdout
    switches = json.loads(Path("model_bisect/switches.json").read_text())["Switch"]
    assert switches == {
        "GraphFusion": {"DropOutPass": "off", "ConvBatchnormFusionPass": "off"},
        "UBFusion": {},
    }
    assert not list(Path().glob("*fusionc*"))


def test_a_limit_stops_behind_a_rewrite() -> None:
    onnx.save(model_of(FEW[0]), "model.onnx")
    result = CliRunner().invoke(
        main, ["bisect", "--model", "model.onnx", "--limit", "2", "--output", "two.onnx"]
    )
    assert result.exit_code == 0 and result.stdout.startswith(
        "rewrite 2, ConvBatchnormFusionPass, pattern"
    )
    assert result.stdout.endswith("\nwritten to two.onnx, not verified\n")
    assert len(onnx.load("two.onnx").graph.node) == len(onnx.load("model.onnx").graph.node) - 2
    assert convert_up_to("model.onnx", 0, output="none.onnx") == "no rewrite took effect"
    assert onnx.load("none.onnx") == onnx.load("model.onnx")


def test_a_limit_beyond_the_last_rewrite_says_so() -> None:
    onnx.save(
        parse("agraph (float[2,2] x) => (float[2,2] y) { [a] a = Identity (x) [y] y = Relu (a) }"),
        "model.onnx",
    )
    assert "more rewrites" not in convert_up_to("model.onnx", 1, output="one.onnx")
    said = convert_up_to("model.onnx", 7, output="all.onnx")
    assert (
        said.startswith("rewrite 1, ")
        and "the limit was 7, but the conversion has no more rewrites" in said
    )
    assert onnx.load("all.onnx") == onnx.load("one.onnx")
    said = convert_up_to("all.onnx", 3, output="same.onnx")
    assert said.startswith("no rewrite took effect; ") and "the limit was 3" in said


def test_an_output_is_converted_that_a_rewrite_makes() -> None:
    """It is named as the model has it, in which a node makes it that is gone then."""
    chain = "agraph (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1,2,3,4}, float[2] b = {1,2}>"
    onnx.save(parse(f"{chain} {{ [mm] m = MatMul (x, w) [add] y = Add (m, b) }}"), "model.onnx")
    assert "MatMulBiasAddFusionPass" in convert_up_to(
        "model.onnx", 1, output="o.onnx", output_type="add:0:FP16"
    )
    assert (
        onnx.load("o.onnx").graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
    )


def test_a_pass_of_ones_own() -> None:
    Path("own.py").write_text(OWN)
    onnx.save(
        parse(
            "agraph (float[N,4] x) => (float[N,4] y) <float c = {2}> { m = Mul (x, c) y = Relu "
            "(m) }"
        ),
        "m.onnx",
    )
    found = bisect("m.onnx", custom_passes=["own.py"])
    assert [one.culprit.rewrites[0].commit.pass_name for one in found.found] == ["Own"]
    assert found.found[0].minimal is not None and found.found[0].minimal.is_converted
    fusionc.convert("m.onnx", custom_passes=["own.py"], fusion_switch_file=found.switches)


def test_what_the_option_has_on_no_switch_file_switches_off() -> None:
    Path("own.py").write_text(OWN)
    onnx.save(
        parse(
            "agraph (float[N] x) => (float[N] y) <float two = {2}> { m = Mul (x, two) y = Relu "
            "(m) }"
        ),
        "m.onnx",
    )
    given = {"custom_passes": ["own.py"], "log": "null"}
    assert bisect("m.onnx", **given).must == ()
    assert bisect("m.onnx", optimization_switch="Own:on", **given).must == ("Own",)


def test_a_rewrite_in_a_function() -> None:
    Path("own.py").write_text(
        "import fusionc\nfrom fusionc import op\n"
        'fusionc.register_replacement(lambda x: op.Exp(op.Relu(x)), lambda x: op.Exp(op.Abs(x)), name="Own")'
    )
    function = '<domain: "my", opset_import: ["" : 18]> f (v) => (w) { r = Relu (v) w = Exp (r) }'
    onnx.save(
        parse(
            f"agraph (float[N] x) => (float[N] y) {{ a = my.f (x) n = Neg (a) y = my.f (n) }} "
            f"{function}"
        ),
        "m.onnx",
    )
    result = CliRunner().invoke(main, ["bisect", "--model", "m.onnx", "--custom_passes", "own.py"])
    assert result.exit_code == 3 and "Own, pattern Own, at " in result.stdout
    assert "model       none: the node is in a function" in result.stdout


@pytest.mark.usefixtures("needs_a_compiler")
def test_a_wrong_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    from fusionc.graph_kernel.lower.operator_table import OPERATORS

    onnx.save(parse(CHAIN), "m.onnx")
    monkeypatch.setitem(OPERATORS, "Sub", OPERATORS["Add"])
    found = bisect("m.onnx", graph_kernel_flags="--opt_level=3")
    (one,) = found.found
    assert (one.culprit.rewrites[0].commit.pattern, found.is_all) == ("area", True)
    assert one.minimal is not None and one.minimal.is_converted


def test_a_command_decides() -> None:
    onnx.save(onnx.load(SAMPLES / "matmul_bias.onnx"), "model.onnx")
    found = bisect("model.onnx", check=NO_FUSED_GEMM)
    assert [one.culprit.rewrites[0].commit.nodes[0] for one in found.found] == ["relu_3", "relu_7"]
    assert found.is_all and found.runs <= 2 * (4 + 2)
    assert (found.found[0].culprit.before, found.found[0].culprit.after) == (
        "exit code 0",
        "exit code 1",
    )


@pytest.mark.parametrize("place", ["{model}", '"{model}"', "'{model}'"])
def test_a_model_in_a_folder_with_spaces(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "it's two words").mkdir()
    monkeypatch.chdir(tmp_path / "it's two words")
    onnx.save(
        parse("agraph (float[N] x) => (float[N] y) { a = Identity (x) y = Relu (a) }"), "model.onnx"
    )
    assert bisect("model.onnx", check=f"test -s {place}").summary == "exit code 0"


def test_an_interruption_ends_all_that_a_command_started() -> None:
    onnx.save(
        parse("agraph (float[N] x) => (float[N] y) { a = Identity (x) y = Relu (a) }"), "model.onnx"
    )
    with pytest.raises(KeyboardInterrupt):
        bisect("model.onnx", check="(sleep 1; touch late) & kill -INT $PPID; wait; test -s {model}")
    sleep(0.9)
    assert not Path("late").exists() and [path.name for path in Path().iterdir()] == ["model.onnx"]


def test_of_what_a_command_says_the_end_is_told() -> None:
    onnx.save(
        parse("agraph (float[N] x) => (float[N] y) { a = Identity (x) y = Relu (a) }"), "model.onnx"
    )
    found = bisect("model.onnx", check="test -s {model}; echo first; printf '%9999d' 0 | tr ' ' x")
    assert found.summary.startswith("exit code 0: xxx") and len(found.summary) < 250


def test_where_the_command_cannot_tell_several_are_suspected() -> None:
    onnx.save(onnx.load(SAMPLES / "matmul_bias.onnx"), "model.onnx")
    untold = "if [ $(grep -ao relu_._FusedGemm {model} | wc -l) = 1 ]; then exit 125; fi; "
    (one,) = bisect("model.onnx", check=untold + NO_FUSED_GEMM).found
    assert [rewrite.commit.nodes[0] for rewrite in one.culprit.rewrites] == ["relu_3", "relu_7"]


def test_what_was_found_is_told_where_the_rest_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(onnx.load(SAMPLES / "matmul_bias.onnx"), "model.onnx")
    run = Trials.run

    def forgetful(self: Trials, limit: int | None = None) -> Trial:
        found = run(self, limit)
        return replace(found, opinion=Opinion(None, "no idea")) if self.left_out.rewrites else found

    monkeypatch.setattr(Trials, "run", forgetful)
    found = bisect("model.onnx", check=NO_FUSED_GEMM)
    assert len(found.found) == 1 and found.is_all is None and found.summary == "no idea"
    assert found.switches is not None and found.switches.is_file()
    result = CliRunner().invoke(main, ["bisect", "--model", "model.onnx", "--check", NO_FUSED_GEMM])
    assert "without these rewrites the result cannot be judged: no idea" in result.stdout


def test_of_some_of_the_rewrites_no_more_is_asked_than_of_all() -> None:
    """The first rewrite rounds, beyond what is bitwise, and one that claims to round comes later:
    the wrong one is the third.
    """
    Path("own.py").write_text(ROUNDS_FIRST)
    onnx.save(
        parse("agraph (float[N,8] x) => (float[N,8] y) { a = Neg (x) b = Abs (a) y = Exp (b) }"),
        "m.onnx",
    )
    with pytest.raises(fusionc.VerificationError) as caught:
        fusionc.convert("m.onnx", custom_passes=["own.py"], enable_graph_kernel=False)
    assert "WrongPass" in caught.value.where


def test_a_wrong_pass_that_does_something_else_each_time_blames_nobody() -> None:
    Path("own.py").write_text(ERRATIC.replace("0.0, 2.0", "0.0, 0.5"))
    names = ["x", *(f"v{k}" for k in range(6)), "y"]
    chain = " ".join(
        f"{b} = {op} ({a})" for a, b, op in zip(names, names[1:], ["Relu", "Exp"] * 4, strict=False)
    )
    onnx.save(parse(f"agraph (float[N] x) => (float[N] y) {{ {chain} }}"), "m.onnx")
    with pytest.raises(FusioncError, match="is not reproducible"):
        fusionc.convert("m.onnx", custom_passes=["own.py"])


@pytest.mark.parametrize(
    ("command", "error", "text"),
    [
        ("false", UsageError, "E10001: the command does not say where the model goes"),
        ("false {model}", FusioncError, "the model is judged wrong"),
        ("no-such-command {model}", FusioncError, "exit code 127"),
        ("sh -c 'exit 125' {model}", FusioncError, "it cannot be decided"),
    ],
)
def test_a_command_that_is_no_check(command: str, error: type[Exception], text: str) -> None:
    onnx.save(
        parse("agraph (float[N] x) => (float[N] y) { a = Identity (x) y = Relu (a) }"), "model.onnx"
    )
    with pytest.raises(error, match=text):
        bisect("model.onnx", check=command)


def test_a_pass_that_does_something_else_each_time_accuses_nobody() -> None:
    Path("own.py").write_text(ERRATIC)
    names = ["x", *(f"v{k}" for k in range(6)), "y"]
    chain = " ".join(
        f"{b} = {op} ({a})" for a, b, op in zip(names, names[1:], ["Relu", "Exp"] * 4, strict=False)
    )
    onnx.save(parse(f"agraph (float[N] x) => (float[N] y) {{ {chain} }}"), "m.onnx")
    with pytest.raises(FusioncError, match=r"is not reproducible: rewrite [0-9]+, .*Erratic"):
        bisect("m.onnx", custom_passes=["own.py"])


def test_the_users_own_inputs_decide_too() -> None:
    Path("own.py").write_text(
        OWN.replace("op.Relu(x) * 3.0", "op.Relu(x) * 2.0 + op.Relu(x - 1e5)")
    )
    onnx.save(
        parse(
            "agraph (float[N,4] x) => (float[N,4] y) <float c = {2}> { m = Mul (x, c) y = Relu "
            "(m) }"
        ),
        "m.onnx",
    )
    np.savez("data.npz", x=np.full((2, 4), 1e8, np.float32))
    assert not bisect("m.onnx", custom_passes=["own.py"]).found
    found = bisect("m.onnx", custom_passes=["own.py"], inputs="data.npz")
    assert [one.culprit.rewrites[0].commit.pass_name for one in found.found] == ["Own"]


OTHERS = ["notes.txt", "1_model.txt", "model.onnx", "1_encoder.onnx"]


@pytest.mark.parametrize("other", OTHERS)
def test_a_folder_of_others_stays_as_it_is(other: str) -> None:
    onnx.save(model_of(FEW[0]), "model.onnx")
    Path("found").mkdir()
    Path("found", other).write_text("mine")
    with planted(FEW[0]), pytest.raises(UsageError, match="did not write") as caught:
        bisect("model.onnx", output_dir="found")
    assert caught.value.where == f"found/{other}" and Path("found", other).read_text() == "mine"


def test_a_search_takes_the_place_of_a_former_one() -> None:
    onnx.save(model_of(FEW[0]), "model.onnx")
    Path("found").mkdir()
    former = parse("rewrite (float[N] x) => (float[N] y) { y = Neg (x) }")
    former.producer_name = "fusionc"
    onnx.save(former, "found/2_Former.onnx")
    Path("found/switches.json").write_text('{"Switch": {"GraphFusion": {"DropOutPass": "off"}}}')
    with planted(FEW[0]):
        bisect("model.onnx", output_dir="found", fusion_switch_file="found/switches.json")
    assert not Path("found/2_Former.onnx").exists()
    assert json.loads(Path("found/switches.json").read_text())["Switch"]["GraphFusion"].keys() == {
        "DropOutPass", "ConvBatchnormFusionPass",
    }  # fmt: skip
    with pytest.raises(UsageError, match="reads, or that it did not write"):
        bisect("found/1_ConvBatchnormFusionPass.onnx", output_dir="found")


def test_nothing_is_written_but_to_the_folder_of_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(model_of(FEW[0]), tmp_path / "model.onnx")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("/proc/self")  # where nobody writes
    found = bisect(
        tmp_path / "model.onnx", check="test -s {model}", output_dir=tmp_path / "elsewhere/found"
    )
    assert found.summary == "exit code 0" and not list((tmp_path / "elsewhere").iterdir())
    with pytest.raises(UsageError, match="the path is not a folder"):
        bisect(tmp_path / "model.onnx", output_dir=tmp_path / "model.onnx")


def test_an_output_without_a_limit_is_a_mistake() -> None:
    onnx.save(model_of(FEW[0]), "model.onnx")
    result = CliRunner().invoke(main, ["bisect", "--model", "model.onnx", "--output", "o.onnx"])
    assert result.exit_code == 2 and "--output_dir" in result.stderr
