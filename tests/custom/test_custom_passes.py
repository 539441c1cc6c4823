"""Users' own passes: they behave like built-in ones, and when they are broken, one error says where."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from harness import parse
from onnx import ModelProto

import fusionc
from fusionc import op
from fusionc.api import why
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


def convert(code: str, model: str | ModelProto = MODEL, **options: Any) -> fusionc.Report:
    Path("own.py").write_text(HEAD + code)
    onnx.save(model if isinstance(model, ModelProto) else parse(model), "in.onnx")
    return fusionc.convert("in.onnx", output="out.onnx", custom_passes=["own.py"], **options)


def effects(report: fusionc.Report) -> dict[str, int]:
    found: dict[str, int] = {}
    for count in report.patterns:
        found[count.pass_name] = found.get(count.pass_name, 0) + count.effected
    return found


def test_the_example_of_the_documentation() -> None:
    code = re.search(
        r"```python\n# my_passes.py\n(.*?)```",
        (ROOT / "docs/custom_passes.md").read_text(),
        re.DOTALL,
    )
    assert code is not None
    report = convert(code.group(1))
    assert effects(report)["ReluScalePass"] == 1 and report.verification.startswith("equal")
    assert any(
        "GraphFusionPass[ReluScalePass]: pattern=ReluScalePass, matched_times=1, effected_times=1."
        in line
        for line in report.pattern_lines
    )


def test_a_number_has_the_type_that_the_operator_wants() -> None:
    """Not that of the condition, nor an index that of what is indexed."""
    code = """
def kept(c, x): return op.Where(c, op.Neg(x), 0.0)
def negated(c, x): return op.Neg(op.Where(c, x, 0.0))
def row(x): return op.Gather(op.Abs(x), 0)
def row_first(x): return op.Abs(op.Gather(x, 0))
def power(x): return op.Floor(op.Sqrt(x))
def half_power(x): return op.Floor(op.Pow(x, 0.5))
fusionc.register_replacement(kept, negated)
fusionc.register_replacement(row, row_first)
fusionc.register_replacement(power, half_power)
"""
    model = """agraph (float[4,3] x, bool[4,3] c) => (float[4,3] y, float[3] z, float[4,3] w) <int64 i = {0}, float zero = {0}> {
        a = Neg (x) y = Where (c, a, zero) b = Abs (x) z = Gather (b, i) d = Sqrt (x) w = Floor (d) }"""
    report = convert(code, model)
    assert {name: effects(report)[name] for name in ("kept", "row", "power")} == {
        "kept": 1,
        "row": 1,
        "power": 1,
    }


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
    assert "Own" not in effects(
        convert(PAIR.format(""), optimization_switch=OFF, pattern_fusion_pass=False)
    )


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
    assert (
        "off by --pattern_fusion_pass: Own, OtherPass, AddRmsNormDynamicQuantFusionPass"
        in report.notices
    )


def test_the_extra_check_refuses() -> None:
    report = convert(PAIR.format(", extra_check=lambda m: m.x.rank == 3"), optimization_switch=OFF)
    (count,) = [count for count in report.patterns if count.pass_name == "Own"]
    assert count.refused == {"the extra check refuses the match": 1}


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
    assert effects(report)["Own"] == 1 and report.operators_after == {
        "LeakyRelu": 1,
        "Sub": 1,
        "Abs": 1,
    }


def test_the_same_argument_is_the_same_value() -> None:
    code = """
def s(x): return op.Mul(x, x)
def r(x): return op.Pow(x, 2.0)
fusionc.register_replacement(s, r, name="Own")
"""
    model = "agraph (float[N,4] x, float[N,4] z) => (float[N,4] y, float[N,4] w) { y = Mul (x, x) w = Mul (x, z) }"
    assert (
        effects(
            convert(code, model, optimization_switch="PowToMulPass:off;ArithmeticSimplifyPass:off")
        )["Own"]
        == 1
    )


def test_a_subclass_of_pass() -> None:
    code = """
