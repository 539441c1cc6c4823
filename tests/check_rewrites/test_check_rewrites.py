"""With --check_rewrites a wrong rewrite is seen where it happens, whatever comes of it in the
end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from harness import optimize, parse, pass_of
from planted_faults import FAULTS, Fault, model_of, planted

import fusionc
from fusionc.check_rewrites.agreement import agreement
from fusionc.check_rewrites.check_rewrites import REFUSED, RewriteChecker
from fusionc.check_rewrites.rewrite_models import RewriteModels
from fusionc.cli import main
from fusionc.errors import VerificationError
from fusionc.passes import PASSES
from fusionc.rewrite import Pass
from fusionc.rewrite.log import Commit
from fusionc.shapes.inference import typed_model

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")

ONE = np.float32(1.0000001)
DEFAULT = [p for p in PASSES if p.default != "off"]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_wrong_rewrite_stops_the_passes_by_its_name(fault: Fault) -> None:
    """That the right rewrites before it are no faults, test_right_rewrites_are_all_checked says."""
    checker = RewriteChecker({})

    def examine(commit: Commit, pass_: Pass, *rest: Any) -> None:
        if pass_.name == fault.pass_name:
            checker.examine(commit, pass_, *rest)

    with planted(fault) as (plant,), pytest.raises(VerificationError) as caught:
        optimize(model_of(fault), DEFAULT, examine=examine)
    expected = f"{fault.pass_name}, pattern {plant.pattern}, at {', '.join(plant.labels)} (rewrite "
    assert caught.value.where.startswith(expected)


@pytest.mark.parametrize("name", ["conv_bn", "matmul_bias", "split_concat", "transformer_block"])
def test_right_rewrites_are_all_checked(name: str) -> None:
    checker = RewriteChecker({})
    fault = next(fault for fault in FAULTS if fault.model == name)
    _, counts = optimize(model_of(fault), DEFAULT, examine=checker.examine)
    assert checker.checked == sum(count.effected for count in counts) > 3 and not checker.unchecked


def test_a_conversion_stops_or_leaves_it_out() -> None:
    fault = FAULTS[1]
    onnx.save(model_of(fault), "model.onnx")
    with planted(fault) as (plant,):
        failed = CliRunner().invoke(
            main, ["convert", "--model", "model.onnx", "--check_rewrites", "--no-verify"]
        )
        report = fusionc.convert(
            "model.onnx", output="out.onnx", check_rewrites=True, on_mismatch="rollback"
        )
    assert failed.exit_code == 3 and not Path("model_fusionc.onnx").exists()
    assert (
        f"{fault.pass_name}, pattern {plant.pattern}, at {', '.join(plant.labels)}" in failed.stderr
    )
    assert f"{fault.pass_name} left {', '.join(plant.labels)} as it is: {REFUSED}" in report.notices
    assert any(notice.endswith("rewrites checked individually") for notice in report.notices)
    assert report.verification is not None and report.verification.startswith("equal")


def test_what_verification_cannot_see_is_seen() -> None:
    """Behind it, nothing of the difference is left."""
    graph = """agraph (float[N,8] x) => (float[N,8] y) <float zero = {0}> {
        i = Identity (x) a = Sin (i) z = Mul (a, zero) y = Add (x, z) }"""
    onnx.save(parse(graph), "model.onnx")
    on = {"oo_level": "O1", "optimization_switch": "IdentityPass:on"}
    with planted(
        Fault("IdentityPass", "an absolute value", lambda new, results: [new.Abs(results[0])])
    ):
        report = fusionc.convert("model.onnx", **on)
        assert report.verification is not None and report.verification.startswith("equal")
        with pytest.raises(VerificationError, match="a rewrite changes the result"):
            fusionc.convert("model.onnx", **on, check_rewrites=True)


def test_bitwise_is_meant_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A difference of one unit in the last place is within every tolerance, but not bitwise."""
    model = parse("agraph (float[N,8] x) => (float[N,8] y) { i = Identity (x) y = Relu (i) }")
    identity = pass_of("IdentityPass")
    nearly = Fault(
        "IdentityPass", "rounding", lambda new, results: [new.Mul(results[0], new.const(ONE))]
    )
    with planted(nearly), pytest.raises(VerificationError, match="not equal bit by bit"):
        optimize(model, [identity], examine=RewriteChecker({}).examine)
    monkeypatch.setattr(type(identity), "numerics", "rounding")
    with planted(nearly):
        optimize(model, [identity], examine=RewriteChecker({}).examine)


