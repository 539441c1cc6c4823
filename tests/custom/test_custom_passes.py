"""Users' own passes: they behave like built-in ones, and when they are broken, one error says where."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from harness import parse
from onnx import ModelProto

import fusionc
from fusionc.custom import replacement, watchdog
from fusionc.custom.loading import load_passes

ROOT = Path(__file__).parents[2]
MODEL = "agraph (float[N,4] x) => (float[N,4] y) <float two = {2}, float[4,4] W, float[4] b> { h = Mul (x, two) r = Relu (h) p = MatMul (r, W) y = Add (p, b) }"
HEAD = "import fusionc\nfrom fusionc import op\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FUSIONC_PROCESS_LOG_PATH", str(tmp_path / "log"))
    yield
    replacement.REGISTERED.clear()


def convert(code: str, model: str | ModelProto = MODEL, **options: object) -> fusionc.Report:
    Path("own.py").write_text(HEAD + code)
    onnx.save(model if isinstance(model, ModelProto) else parse(model), "in.onnx")
    return fusionc.convert("in.onnx", output="out.onnx", custom_passes=["own.py"], **options)  # type: ignore[arg-type]


def effects(report: fusionc.Report) -> dict[str, int]:
    found: dict[str, int] = {}
    for count in report.patterns:
        found[count.pass_name] = found.get(count.pass_name, 0) + count.effected
    return found


def test_the_example_of_the_readme() -> None:
    code = re.search(r"```python\n# my_passes.py\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code is not None
    report = convert(code.group(1))
    assert effects(report)["ReluScalePass"] == 1 and report.verification.startswith("equal")
    assert any(
        "GraphFusionPass[ReluScalePass]: pattern=ReluScalePass, matched_times=1, effected_times=1." in line
        for line in report.pattern_lines
    )


PAIR = """
def s(x, w, b): return op.Add(op.MatMul(x, w), b)
def r(x, w, b): return op.Gemm(x, w, b)
fusionc.register_replacement(s, r, name="Own"{})
"""
OFF = "MatMulBiasAddFusionPass:off;GemmScaleFusionPass:off"


def test_it_is_switched_like_any_other() -> None:
    assert effects(convert(PAIR.format(""), optimization_switch=OFF))["Own"] == 1
    report = convert(PAIR.format(""), optimization_switch=f"{OFF};Own:off")
    assert "Own" not in effects(report)
    assert "Own" not in effects(convert(PAIR.format(""), optimization_switch=OFF, pattern_fusion_pass=False))


QUANTIZED = "agraph (float[N,3,4] x) => (int8[N,3,4] y, float[N,3,4] z, float[N,3,1] s) <float c = {127}> { z = Relu (x) n = Neg (z) a = Abs (n) m = ReduceMax <axes = [-1]> (a) s = Div (m, c) d = Div (n, s) r = Round (d) y = Cast <to = 3> (r) }"


def test_pattern_fusion_switches_users_passes_and_torchairs_together() -> None:
    code = """
def s(x): return op.Neg(op.Relu(x))
def r(x): return op.Sub(0.0, op.Relu(x))
fusionc.register_replacement(s, r, name="Own", extra_check=lambda m: True)

class OtherPass(fusionc.Pass):
    patterns = (fusionc.Pattern("Abs", fusionc.rewrite.op.Abs(fusionc.rewrite.op.Neg(fusionc.rewrite.var("x")))),)
    def rewrite(self, m, new): return new.Abs(m.x)
"""
    model = parse(QUANTIZED, 17)
    both = effects(convert("import fusionc.rewrite" + code, model))
    assert both["AddRmsNormDynamicQuantFusionPass"] == 1 and both["OtherPass"] + both["Own"] >= 0
    report = convert("import fusionc.rewrite" + code, model, pattern_fusion_pass=False)
    assert not {"AddRmsNormDynamicQuantFusionPass", "OtherPass", "Own"} & set(effects(report))
    assert "off by --pattern_fusion_pass: Own, OtherPass, AddRmsNormDynamicQuantFusionPass" in report.notices


def test_the_extra_check_refuses() -> None:
    report = convert(PAIR.format(", extra_check=lambda m: m.x.rank == 3"), optimization_switch=OFF)
    (count,) = [count for count in report.patterns if count.pass_name == "Own"]
    assert count.refused == {"the extra check says no": 1}


def test_several_outputs_and_attributes() -> None:
    code = """
def s(x, slope):
    a = op.LeakyRelu(x, alpha=slope)
    return op.Neg(a), op.Abs(a)
def r(x, slope):
    a = op.LeakyRelu(x, alpha=slope / 1)
    return op.Sub(0.0, a), op.Abs(a)
fusionc.register_replacement(s, r, scalar_workaround={"slope": 0.1}, name="Own")
"""
    model = "agraph (float[N,4] x) => (float[N,4] y, float[N,4] z) { a = LeakyRelu <alpha = 0.25> (x) y = Neg (a) z = Abs (a) }"
    report = convert(code, model)
    assert effects(report)["Own"] == 1 and report.operators_after == {"LeakyRelu": 1, "Sub": 1, "Abs": 1}


def test_the_same_argument_is_the_same_value() -> None:
    code = """