class DoubleNegationPass(fusionc.Pass):
    \"\"\"Neg of Neg goes.\"\"\"
    patterns = (fusionc.Pattern("NegNeg", fusionc.rewrite.op.Neg(fusionc.rewrite.op.Neg(fusionc.rewrite.var("x")))),)
    def rewrite(self, m, new): return m.x
"""
    model = "agraph (float[N,4] x) => (float[N,4] y) { a = Neg (x) b = Neg (a) y = Abs (b) }"
    report = convert(
        "import fusionc.rewrite" + code,
        model,
        optimization_switch="IdempotentOpPass:off;ArithmeticSimplifyPass:off",
    )
    assert effects(report)["DoubleNegationPass"] == 1


def test_the_order() -> None:
    Path("own.py").write_text(
        HEAD
        + PAIR.format("")
        + PAIR.format(', kind="UBFusion"')
        .replace("Own", "OwnUb")
        .replace("op.MatMul(x, w), b", "b, op.MatMul(x, w)")
    )
    passes = load_passes([Path("own.py")])
    names = [p.name for p in passes]
    first_ub = next(i for i, p in enumerate(passes) if p.kind == "UBFusion")
    assert names.index("Own") == first_ub - 1 and names[-1] == "OwnUb"


def test_duplicates_are_left_out_where_asked() -> None:
    code = PAIR.format("") + PAIR.format(", skip_duplicates=True").replace("Own", "Again")
    assert effects(convert(code, optimization_switch=OFF))["Own"] == 1


RELU = "def s(x): return op.Relu(x)\n"
CLASS = "import fusionc.rewrite as fr\nclass OwnPass(fusionc.Pass):\n  patterns = (fusionc.Pattern('a', fr.op.Relu(fr.var('x'))),)\n  {}\n"
BROKEN: dict[str, tuple[str, str]] = {
    "no Python": ("def s(x:\n", "SyntaxError"),
    "fails when it is read": ("1 / 0\n", "ZeroDivisionError"),
    "other arguments": (
        RELU + "def r(y): return op.Neg(y)\nfusionc.register_replacement(s, r)",
        "different arguments",
    ),
    "no operator": (
        "def s(x): return x\nfusionc.register_replacement(s, s)",
        "returns no operator",
    ),
    "a duplicate": (
        PAIR.format("") + PAIR.format("").replace("Own", "Again"),
        "the same search is registered already",
    ),
    "a name that is taken": (
        RELU
        + "def r(x): return op.Neg(x)\nfusionc.register_replacement(s, r, name='IdentityPass')",
        "two passes called IdentityPass",
    ),
    "an unknown scalar": (
        RELU
        + "def r(x): return op.Neg(x)\nfusionc.register_replacement(s, r, scalar_workaround={'k': 1})",
        "which is not an argument",
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
        "Own did not end within",
    ),
    "for ever, in rewrites": (
        RELU
        + "def r(x): return op.Relu(op.Neg(op.Neg(x)))\nfusionc.register_replacement(s, r, name='Own')",
        "Own",
    ),
    "no such file": ("", "does not exist"),
    "it ends the program": ("import sys\nsys.exit(0)\n", "cannot be loaded: SystemExit: 0"),
    "for ever, when it is read": ("while True: pass\n", "own.py did not end within"),
    "for ever, in the search": (
        "def s(x):\n  while True: pass\nfusionc.register_replacement(s, s)",
        "did not end within",
    ),
    "for ever, and it catches errors": (
        RELU
        + "def r(x):\n  while True:\n    try:\n      [0 for _ in range(99)]\n    except Exception: pass\nfusionc.register_replacement(s, r, name='Own')",
        "Own did not end within",
    ),
    "the rewrite ends the program": (
        RELU + "import sys\ndef r(x): sys.exit(0)\nfusionc.register_replacement(s, r, name='Own')",
        "Own failed: SystemExit: 0",
    ),
    "an operator that there is not": (
        "def s(x): return op.Rlu(x)\nfusionc.register_replacement(s, s)",
        "no operator Rlu; did you mean Relu?",
    ),
    "an attribute that there is not": (
        "def s(x): return op.LeakyRelu(x, alhpa=0.1)\nfusionc.register_replacement(s, s)",
        "LeakyRelu has no attribute alhpa",
    ),
    "an operator to put that there is not": (
        RELU + "def r(x): return op.Rlu(x)\nfusionc.register_replacement(s, r, name='Own')",
        "Own failed: ValueError: ONNX has no operator Rlu",
    ),
    "it returns nothing": (
        RELU + "def r(x): op.Neg(x)\nfusionc.register_replacement(s, r, name='Own')",
        "the replacement is None",
    ),
    "it returns text": (
        RELU + "def r(x): return 'y'\nfusionc.register_replacement(s, r, name='Own')",
        "'y' is neither a value of the model nor a number",
    ),
    "it returns too much": (
        RELU + "def r(x): return x, x\nfusionc.register_replacement(s, r, name='Own')",
        "returned 2 values for 1 outputs",
    ),
    "it returns what it made before": (
        RELU
        + "old = []\ndef r(x):\n  old.append(op.Neg(x))\n  return old[0]\nfusionc.register_replacement(s, r, name='Own')",
        "the result does not compute what the model computes",
    ),
    "an invalid graph": (
        RELU
        + "def r(x): return op.Foo(x, domain='my.own')\nfusionc.register_replacement(s, r, name='Own')",
        "not a valid ONNX model",
    ),
    "it changes the graph by itself": (
        RELU
        + "def r(x):\n  x.graph.nodes.clear()\n  return op.Relu(x)\nfusionc.register_replacement(s, r, name='Own')",
        "Own failed: TypeError: a pass cannot change a NodesOfGraph: the values that a rewrite returns",
    ),
    "an argument of no use": (
        "def s(x, w): return op.Relu(x)\ndef r(x, w): return op.Mul(x, w)\nfusionc.register_replacement(s, r)",
        "does not use w",
    ),
    "arguments without names": (
        "def s(*x): return op.Relu(*x)\nfusionc.register_replacement(s, s)",
        "without *",
    ),
    "a function without a name": (
        "fusionc.register_replacement(lambda x: op.Relu(x), lambda x: x)",
        "cannot be the name of a pass",
    ),
    "no function": ("fusionc.register_replacement(1, 2)", "is not a function"),
    "a name with a meaning": (
        RELU + "fusionc.register_replacement(s, s, name='ALL')",
        "cannot be the name of a pass",
    ),
    "a kind that there is not": (
        RELU + "fusionc.register_replacement(s, s, kind='Fusion')",
        "kind is 'Fusion'",
    ),
    "a check that is not a function": (
        RELU + "fusionc.register_replacement(s, s, extra_check=True)",
        "is not a function",
    ),
    "scalars without numbers": (
        RELU + "fusionc.register_replacement(s, s, scalar_workaround=['x'])",
        "not a mapping",
    ),
    "a check that fails": (
        RELU + "fusionc.register_replacement(s, s, name='Own', extra_check=lambda m: m.nothing)",
        "captures no 'nothing'",
    ),
    "two that undo each other": (
        "def a(x): return op.Relu(x)\ndef b(x): return op.LeakyRelu(x, alpha=0.0)\n"
        "fusionc.register_replacement(a, b)\nfusionc.register_replacement(b, a)",
        "a, b still take effect",
    ),
    "a class with arguments": (
        "class OwnPass(fusionc.Pass):\n  def __init__(self, a): pass\n",
        "missing 1 required positional argument",
    ),
    "a class without patterns": ("class OwnPass(fusionc.Pass): pass\n", "OwnPass has no patterns"),
    "a class with other patterns": (
        "class OwnPass(fusionc.Pass): patterns = (1,)\n",
        "not a tuple of Pattern",
    ),
    "a pattern of nothing": (
        "class OwnPass(fusionc.Pass): patterns = (fusionc.Pattern('a'),)\n",
        "without a formula",
    ),
    "a pattern of any value": (
        "import fusionc.rewrite\nclass OwnPass(fusionc.Pass): patterns = (fusionc.Pattern('a', fusionc.rewrite.var('x')),)\n",
        "must begin with an operator",
    ),
    "a default that there is not": (CLASS.format("default = 'yes'"), "default 'yes'"),
    "an alias that is no tuple": (CLASS.format("aliases = 'own'"), "not a tuple of names"),
    "an alias that is taken": (
        CLASS.format("aliases = ('IdentityPass',)"),
        "two passes called IdentityPass",
    ),
    "a class without a rewrite": (
        CLASS.format("default = 'on'"),
        "OwnPass has a pattern without a rewrite",
    ),
    "a find that gives something else": (
        "def find(graph): yield 1\nclass OwnPass(fusionc.Pass): patterns = (fusionc.Pattern('a', find=find),)\n",
        "OwnPass failed: AttributeError",
    ),
}


@pytest.mark.parametrize("text", ["x = 1\n", '{"Switch": {"GraphFusion": {"ALL": "off"}}}'])
def test_a_file_without_a_pass_is_refused(text: str) -> None:
    """Who forgets to register, or gives a switch file there, would not learn it from the result."""
    with pytest.raises(fusionc.UsageError, match="has no pass") as caught:
        convert(text)
    assert caught.value.where == "own.py" and not Path("out.onnx").exists()


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_pass_ends_in_one_error_and_writes_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, message = BROKEN[name]
    if "did not end" in message:  # no other case may be cut short: a busy machine is slow
        monkeypatch.setattr(watchdog, "SECONDS", 0.5)
    with pytest.raises(fusionc.FusioncError) as caught:
        if name == "no such file":
            fusionc.convert(
                ROOT / "sample_models/conv_bn.onnx", output="out.onnx", custom_passes=["missing.py"]
            )
        else:
            convert(code)
    assert message in f"{caught.value}" and caught.value.hint
    if name != "no such file":
        assert re.search(r"own\.py:\d+", caught.value.where)
    assert not Path("out.onnx").exists()


def test_the_program_ends_even_if_everything_is_caught() -> None:
    loop = "def r(x):\n  while True:\n    try:\n      [0 for _ in range(99)]\n    except: pass\nfusionc.register_replacement(s, r, name='Own')"
    Path("own.py").write_text(HEAD + RELU + loop)
    onnx.save(parse(MODEL), "in.onnx")
    program = (
        "import fusionc, fusionc.custom.watchdog as w; w.SECONDS, w._REPEAT_SECONDS = 0.5, 0.1; "
        "fusionc.convert('in.onnx', output='out.onnx', custom_passes=['own.py'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (
        done.returncode == 1
        and "Own did not end within" in done.stderr
        and "own.py:" in done.stderr
    )
    assert not Path("out.onnx").exists()


def test_a_pass_that_never_takes_effect_says_why() -> None:
    code = (
        RELU + "def r(x): return op.Cast(x, to=11)\nfusionc.register_replacement(s, r, name='Own')"
    )
    assert "Own matched, and took no effect: the element type would change" in convert(code).notices


ADDED = "def s(x, y): return op.Neg(op.Add(x, y))\ndef r(x, y): return op.Sub(op.Neg(x), y)\nfusionc.register_replacement(s, r, name='Own')"


def test_what_was_refused_is_told_even_where_another_pass_takes_the_place() -> None:
    model = "g (float[2, 3] x) => (float[2, 3] y) {s = Sigmoid(x) y = Mul(x, s)}"
    code = """
