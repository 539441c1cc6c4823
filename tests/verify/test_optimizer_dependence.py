"""Where the model itself has NaN and infinities elsewhere when it is run in another way, they
decide nothing.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from harness import parse
from onnx import ModelProto, numpy_helper

from fusionc.runtime.runner import Runner, closes_runners
from fusionc.verify import judge, order_dependence, verify
from fusionc.verify.optimizer_dependence import OptimizerDependence

LARGE = 3e38
SMALL = 1e-30


def scaled(*, is_folded: bool = False, is_wrong: bool = False) -> ModelProto:
    """A product of which a factor is put into the weights, as the basic optimizers do: it overflows
    no more.

    Nothing but NaN and infinities in `x` makes it differ from 0.
    """
    product = "y = Conv (h, W)" if is_folded else "p = Conv (h, W) y = Mul (p, c)"
    if is_wrong:
        product += " z = Relu (x)"
    else:
        product += " i = IsNaN (x) z = Where (i, n, x)"
    weights = "<float[1,1,1,1] W, float[1,1,1,1] c, float n = {0}, float ten = {10}>"
    model = parse(
        f"agraph (float[1,1,6,6] x) => (float[A,B,C,D] y, float[E,F,G,H] z) {weights} {{ "
        "s = Sub (x, x) t = IsNaN (s) f = Cast <to = 1> (t) g = ReduceMax (f) "
        f"h = Mul (g, ten) {product} }}"
    )
    values = {"W": LARGE * (SMALL if is_folded else 1), "c": SMALL}
    for tensor in model.graph.initializer:
        if tensor.name in values:
            tensor.CopyFrom(
                numpy_helper.from_array(
                    np.full((1, 1, 1, 1), values[tensor.name], np.float32), tensor.name
                )
            )
    return model


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    onnx.save(scaled(), tmp_path / "reference.onnx")
    onnx.save(scaled(is_folded=True), tmp_path / "candidate.onnx")
    return tmp_path / "reference.onnx", tmp_path / "candidate.onnx"


def test_what_the_model_does_itself_is_no_difference(paths: tuple[Path, Path]) -> None:
    found = verify(*paths)
    assert found.status == "equal", found.summary


def test_it_would_be_one(paths: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        judge.OptimizerDependence, "reaches", lambda self, feeds, outputs, reaches: list(reaches)
    )
    monkeypatch.setattr(order_dependence, "_SUMS", ())  # which knows a Conv with large weights, too
    assert verify(*paths).status == "different"


def test_another_output_is_judged_as_before(paths: tuple[Path, Path]) -> None:
    """In the same sample: NaN where both ways of the reference give a number."""
    onnx.save(scaled(is_folded=True, is_wrong=True), paths[1])
    found = verify(*paths)
    assert found.status == "different" and found.differences[0].subject == "z"


@closes_runners
def test_only_these_elements(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(scaled(), path)
    x = np.ones((1, 1, 6, 6), np.float32)
    x[0, 0, 2, 3] = np.nan
    outputs = Runner(path).run({"x": x})
    y, z = OptimizerDependence(path).reaches({"x": x}, outputs, [None, None])
    assert y is not None and np.isinf(y).all() and z is None
