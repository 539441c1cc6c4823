"""What would take too much to compute is not folded, as far as shapes tell before; what they do not tell ends in time."""

from __future__ import annotations

import os
import signal
from threading import Timer

import pytest
from harness import operators, optimize, parse, pass_of

from fusionc.passes.cleanup import constant_folding
from fusionc.runtime import evaluate
from fusionc.runtime.process import start

TOO_LARGE = "it would take more than 512 MiB to compute"
TOO_LONG = (
    "it would take more than 4 billion multiplications to compute, or all folded nodes together "
    "would take too many"
)
COSTLY = {
    "gigabytes that a sum makes small": (
        "<int64[1] s = {800000000}> { a = ConstantOfShape (s) b = ReduceSum <keepdims = 0> (a) y = Add (x, b) }",
        "ConstantOfShape",
        TOO_LARGE,
    ),
    "a giant product inside an Einsum": (
        "<float[20000, 1] a, float[20000, 1] b, float[20000, 1] c, float[20000, 1] d> "
        '{ e = Einsum <equation = "i...,j...,i...,j...->..."> (a, b, c, d) y = Add (x, e) }',
        "Einsum",
        TOO_LARGE,
    ),
}
SLOW = {
    "MatMul": ("MatMul (a, b)", (4000, 1100), (1100, 4000)),
    "Gemm": ("Gemm <transA = 1> (a, b)", (1100, 4000), (1100, 4000)),
    "Einsum": ('Einsum <equation = "ij,jk->ik"> (a, b)', (4000, 1100), (1100, 4000)),
    "Conv": ("Conv (a, b)", (1, 64, 512, 512), (64, 64, 3, 3)),
    "ConvTranspose": ("ConvTranspose (a, b)", (1, 64, 512, 512), (64, 64, 3, 3)),
    "MaxPool": ("MaxPool <kernel_shape = [300, 300]> (a)", (1, 1, 1000, 1000), (1,)),
}
for operator, (call, *sizes) in SLOW.items():
    s, t = (
        f"int64[{len(dims)}] {n} = {{{', '.join(map(str, dims))}}}"
        for n, dims in zip("st", sizes, strict=True)
    )
    COSTLY[operator] = (
        f"<{s}, {t}> {{ a = ConstantOfShape (s) b = ConstantOfShape (t) c = {call} d = ReduceSum <keepdims = 0> (c) "
        "y = Add (x, d) }",
        operator,
        TOO_LONG,
    )


@pytest.mark.parametrize(("text", "operator", "reason"), COSTLY.values(), ids=COSTLY)
def test_what_takes_too_much_on_the_way_is_refused(text: str, operator: str, reason: str) -> None:
    result, counts = optimize(
        parse(f"agraph (float[N] x) => (float[N] y) {text}"), [pass_of("ConstantFoldingPass")]
    )
    assert operator in operators(result)
    assert reason in {r for count in counts for r in count.refused}


def test_many_products_share_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constant_folding, "_MAX_TOTAL_WORK", 5000)
    products = " ".join(f"c{i} = MatMul (a, b) d{i} = Add (x, c{i})" for i in range(7))
    model = parse(
        f"agraph (float[10,10] x) => (float[10,10] y) <float[10,10] a, float[10,10] b> {{ {products} "
        f"y = Sum ({', '.join(f'd{i}' for i in range(7))}) }}"
    )
    result, counts = optimize(model, [pass_of("ConstantFoldingPass")])
    assert operators(result)["MatMul"] == 2
    assert TOO_LONG in {r for count in counts for r in count.refused}


def test_gigabytes_that_no_shape_foretells_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        constant_folding, "_MAX_BYTES", 1 << 40
    )  # once the first nodes are folded, a shape tells
    zeros = ", ".join(["0"] * 21)
    model = parse(
        f"agraph (float[N] x) => (float[N] y) <bool[23] c = {{1, {zeros}, 1}}> "
        "{ i = NonZero (c) j = ReduceMax <keepdims = 0> (i) f = Cast <to = 1> (j) e = Exp (f) h = Cast <to = 7> (e) "
        "m = Constant <value_ints = [-1]> () s = Reshape (h, m) a = ConstantOfShape (s) "
        "b = ReduceSum <keepdims = 0> (a) y = Add (x, b) }"
    )
    result, counts = optimize(model, [pass_of("ConstantFoldingPass")])
    assert "ConstantOfShape" in operators(result)
    assert "onnxruntime needs too much memory to compute it" in {
        r for count in counts for r in count.refused
    }


@pytest.mark.parametrize(("size", "left"), [(900, False), (1100, True)])
def test_a_product_just_below_the_bound_is_computed(size: int, left: bool) -> None:
    model = parse(
        f"agraph (float[N] x) => (float[N] y) <int64[2] s = {{4000, 1000}}, int64[2] t = {{1000, {size}}}> "
        "{ a = ConstantOfShape (s) b = ConstantOfShape (t) c = MatMul (a, b) d = ReduceMax <keepdims = 0> (c) "
        "y = Add (x, d) }"
    )
    assert ("MatMul" in operators(optimize(model, [pass_of("ConstantFoldingPass")])[0])) == left


def test_a_fold_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "_SECONDS", 0.5)
    monkeypatch.setattr(constant_folding, "_MAX_WORK", 1 << 60)  # of which this pooling needs hours
    monkeypatch.setattr(constant_folding, "_MAX_TOTAL_WORK", 1 << 60)
    model = parse(
        "agraph (float[N] x) => (float[N] y) <float[1] a, int64[4] s = {1, 1, 3001, 3001}> { c = ConstantOfShape (s) "
        "d = LpPool <kernel_shape = [3001, 3001], pads = [1500, 1500, 1500, 1500]> (c) m = ReduceMax <keepdims = 0> (d) "
        "e = Exp (a) f = Add (m, e) y = Add (x, f) }"
    )
    result, counts = optimize(model, [pass_of("ConstantFoldingPass")])
    assert "LpPool" in operators(result) and "Exp" not in operators(result)
    assert "onnxruntime takes longer than 0.5 s to compute it" in {
        r for count in counts for r in count.refused
    }


def test_the_load_of_the_machine_does_not_decide_what_is_folded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        evaluate, "_SECONDS", 0.3
    )  # of which this takes little, however long it has to wait
    model = parse(
        "agraph (float[N] x) => (float[N] y) <float[1] a = {0}> { e = Exp (a) y = Add (x, e) }"
    )
    evaluate.request("operators")  # it runs
    child = start().id
    os.kill(child, signal.SIGSTOP)
    goes_on = Timer(1, os.kill, (child, signal.SIGCONT))
    goes_on.start()
    result, _ = optimize(model, [pass_of("ConstantFoldingPass")])
    goes_on.join()
    assert "Exp" not in operators(result) and start().id == child