def s(x): return x * op.Sigmoid(x)
def r(x): return op.Gelu(x)
fusionc.register_replacement(s, r, name="Own")
"""
    report = convert(code, model)
    assert effects(report)["QuickGeluFusionPass"] == 1
    assert [count.refused for count in report.patterns if count.pass_name == "Own"] == [
        {"opset 18 has no Gelu": 1}
    ]
    assert "Own matched, and took no effect: opset 18 has no Gelu" in report.notices


def test_a_pass_that_matches_nowhere_is_told() -> None:
    code = """
def s(x): return op.Mish(x)
def r(x): return op.Relu(x)
fusionc.register_replacement(s, r, name="Own")
"""
    assert "matched nowhere: Own" in convert(code).notices


def test_values_between_are_private_and_outputs_are_not() -> None:
    model = "agraph (float[N,4] x, float[N,4] z) => (float[N,4] y, float[N,4] w{}) {{ a = Add (x, z) y = Neg (a) w = Tanh ({}) }}"
    assert effects(convert(ADDED, model.format("", "y")))["Own"] == 1
    for refused in (model.format("", "a"), model.format(", float[N,4] a", "y")):
        report = convert(ADDED, refused)
        assert effects(report)["Own"] == 0 and any(
            "an interior value" in notice for notice in report.notices
        )


def test_a_literal_is_captured() -> None:
    code = """