@pytest.mark.usefixtures("needs_a_compiler")
def test_a_wrong_kernel_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from fusionc.graph_kernel.lower.operator_table import OPERATORS

    graph = "agraph (float[N,8] x) => (float[N,8] y) { a = Exp (x) b = Tanh (a) y = Sub (b, x) }"
    onnx.save(parse(graph), "model.onnx")
    fusionc.convert("model.onnx", output="out.onnx", enable_graph_kernel=True, check_rewrites=True)
    monkeypatch.setitem(OPERATORS, "Sub", OPERATORS["Add"])
    with pytest.raises(VerificationError, match="a rewrite changes the result") as caught:
        fusionc.convert(
            "model.onnx",
            output="w.onnx",
            enable_graph_kernel=True,
            check_rewrites=True,
            verify=False,
        )
    assert "pattern area" in caught.value.where


def test_areas_that_are_alike_share_a_function() -> None:
    chain = "b{0} = Exp ({1})  s{0} = Add (b{0}, {1})  t{0} = Tanh (s{0})  y{0} = Sub (t{0}, {1})"
    text = "agraph (float[N,8] x, float[N,8] z) => (float[N,8] y0, float[N,8] y1) {"
    onnx.save(parse(f"{text} {chain.format(0, 'x')} {chain.format(1, 'z')} }}"), "model.onnx")
    report = fusionc.convert(
        "model.onnx",
        output="out.onnx",
        enable_graph_kernel=True,
        target="onnx",
        check_rewrites=True,
    )
    assert report.notices[0] == "2 of 2 rewrites checked individually"
    assert len(onnx.load("out.onnx").functions) == 1


def test_an_empty_input_of_huge_dimensions_is_not_drawn() -> None:
    """numpy has no empty array of which the other dimensions multiply to more than it can count."""
    shape = f"float[2,0,{1 << 62}]"
    onnx.save(
        parse(f"agraph ({shape} x) => ({shape} y) {{ i = Identity (x) y = Abs (i) }}"), "a.onnx"
    )
    report = fusionc.convert("a.onnx", check_rewrites=True)
    assert any(
        notice.startswith("0 of 1 rewrites checked individually") for notice in report.notices
    )


def test_constants_that_are_added_to_themselves_again_and_again() -> None:
    """Whoever follows both operands of each goes a billion ways."""
    chain = " ".join(f"c{k + 1} = Add (c{k}, c{k})" for k in range(30))
    text = f"agraph (float[N] x) => (float[N] y) <float c0 = {{1}}> {{ {chain} t = Identity (c30) y = Add (x, t) }}"
    onnx.save(parse(text), "a.onnx")
    report = fusionc.convert(
        "a.onnx", check_rewrites=True, optimization_switch="ConstantFoldingPass:off"
    )
    assert any("rewrites checked individually" in notice for notice in report.notices)


SMALL = """agraph (float[{0}] x, float[{0}] y) => (float[{0}] z) {{
    r = Relu (x) z = Mul (r, {1}) }}"""


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("size", ["8", "1", "1,1,2", "N"])
def test_a_sign_that_matters_for_few_elements(
    size: str,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the first draw is."""
    draw = np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda first: draw([first, seed]))
    before = parse(SMALL.format(size, "y"))
    after = parse(SMALL.format(size, "a").replace("r = ", "a = Abs (y) r = "))
    inputs = tuple(typed_model(before, "").main.inputs)
    for models, agrees in ((before, before), True), ((before, after), False):
        assert agreement(RewriteModels(*models, inputs), "bitwise", False).agrees is agrees


@pytest.mark.parametrize(
    ("body", "is_for_finite", "is_seen"),
    [
        ("z = Less (x, y)", True, True),
        ("n = IsNaN (x) m = IsInf (x) z = Or (n, m)", True, False),
        ("n = IsNaN (x) m = IsInf (x) z = Or (n, m)", False, True),
    ],
)
def test_a_check_that_nothing_fails_decides_nothing(
    body: str,
    is_for_finite: bool,
    is_seen: bool,
) -> None:
    """A fault is put into the replacement: a check has to see one of several."""
    model = parse(f"agraph (float[2,4] x, float[2,4] y) => (bool[M,K] z) {{ {body} }}", opset=20)
    inputs = tuple(typed_model(model, "").main.inputs)
    found = agreement(RewriteModels(model, model, inputs), "bitwise", is_for_finite)
    assert found.agrees is (True if is_seen else None)
    assert found.reason.startswith("" if is_seen else "undecided")


@pytest.mark.parametrize("kind", ["int4", "uint4"])
def test_constants_of_half_bytes(kind: str) -> None:
    """onnxruntime has no Identity of these."""
    text = f"""agraph (float[N,4] x) => (float[N,4] y) <float s = {{0.1}}> {{
        z = Constant <value = {kind} {{3}}> ()
        q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }}"""
    onnx.save(parse(text, opset=21), "model.onnx")
    report = fusionc.convert("model.onnx", output="out.onnx", check_rewrites=True)
    assert report.effected
    assert report.notices[0].startswith(f"{report.effected} of {report.effected} ")
