"""What depends on the order of a reduction is no difference; everything else still is one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from harness import parse

from fusionc.runtime.runner import Runner
from fusionc.verify import Verification, verify
from fusionc.verify.order_dependence import OrderDependence

HEAD = (
    "agraph (float[N,100] x{more}) => ({result}[{rows}] y) "
    "<int64[1] a = {{1}}, int64[1] e = {{-999}}, int64[1] m = {{-1}}>"
)
FACTOR = "f = Constant <value = float {{{}}}> ()"
# Behind the reduction of b, p is what it gives; between, its elements may be turned around.
PRODUCT = ("s = Mul (x, x) b = Add (s, x)", "ReduceProd")
LARGE = (f"{FACTOR.format('2e35')} b = Mul (x, f)", "ReduceSum")
CANCELS = (
    f"{FACTOR.format('1e3')} w = Mul (x, f) s = Neg (w) b = Concat <axis = 1> (w, x, s)",
    "ReduceSum",
)
SUMS = {"a product": PRODUCT, "a sum of large numbers": LARGE, "a sum that cancels": CANCELS}


def body(made: tuple[str, str], behind: str = "y = Identity (p)", *, turned: bool = False) -> str:
    b = "b = Identity (b0)" if not turned else "b = Slice (b0, m, e, a, m)"
    first, op = made
    return f"{first.replace('b = ', 'b0 = ')} {b} p = {op} <keepdims = 0> (b, a) {behind}"


def judge(
    tmp_path: Path,
    given: str,
    other: str,
    *,
    more: str = "",
    result: str = "float",
    rows: str = "N",
) -> Verification:
    head = HEAD.format(more=more, result=result, rows=rows)
    onnx.save(parse(f"{head} {{ {given} }}"), tmp_path / "a.onnx")
    onnx.save(parse(f"{head} {{ {other} }}"), tmp_path / "b.onnx")
    return verify(tmp_path / "a.onnx", tmp_path / "b.onnx")


@pytest.mark.parametrize("case", SUMS)
def test_another_order_is_the_same(tmp_path: Path, case: str) -> None:
    found = judge(tmp_path, body(SUMS[case]), body(SUMS[case], turned=True))
    assert found.status == "equal" and found.runs >= 4, found


@pytest.mark.parametrize("case", SUMS)
def test_a_wrong_factor_is_a_difference(tmp_path: Path, case: str) -> None:
    factor = 2 if case == "a sum that cancels" else 1.01
    wrong = f"g = Constant <value = float {{{factor}}}> () y = Mul (p, g)"
    for turned in (False, True):
        assert (
            judge(tmp_path, body(SUMS[case]), body(SUMS[case], wrong, turned=turned)).status
            == "different"
        )


@pytest.mark.parametrize("case", SUMS)
def test_a_nan_that_is_lost_is_a_difference(tmp_path: Path, case: str) -> None:
    """Some rows have a NaN among their elements: that makes it NaN in every order."""
    wrong = "n = IsNaN (p) c = Constant <value = float {7}> () y = Where (n, c, p)"
    for turned in (False, True):
        found = judge(tmp_path, body(SUMS[case]), body(SUMS[case], wrong, turned=turned))
        assert found.status == "different" and found.differences[0].run.startswith("NaN"), found


def test_it_is_followed_to_where_it_is_seen(tmp_path: Path) -> None:
    """A truth value, a row that is chosen, a sum that it is part of."""
    for behind, result, rows in (
        ("n = IsNaN (p) y = Not (n)", "bool", "N"),
        ("i = ArgMax <keepdims = 0, axis = 0> (p) y = Gather (x, i)", "float", "100"),
        ("y = ReduceSum <keepdims = 1> (p)", "float", "1"),
    ):
        given, same = (body(PRODUCT, behind, turned=turned) for turned in (False, True))
        assert judge(tmp_path, given, same, result=result, rows=rows).status == "equal", behind
    wrong = body(PRODUCT, "n = IsNaN (p) y = Identity (n)")
    assert (
        judge(tmp_path, body(PRODUCT, "n = IsNaN (p) y = Not (n)"), wrong, result="bool").status
        == "different"
    )


def test_what_no_input_decides_is_not_verified(tmp_path: Path) -> None:
    far = (
        f"{FACTOR.format('1e20')} w = Mul (x, f) s = Reciprocal (w) b = Concat <axis = 1> (w, s)",
        "ReduceProd",
    )
    found = judge(tmp_path, body(far), body(far, "y = Neg (p)"))
    assert found.status == "impossible" and "depends on the order" in found.summary


def test_in_a_branch_only_finite_inputs_count(tmp_path: Path) -> None:
    """What is read there is not known: NaN and infinities say nothing then, ordinary numbers do."""
    text = "t = branch () => (float[N] {1}) {{ q{1} = ReduceMax <keepdims = 0> (x, a) {1} = {0} (q{1}) }}"
    branches = [
        text.format("Identity", name).replace("t =", f"{which}_branch =")
        for which, name in (("then", "r"), ("else", "s"))
    ]
    other = [branch.replace("Identity (q", "Neg (q") for branch in branches]
    nan = [
        branch.replace("ReduceMax <keepdims = 0> (x, a)", "ReduceMax <keepdims = 0> (z, a)")
        for branch in branches
    ]
    kept = "n = IsNaN (x) c = Constant <value = float {-9}> () z = Where (n, c, x)"
    given = f"y = If (which) <{', '.join(branches)}>"
    assert (
        judge(
            tmp_path, given, f"{kept} y = If (which) <{', '.join(nan)}>", more=", bool which"
        ).status
        == "equal"
    )
    assert (
        judge(tmp_path, given, f"y = If (which) <{', '.join(other)}>", more=", bool which").status
        == "different"
    )


def test_beside_a_branch_all_inputs_count(tmp_path: Path) -> None:
    """What does not come of the branch with a reduction is compared on NaN and infinities, too."""
    branches = [
        (
            f"{which}_branch = {which} () => (float[N] {name}) {{ {name} = ReduceMax <keepdims = "
            f"0> (x, a) }}"
        )
        for which, name in (("then", "r"), ("else", "s"))
    ]
    head = HEAD.replace("({result}", "(float[N] z, {result}")
    given = f"z = If (which) <{', '.join(branches)}> p = Exp (x)"
    wrong = "n = IsNaN (p) c = Constant <value = float {-9}> () y = Where (n, c, p)"
    paths = []
    for name, behind in (("a", "y = Identity (p)"), ("b", wrong)):
        paths.append(tmp_path / f"{name}.onnx")
        text = head.format(more=", bool which", result="float", rows="N,100")
        onnx.save(parse(f"{text} {{ {given} {behind} }}"), paths[-1])
    found = verify(*paths)
    assert found.status == "different" and found.differences[0].run.startswith("NaN"), found


def test_functions_are_looked_into(tmp_path: Path) -> None:
    paths = []
    for name, turned in (("a", False), ("b", True)):
        model = parse(
            f"{HEAD.format(more='', result='float', rows='N')} {{ {body(PRODUCT, turned=turned)} }}"
        )
        function = model.functions.add(name="inner", domain="own", input=["x"], output=["y"])
        function.opset_import.add(domain="", version=18)
        for initializer in model.graph.initializer:
            value = onnx.helper.make_attribute("value", initializer)
            function.node.append(onnx.helper.make_node("Constant", [], [initializer.name]))
            function.node[-1].attribute.append(value)
        function.node.extend(model.graph.node)
        del model.graph.node[:], model.graph.initializer[:]
        model.graph.node.append(onnx.helper.make_node("inner", ["x"], ["y"], domain="own"))
        model.opset_import.add(domain="own", version=1)
        paths.append(tmp_path / f"{name}.onnx")
        onnx.save(model, paths[-1])
    assert verify(*paths).status == "equal"


@pytest.mark.parametrize("kind", [1, 10])
def test_a_count_of_a_mask_leaves_nothing_open(tmp_path: Path, kind: int) -> None:
    """A sum of zeros and ones is the same in every order, so that what it is a size of is, too."""
    given = f"""s = Sign (x) b = Abs (s) h = Cast <to = {kind}> (b) c = ReduceSum <keepdims = 0> (h, a)
        i = Cast <to = 7> (c) l = ReduceMax <keepdims = 1> (i) k = Constant <value = int64[1] {{0}}> ()
        d = Slice (x, k, l, a) p = Tanh (d)"""
    wrong = "f = Constant <value = float {1.01}> () y = Mul (p, f)"
    found = judge(tmp_path, f"{given} y = Identity (p)", f"{given} {wrong}")
    assert found.status == "different" and found.runs == 0, found


def test_a_product_that_overflows_on_the_way_may_be_associated_in_another_way(
    tmp_path: Path,
) -> None:
    """-2e38 · x · Sigmoid(-2e38) is NaN or 0."""
    given = "p = Mul (g, x) y = Mul (p, s)"
    wrong = "q = Mul (s, s) p = Mul (g, q) y = Mul (p, x)"
    for factor, other, status in (
        ("2e38", "q = Mul (g, s) y = Mul (q, x)", "equal"),
        ("2e38", wrong.replace("(p, x)", "(p, f)"), "different"),
        ("2", "q = Mul (g, s) y = Mul (q, x)", "equal"),
        ("2", wrong, "different"),
    ):
        made = f"{FACTOR.format(factor)} g = Mul (x, f) s = Sigmoid (g)"
        found = judge(tmp_path, f"{made} {given}", f"{made} {other}", rows="N,100")
        assert found.status == status, (factor, other, found)


def test_what_a_cast_makes_of_numbers_beyond_its_integers_is_open(tmp_path: Path) -> None:
    """What is beyond -128 and 127 may become these."""
    made = f"{FACTOR.format(100)} h = Mul (x, f)"
    kept = "l = Constant <value = float {-128}> () u = Constant <value = float {127}> () c = Clip (h, l, u)"
    given = f"{made} y = Cast <to = 3> (h)"
    found = judge(
        tmp_path, given, f"{made} {kept} y = Cast <to = 3> (c)", result="int8", rows="N,100"
    )
    assert found.status == "equal", found
    wrong = f"{made} {kept} n = Neg (c) y = Cast <to = 3> (n)"
    assert judge(tmp_path, given, wrong, result="int8", rows="N,100").status == "different"


@pytest.mark.parametrize(("factor", "status"), [("3e38", "equal"), ("1e8", "different")])
def test_a_sum_of_products_that_overflow_decides_nothing(
    tmp_path: Path, factor: str, status: str
) -> None:
    """What is added last may be lost to an infinity, or make NaN of it; a wrong sum of smaller ones
    is one.
    """
    head = "agraph (float[N,3] x) => (float[N,1] y)"
    for name, weights in (
        ("a", f"{factor}, {factor}, -{factor}"),
        ("b", f"{factor}, -{factor}, {factor}"),
    ):
        onnx.save(
            parse(f"{head} <float[3,1] w = {{{weights}}}> {{ y = MatMul (x, w) }}"),
            tmp_path / f"{name}.onnx",
        )
    assert verify(tmp_path / "a.onnx", tmp_path / "b.onnx").status == status


@pytest.mark.parametrize(("factor", "most"), [("1", 8), ("1e38", 13)])
def test_one_sample_is_run_in_other_orders_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factor: str, most: int
) -> None:
    """Where nothing may be anything, a few orders say as much as many."""
    text = (
        "agraph (float[N,100] x) => (float[N] y) <int64[1] a = {1}> "
        f"{{ {FACTOR.format(factor)} z = Mul (x, f) y = ReduceSum <keepdims = 0> (z, a) }}"
    )
    onnx.save(parse(text), tmp_path / "a.onnx")
    runs = list[object]()
    run = Runner.run
    monkeypatch.setattr(Runner, "run", lambda self, feeds: runs.append(feeds) or run(self, feeds))
    orders = OrderDependence(tmp_path / "a.onnx")
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 100)).astype(np.float32)}
    with np.errstate(over="ignore", invalid="ignore"):
        outputs = [(feeds["x"] * np.float32(factor)).sum(1)]
    (reach,) = orders.reaches(feeds, outputs)
    assert reach is not None and reach.any() and len(runs) == most
    assert orders.reaches(feeds, outputs)[0] is reach and len(runs) == most
    assert orders.reaches(dict(feeds), outputs)[0] is not reach, "other inputs may be other ones"


def test_before_where_exists_another_order_is_the_same(tmp_path: Path) -> None:
    text = (
        "agraph (float[N,100] x) => (float[N] y) { s = Mul (x, x) b = Add (s, x) "
        "l, r = Split <axis = 1> (b) c = Concat <axis = 1> (l, r) "
        "p = ReduceProd <axes = [1], keepdims = 0> (c) y = Neg (p) }"
    )
    onnx.save(parse(text, 8), tmp_path / "a.onnx")
    onnx.save(parse(text.replace("(l, r)", "(r, l)"), 8), tmp_path / "b.onnx")
    found = verify(tmp_path / "a.onnx", tmp_path / "b.onnx")
    assert found.status == "equal" and found.runs >= 4, found
    onnx.save(parse(text.replace("Neg (p)", "Abs (p)"), 8), tmp_path / "b.onnx")
    assert verify(tmp_path / "a.onnx", tmp_path / "b.onnx").status == "different"


@pytest.mark.parametrize(
    ("status", "other"),
    [
        ("equal", "y, s, z = DynamicQuantizeLinear (x)"),
        ("different", "v = Abs (x) y, s, z = DynamicQuantizeLinear (v)"),
        ("different", "p = Mul (x, f) y, s, z = DynamicQuantizeLinear (p)"),
    ],
)
def test_where_a_nan_lies_decides_a_dynamic_quantization(
    tmp_path: Path, status: str, other: str
) -> None:
    head = "agraph (float[N,41] x) => (uint8[?,?] y, float scale) <float f = {1.05}>"
    given = "t = Transpose (x) q, s, z = DynamicQuantizeLinear (t) y = Transpose (q)"
    for name, text in (("a", given), ("b", other)):
        onnx.save(parse(f"{head} {{ {text} scale = Identity (s) }}"), tmp_path / f"{name}.onnx")
    found = verify(tmp_path / "a.onnx", tmp_path / "b.onnx")
    assert found.status == status, found.summary