def s(x, epsilon): return op.Sqrt(op.Add(x, epsilon))
def r(x, epsilon): return op.Pow(op.Add(x, epsilon * 2 - epsilon), 0.5)
fusionc.register_replacement(s, r, [None, None], scalar_workaround={"epsilon": 2e-6}, name="Own")
"""
    model = "agraph (float[N,4] x) => (float[N,4] y) <float e = {1.5}> { a = Abs (x) b = Add (a, e) y = Sqrt (b) }"
    assert effects(convert(code, model, optimization_switch="PowToMulPass:off"))["Own"] == 1
    several = model.replace("float e = {1.5}", "float[4] e")
    assert (
        "Own matched, and took no effect: epsilon is not a single number"
        in convert(code, several).notices
    )


def test_a_base_class_and_a_neighbour() -> None:
    Path("neighbour.py").write_text("SLOPE = -1.0\n")
    code = """
import neighbour
import fusionc.rewrite as fr
class Base(fusionc.Pass):
    def rewrite(self, m, new): return new.Mul(new.Tanh(m.x), new.const(neighbour.SLOPE, like=m.x))
class OwnPass(Base):
    patterns = (fusionc.Pattern("NegTanh", fr.op.Neg(fr.op.Tanh(fr.var("x")))),)
"""
    model = "agraph (float[N,4] x) => (float[N,4] y) { a = Tanh (x) y = Neg (a) }"
    assert effects(convert(code, model))["OwnPass"] == 1
    assert not any(p.name == "Base" for p in load_passes([Path("own.py")]))


def test_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every time, although Python executes a module once."""
    found = Path("installed/own-1.dist-info")
    found.mkdir(parents=True)
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1\n")
    (found / "entry_points.txt").write_text(
        "[fusionc.passes]\na = own_entry\nb = own_entry_class:OwnPass\n"
    )
    Path("installed/own_entry.py").write_text(
        HEAD + RELU + "fusionc.register_replacement(s, s, name='OwnEntry')"
    )
    Path("installed/own_entry_class.py").write_text(HEAD + CLASS.format("default = 'off'"))
    monkeypatch.syspath_prepend(str(Path("installed").absolute()))
    for _ in range(2):
        passes = {p.name: p for p in load_passes()}
        assert (
            passes["OwnEntry"].place.endswith("own_entry.py:3")
            and passes["OwnPass"].is_pattern_fusion
        )
    Path("own.py").write_text(HEAD + RELU + "fusionc.register_replacement(s, s, name='Again')")
    with pytest.raises(fusionc.UsageError, match="registered already"):
        load_passes([Path("own.py")])


