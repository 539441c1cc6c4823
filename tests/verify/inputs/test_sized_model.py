"""What onnx says of a model at given sizes, before it runs: which of them cannot be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

from fusionc.runtime.runner import Runner
from fusionc.verify.inputs.search import InputSearch
from fusionc.verify.inputs.sized_model import SizedModel
from fusionc.verify.interface import required_inputs

HEAD = '<ir_version: 10, opset_import: ["": 21]>'


def model(text: str, **constants: tuple[int, ...]) -> onnx.ModelProto:
    made = parse_model(HEAD + text)
    for name, dims in constants.items():
        made.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(dims, np.float32), name))
    return made


def sizes_of(made: onnx.ModelProto, tmp_path: Path) -> list[dict[str, int]]:
    """The sizes of all samples that are drawn."""
    onnx.save(made, tmp_path / "m.onnx")
    runner = Runner(tmp_path / "m.onnx")
    found = [
        dict(sample.sizes)
        for sample in InputSearch(runner, made, tmp_path, {}).samples((0, 1, 2), True)
    ]
    runner.close()
    return found


CONCAT = "g (float[4,6,K,5,M] x) => (float y) { y = Concat <axis = -2> (c, x) z = Identity (d) }"


def test_sizes_that_a_constant_demands_are_run_and_no_others(tmp_path: Path) -> None:
    """With K = 0 onnxruntime looks at no size of x, and leaves what it would be in y as it finds
    it.
    """
    made = model(CONCAT, c=(4, 6, 7, 2, 5), d=(2, 1, 0))
    sized = SizedModel(made, required_inputs(made))
    assert sized.refuses({"K": 0}) and sized.refuses({"K": 2}) and not sized.refuses({"K": 7})
    assert {tuple(sizes.values()) for sizes in sizes_of(made, tmp_path)} == {(7, 5)}


@pytest.mark.parametrize(
    ("text", "constants", "runs_at"),
    [
        (
            "g (float[N,K] x) => (float y) { y = MatMul (x, w) }",
            {"w": (11, 3)},
            {(2, 11), (3, 11), (1, 11)},
        ),
        (
            "g (float[N,K] x, float[K,N] z) => (float y) { y = Gemm (x, z, w) }",
            {"w": (13, 13)},
            {(13, 8), (13, 5)},
        ),
        (
            "g (float[N,K] x) => (float y) { y = Add (x, w) }",
            {"w": (1, 17)},
            {(2, 17), (3, 17), (1, 17)},
        ),
    ],
)
def test_relatives(
    text: str, constants: dict[str, tuple[int, ...]], runs_at: set[tuple[int, int]], tmp_path: Path
) -> None:
    assert {(s["N"], s["K"]) for s in sizes_of(model(text, **constants), tmp_path)} == runs_at


@pytest.mark.parametrize(
    ("text", "constants"),
    [
        # onnxruntime looks at no other size of an operand without elements
        ("g (float[N,2,S,4] x) => (float y) { y = Concat <axis = 2> (c, x) }", {"c": (1, 2, 0, 4)}),
        # a branch that is not taken
        (
            "g (float[N,3] x, bool c) => (float y) { o = Constant <value_ints = [0]> () y = If (c) "
            "<then_branch = t () => (float a) { a = Squeeze (x, o) }, "
            "else_branch = e () => (float b) { b = Neg (x) }> }",
            {},
        ),
        # what cannot be at any size says nothing of one
        (
            "g (float[N,3] x) => (float y) { y = Neg (x) z = MatMul (v, w) }",
            {"v": (2, 3), "w": (2, 3)},
        ),
        ("g (float[N,3] x) => (float y) { a = Foo.Bar (x) y = Neg (a) }", {}),
    ],
)
def test_sizes_that_may_be_are_not_refused(
    text: str, constants: dict[str, tuple[int, ...]]
) -> None:
    made = model(text, **constants)
    sized = SizedModel(made, required_inputs(made))
    assert not any(sized.refuses({"N": size}) for size in (0, 1, 2, 3))


def test_a_large_model_is_asked_for_some_sizes_only() -> None:
    made = model("g (float[N,3] x) => (float y) { y = Add (x, w) }", w=(7, 3))
    for _ in range(9_999):
        made.graph.node.add(op_type="Neg", input=["x"], output=[f"n{len(made.graph.node)}"])
    sized = SizedModel(made, required_inputs(made))
    assert [sized.refuses({"N": size}) for size in range(2, 14)] == [True] * 5 + [False] + [
        True
    ] * 4 + [False] * 2


def test_what_onnx_refuses_and_onnxruntime_may_take_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SizedModel, "refuses", lambda *_: True)
    assert sizes_of(model("g (float[N,3] x) => (float y) { y = Neg (x) }"), tmp_path)