def s(x): return op.Mul(x, x)
def r(x): return op.Pow(x, 2.0)
fusionc.register_replacement(s, r, name="Own")
"""
    model = "agraph (float[N,4] x, float[N,4] z) => (float[N,4] y, float[N,4] w) { y = Mul (x, x) w = Mul (x, z) }"
    assert effects(convert(code, model, optimization_switch="PowToMulPass:off;ArithmeticSimplifyPass:off"))["Own"] == 1


def test_a_subclass_of_pass() -> None:
    code = """
class DoubleNegationPass(fusionc.Pass):
    \"\"\"Neg of Neg goes.\"\"\"
    patterns = (fusionc.Pattern("NegNeg", fusionc.rewrite.op.Neg(fusionc.rewrite.op.Neg(fusionc.rewrite.var("x")))),)
    def rewrite(self, m, new): return m.x
"""
    model = "agraph (float[N,4] x) => (float[N,4] y) { a = Neg (x) b = Neg (a) y = Abs (b) }"
    report = convert(
        "import fusionc.rewrite" + code, model, optimization_switch="IdempotentOpPass:off;ArithmeticSimplifyPass:off"
    )
    assert effects(report)["DoubleNegationPass"] == 1


def test_the_order() -> None:
    Path("own.py").write_text(
        HEAD
        + PAIR.format("")
        + PAIR.format(', kind="UBFusion"').replace("Own", "OwnUb").replace("op.MatMul(x, w), b", "b, op.MatMul(x, w)")
    )
    passes = load_passes([Path("own.py")])
    names = [p.name for p in passes]
    first_ub = next(i for i, p in enumerate(passes) if p.kind == "UBFusion")
    assert names.index("Own") == first_ub - 1 and names[-1] == "OwnUb"


def test_duplicates_are_left_out_where_asked() -> None:
    code = PAIR.format("") + PAIR.format(", skip_duplicates=True").replace("Own", "Again")
    assert effects(convert(code, optimization_switch=OFF))["Own"] == 1


RELU = "def s(x): return op.Relu(x)\n"
BROKEN: dict[str, tuple[str, str]] = {
    "no Python": ("def s(x:\n", "SyntaxError"),
    "fails when it is read": ("1 / 0\n", "ZeroDivisionError"),
    "other arguments": (RELU + "def r(y): return op.Neg(y)\nfusionc.register_replacement(s, r)", "different arguments"),
    "no operator": ("def s(x): return x\nfusionc.register_replacement(s, s)", "returns no operator"),
    "a duplicate": (PAIR.format("") + PAIR.format("").replace("Own", "Again"), "the same search is registered already"),
    "a name that is taken": (
        RELU + "def r(x): return op.Neg(x)\nfusionc.register_replacement(s, r, name='IdentityPass')",
        "two passes called IdentityPass",
    ),
    "an unknown scalar": (
        RELU + "def r(x): return op.Neg(x)\nfusionc.register_replacement(s, r, scalar_workaround={'k': 1})",
        "which is no argument",
    ),
    "it raises": (
        RELU + "def r(x): return op.Neg(x.nothing)\nfusionc.register_replacement(s, r, name='Own')",
        "Own failed: AttributeError",
    ),
    "a wrong answer": (
        RELU + "def r(x): return op.Neg(x)\nfusionc.register_replacement(s, r, name='Own')",
        "does not compute",
    ),
    "for ever, in itself": (
        RELU + "def r(x):\n  while True: pass\nfusionc.register_replacement(s, r, name='Own')",
        "Own has not come to an end",
    ),
    "for ever, in rewrites": (
        RELU + "def r(x): return op.Relu(op.Neg(op.Neg(x)))\nfusionc.register_replacement(s, r, name='Own')",
        "Own",
    ),
    "no such file": ("", "does not exist"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_pass_ends_in_one_error_and_writes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "SECONDS", 0.5)
    code, message = BROKEN[name]
    with pytest.raises(fusionc.FusioncError) as caught:
        if name == "no such file":
            fusionc.convert(ROOT / "sample_models/conv_bn.onnx", output="out.onnx", custom_passes=["missing.py"])
        else:
            convert(code)
    assert message in f"{caught.value}" and caught.value.hint
    if name in ("no Python", "fails when it is read", "other arguments", "it raises", "for ever, in itself"):
        assert re.search(r"own\.py:\d+", caught.value.where)
    assert not Path("out.onnx").exists()


def test_the_dump_of_the_graph() -> None:
    report = convert(PAIR.format(""), optimization_switch=OFF, dump_graph="dump")
    names = sorted(path.name for path in Path("dump").glob("*.onnx"))
    assert names[0] == "0000_input.onnx" and names[-1].endswith("_output.onnx") and "Own" in " ".join(names)
    assert onnx.load(Path("dump", names[-1])) == onnx.load("out.onnx")
    assert "Gemm" in Path("dump", names[-1]).with_suffix(".txt").read_text()
    without = Path("out.onnx").read_bytes()
    convert(PAIR.format(""), optimization_switch=OFF)
    assert Path("out.onnx").read_bytes() == without and report.nodes_after < report.nodes_before


def test_builders_are_for_search_and_replacement() -> None:
    with pytest.raises(RuntimeError, match="register_replacement"):
        fusionc.op.Relu(1.0)