def test_a_file_of_another_name() -> None:
    Path("passes.txt").write_text(HEAD + RELU + "fusionc.register_replacement(s, s, name='Own')")
    assert load_passes([Path("passes.txt")])[-1].kind == "UBFusion"
    with pytest.raises(fusionc.UsageError, match="is not a file"):
        load_passes([Path()])


def test_the_dump_of_the_graph() -> None:
    report = convert(PAIR.format(""), optimization_switch=OFF, dump_graph="dump")
    names = sorted(path.name for path in Path("dump").glob("*.onnx"))
    assert (
        names[0] == "0000_input.onnx"
        and names[-1].endswith("_output.onnx")
        and "Own" in " ".join(names)
    )
    assert onnx.load(Path("dump", names[-1])) == onnx.load("out.onnx")
    assert "Gemm" in Path("dump", names[-1]).with_suffix(".txt").read_text()
    without = Path("out.onnx").read_bytes()
    convert(PAIR.format(""), optimization_switch=OFF)
    assert Path("out.onnx").read_bytes() == without and report.nodes_after < report.nodes_before


def test_builders_are_for_search_and_replacement() -> None:
    with pytest.raises(RuntimeError, match="register_replacement"):
        fusionc.op.Relu(1.0)


def test_numbers_of_attributes_are_those_of_float32() -> None:
    code = """
def s(x): return op.LeakyRelu(x, alpha=0.2)
def r(x): return op.Max(x, op.Mul(x, 0.2))
fusionc.register_replacement(s, r, name="Own")
"""
    model = "g (float[N,4] x) => (float[N,4] y, float[N,4] z) { y = LeakyRelu <alpha = 0.2> (x) z = LeakyRelu <alpha = 0.3> (x) }"
    assert effects(convert(code, model))["Own"] == 1


def test_none_is_an_input_that_is_left_out() -> None:
    code = """
def s(x, w): return op.Gemm(x, w, None)
def r(x, w): return op.MatMul(x, w)
fusionc.register_replacement(s, r, name="Own")
"""
    model = "g (float[N,4] x, float[4,4] w, float[4] c) => (float[N,4] y, float[N,4] z) { y = Gemm (x, w) z = Gemm (x, w, c) }"
    report = convert(code, model, optimization_switch=OFF)
    assert effects(report)["Own"] == 1 and report.operators_after == {"MatMul": 1, "Gemm": 1}
    (answer,) = why("in.onnx", "Own", custom_passes=["own.py"], optimization_switch=OFF).passes
    (reason,) = answer.reasons
    assert (
        reason.text
        == "Gemm ‹Gemm:z›: third input ‹c› is an input of the graph, and would have to be left out"
    )


@pytest.mark.parametrize("code", ["op.Reshape(x, {0, -1})", "op.Add(x, 'x')"])
def test_an_operand_of_a_search_is_a_value_or_a_number(code: str) -> None:
    with pytest.raises(
        fusionc.FusioncError, match=r"TypeError: .* is neither a part of a pattern nor a number"
    ):
        convert(f"fusionc.register_replacement(lambda x: {code}, lambda x: op.Abs(x), name='Own')")


@pytest.mark.parametrize(
    ("axes", "effected"),
    [("[1]", 1), ("(1,)", 1), ("[0]", 0), ("[1, 1]", 0), ("[0, 1]", 0), ("np.array([1])", 1)],
)
def test_a_list_in_a_search_is_a_constant(axes: str, effected: int) -> None:
    code = f"""
import numpy as np
def search_fn(x): return op.Sqrt(op.ReduceMean(x ** 2.0, {axes}))
def replace_fn(x): return op.Sqrt(op.ReduceMean(x * x, [1]))
fusionc.register_replacement(search_fn, replace_fn)
"""
    model = "g (float[N,4] x) => (float[N,1] y) <float two = {2}, int64[1] a = {1}> { s = Pow (x, two) m = ReduceMean (s, a) y = Sqrt (m) }"
    report = convert(code, model, optimization_switch=OFF)
    assert effects(report)["search_fn"] == effected


def test_the_signature_of_torchair() -> None:
    """All arguments by position, and what its examples read of a match."""
    code = """
def search_fn(x, w): return op.Relu(op.MatMul(x, w))
def replace_fn(x, w): return op.Clip(op.MatMul(x, w), 0.0, None)
def fwd_only(*arguments): raise AssertionError("nothing is traced")
def extra_check(match):
    x, w = match.kwargs["x"], match.kwargs.get("w")
    return x.meta["val"].shape[-1] == w.meta["val"].shape[0] == 4 and match.kwargs.keys() == {"x", "w"}
fusionc.register_replacement(search_fn, replace_fn, (None, None), fwd_only, extra_check, None, None, True)
fusionc.register_replacement(search_fn, replace_fn, (None, None), fwd_only, extra_check, None, None, True)
"""
    model = "g (float[N,4] x) => (float[N,4] y) <float[4,4] W> { p = MatMul (x, W) y = Relu (p) }"
    report = convert(code, model, optimization_switch=OFF)
    assert effects(report)["search_fn"] == 1 and "Clip" in report.operators_after


def test_two_functions_of_one_name_are_two_passes() -> None:
    code = """
def register(operator, other):
    def search_fn(x): return getattr(op, operator)(x)
    def replace_fn(x): return other(x)
    fusionc.register_replacement(search_fn, replace_fn)
register("Relu", lambda x: op.Clip(x, 0.0, None))
register("Neg", lambda x: 0.0 - x)
register("Abs", lambda x: op.Sqrt(x * x))
"""
    model = "g (float[N] x) => (float[N] y, float[N] z) { y = Relu (x) z = Neg (x) }"
    report = convert(code, model, optimization_switch=f"{OFF};search_fn_2:off")
    done = effects(report)
    assert done["search_fn"] == 1 and "search_fn_2" not in done and done["search_fn_3"] == 0


@pytest.mark.parametrize("form", ["{}", "[{}]"])
def test_a_formula_instead_of_a_search_function(form: str) -> None:
    code = f"""
from fusionc.rewrite import op as pattern, var
def search_fn(x): raise AssertionError("is not called")
def replace_fn(x): return op.Sigmoid(x)
formula = pattern.Relu(pattern.Sigmoid(var("x")))
fusionc.register_replacement(search_fn, replace_fn, search_fn_pattern={form.format("formula")})
"""
    model = "g (float[N] x) => (float[N] y) { a = Sigmoid (x) y = Relu (a) }"
    report = convert(code, model, optimization_switch=OFF)
    assert effects(report)["search_fn"] == 1 and report.operators_after == {"Sigmoid": 1}


@pytest.mark.parametrize("argument", ["trace_fn", "search_fn_pattern"])
def test_a_wrong_argument_of_torchair(argument: str) -> None:
    code = (
        f"fusionc.register_replacement(lambda x: op.Abs(x), lambda x: x, name='Own', {argument}=1)"
    )
    with pytest.raises(fusionc.UsageError, match=r"is not a function|returns no operator"):
        convert(code)


@pytest.mark.parametrize(
    ("search", "nodes", "effected"),
    [
        ("op.Add(op.LeakyRelu(x, alpha=a), op.LeakyRelu(y, alpha=a))", (0.5, 0.5), 1),
        ("op.Add(op.LeakyRelu(x, alpha=a), op.LeakyRelu(y, alpha=a))", (0.5, 0.25), 0),
        ("op.Add(op.LeakyRelu(x, alpha=a), op.LeakyRelu(y * a, alpha=0.25))", (0.5, 0.25), 1),
        ("op.Add(op.LeakyRelu(x, alpha=a), op.LeakyRelu(y * a, alpha=0.5))", (0.25, 0.5), 0),
        ("op.Add(op.LeakyRelu(x, alpha=a), op.Selu(y, alpha=a, gamma=a))", (0.5, 0.5), 0),
    ],
)
def test_a_number_is_the_same_wherever_it_is_named(
    search: str, nodes: tuple[float, float], effected: int
) -> None:
    code = f"""
def s(x, y, a): return {search}
def r(x, y, a): return op.Sub(op.LeakyRelu(x, alpha=a), op.Neg(op.LeakyRelu(y, alpha=a)))
fusionc.register_replacement(s, r, scalar_workaround={{"a": 0.1}}, name="Own")
"""
    scaled = "y" if "y * a" not in search else "m"
    model = f"""g (float[N,4] x, float[N,4] y) => (float[N,4] z) <float half = {{0.5}}> {{ m = Mul (y, half)
        a = LeakyRelu <alpha = {nodes[0]}> (x) b = LeakyRelu <alpha = {nodes[1]}> ({scaled}) z = Add (a, b) }}"""
    (count,) = [c for c in convert(code, model, verify=False).patterns if c.pass_name == "Own"]
    assert count.effected == effected
    assert set(count.refused) <= {"a would have to be several numbers"}


def test_a_number_that_may_have_raised_the_rank() -> None:
    code = """
def s(x, f): return op.Relu(x * f)
def r(x, f): return op.Relu(x) * f
fusionc.register_replacement(s, r, scalar_workaround={"f": 2.0}, name="Own")
"""
    model = "g (float[N] v, int64[K] s) => (float y) <float[1,1] f = {2}> { x = Reshape (v, s) h = Mul (x, f) y = Relu (h) }"
    proto = parse(model)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    (count,) = [c for c in convert(code, proto, verify=False).patterns if c.pass_name == "Own"]
    assert count.refused == {"the rank is unknown, and a constant may have raised it": 1}


PART = "import fusionc\nfrom fusionc import op\nfusionc.register_replacement(lambda x: {}, lambda x: {}, name='{}')\n"


def test_what_a_module_beside_a_file_registers_is_there_each_time() -> None:
    for folder, search, replace in (
        ("a", "op.Relu(x)", "op.Max(x, 0.0)"),
        ("b", "op.Neg(x)", "op.Sub(0.0, x)"),
    ):
        Path(folder).mkdir()
        Path(folder, "part.py").write_text(PART.format(search, replace, f"Own{folder}"))
        Path(folder, "own.py").write_text("import part\n")
    for _ in range(2):
        names = [p.name for p in load_passes([Path("a/own.py"), Path("b/own.py")])]
        assert {"Owna", "Ownb"} <= set(names)
    assert not {"Owna", "Ownb"} & {p.name for p in load_passes()}


def test_what_a_program_registers_itself_counts() -> None:
    model = "g (float[N,4] x) => (float[N,4] y) { a = Neg (x) y = Exp (a) }"
    fusionc.register_replacement(
        lambda x: op.Exp(op.Neg(x)), lambda x: op.Reciprocal(op.Exp(x)), name="Mine"
    )
    for _ in range(2):
        report = convert(PART.format("op.Relu(x)", "op.Max(x, 0.0)", "Own"), model)
        assert effects(report)["Mine"] == 1 and report.operators_after == {
            "Exp": 1,
            "Reciprocal": 1,
        }


def test_a_file_that_the_program_has_imported_is_loaded_once() -> None:
    Path("imported_own.py").write_text(PART.format("op.Relu(x)", "op.Max(x, 0.0)", "Own"))
    exec(
        compile(
            Path("imported_own.py").read_text(), str(Path("imported_own.py").resolve()), "exec"
        ),
        {},
    )
    assert [p.name for p in load_passes([Path("imported_own.py")])].count("Own") == 1


def test_a_second_file_without_a_pass_is_an_error_as_well() -> None:
    Path("first.py").write_text(PART.format("op.Relu(x)", "op.Max(x, 0.0)", "Own"))
    Path("second.py").write_text("import fusionc\n")
    with pytest.raises(fusionc.UsageError, match="has no pass"):
        load_passes([Path("first.py"), Path("second.py")])
