"""What a model puts together is judged part by part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from harness import parse, with_function

from fusionc.verify.compare import Yardstick, compare, unequal
from fusionc.verify.joints import Joint, blocks_of
from fusionc.verify.noise import ABOUT, Noise
from fusionc.verify.output_parts import joints_of
from fusionc.verify.verification import verify

HEAD = "agraph (float[N,4,7] a, float[N,3,7] b, float[N,M,7] c) => (float[] y)"
NESTED = """ab = Concat <axis = 1> (a, b) ba = Concat <axis = 1> (a, b) {} y = Concat <axis = {}> ({}) """


@pytest.mark.parametrize(
    ("body", "joints"),
    [
        ("y = Concat <axis = 1> (a, b)", {1: (4, 3)}),
        ("y = Concat <axis = -2> (a, b)", {1: (4, 3)}),
        ("y = Concat <axis = 1> (a, c)", {1: (4, "M")}),
        ("j = Concat <axis = 1> (a, b) y = Transpose <perm = [2, 0, 1]> (j)", {2: (4, 3)}),
        ("j = Concat <axis = 1> (a, b) t = Transpose (j) y = Identity (t)", {1: (4, 3)}),
        (
            "j = Concat <axis = 1> (a, b) k = Constant <value_ints = [0]> () y = Unsqueeze (j, k)",
            {2: (4, 3)},
        ),
        (
            (
                "j = Concat <axis = 2> (a, a) s = Constant <value_ints = [-1, 14]> () y = Reshape "
                "(j, s)"
            ),
            {1: (7, 7)},
        ),
        (
            (
                "j = Concat <axis = 2> (a, a) s = Constant <value_ints = [0, 8, 7]> () y = Reshape "
                "(j, s)"
            ),
            {},
        ),
        (
            "j = Concat <axis = 2> (a, a) c1 = Cast <to = 10> (j) y = Cast <to = 1> (c1)",
            {2: (7, 7)},
        ),
        ("j = Concat <axis = 1> (a, b) y = Sigmoid (j)", {}),
        ("j = Concat <axis = 1> (a, b) y = Relu (j)", {1: (4, 3)}),
        (
            "j = Concat <axis = 1> (a, b) k = Constant <value_float = 2.0> () y = Mul (k, j)",
            {1: (4, 3)},
        ),
        (
            "j = Concat <axis = 1> (a, b) k = Constant <value_float = 2.0> () y = Div (k, j)",
            {1: (4, 3)},
        ),
        (
            "j = Concat <axis = 1> (a, b) k = Constant <value_float = 2.0> () y = Clip (j, k)",
            {1: (4, 3)},
        ),
        ("j = Concat <axis = 1> (a, b) y = Mul (j, c)", {}),
        ("j = Concat <axis = 1> (a, b) y = Mul (j, j)", {}),
        (NESTED.format("", 1, "ab, ba"), {1: (4, 3, 4, 3)}),
        (NESTED.format("", 2, "ab, ba"), {1: (4, 3), 2: (7, 7)}),
        (NESTED.format("s = Sigmoid (ba)", 2, "ab, s"), {2: (7, 7)}),
    ],
)
def test_where_parts_lie(body: str, joints: dict[int, tuple[int | str, ...]]) -> None:
    found = joints_of(parse(f"{HEAD} {{ {body} }}"))
    assert {joint.axis: joint.sizes for joint in found.get("y", ())} == joints


def test_functions_are_looked_into() -> None:
    model = with_function(
        "agraph (float[N,4] x) => (float[N,8] y) { y = my.F (x) }",
        "F",
        "y = Concat <axis = 1> (x, x)",
    )
    assert joints_of(model) == {"y": (Joint(1, (4, 4)),)}


def test_the_parts_of_an_array() -> None:
    every = slice(None)
    assert blocks_of([Joint(1, (4, "M"))], (2, 9)) == [(every, slice(0, 4)), (every, slice(4, 9))]
    assert len(blocks_of([Joint(0, (1, 1)), Joint(2, (4, 3))], (2, 5, 7))) == 4
    assert blocks_of([Joint(1, (4, "M"))], (2, 4)) == [], "the other one is empty"
    for joint in (
        Joint(1, (4, 3)),
        Joint(1, ("A", "B")),
        Joint(2, (4, 5)),
        Joint(1, (12, "M")),
        Joint(1, (9,)),
    ):
        assert blocks_of([joint], (2, 9)) == []
    assert blocks_of([Joint(0, (1,) * 500)], (500, 2)) == [] and blocks_of([], (2, 9)) == []


def test_each_part_has_its_own_scale() -> None:
    y = np.full((2, 3, 5), 0.5, np.float32)
    y[:, :2] = 640
    parts = Yardstick(joints=(Joint(1, (2, "M")),))
    for off, is_same in ((5e-4, True), (7e-4, False)):  # 1e-4 of the largest, and 1e-3 of itself
        other = y + np.float32([[0], [0], [off]])
        assert (compare(y, other, parts) is None) == is_same and bool(
            unequal(y, other, parts).any()
        ) != is_same
        assert compare(y, other) is None
    other = y + np.float32([[0.1], [0], [0]])
    assert compare(y, other, parts) is None, "0.064 and 0.64 are accepted in the large ones"
    found = compare(y, y + np.float32([[0], [0], [0.04]]), parts)
    assert found is not None and "largest value is 0.5" in found.reason and not found.within_widest
    approximate = Yardstick("approximate", joints=parts.joints)
    assert compare(y, y + np.float32([[0], [0], [0.004]]), approximate) is None
    assert compare(y, y + np.float32([[0], [0], [0.04]]), approximate) is not None
    on_zeros = Yardstick(least_scale=640, joints=parts.joints)
    zeros = np.zeros_like(y)
    assert compare(zeros, zeros + np.float32(0.04), on_zeros) is None


def test_a_part_of_zeros_may_be_off_by_a_place_of_the_largest() -> None:
    y = np.zeros((2, 6), np.float32)
    y[:, 0] = 640
    parts = Yardstick(joints=(Joint(1, (1, 5)),))
    assert compare(y, y + np.float32([0, 0, 0, 0, 0, 7e-9]), parts) is None
    assert compare(y, y + np.float32([0, 0, 0, 0, 0, 1e-7]), parts) is not None


def test_each_part_has_noise_of_its_own() -> None:
    value = np.zeros((4, 64), np.float32)
    noise = Noise(value)
    moved = value.copy()
    moved[:2] = 1.0
    noise.add(value, moved)
    off = np.zeros(value.shape)
    off[3, 5] = 1.0
    assert noise.explains(off, ABOUT), "a single element"
    assert not noise.explains(off, ABOUT, [(slice(0, 2),), (slice(2, 4),)])


def detector(path: Path, bias: float, behind: str = "Identity (j)") -> Path:
    """Boxes up to 640, and scores."""
    onnx.save(
        parse(f"""agraph (float[N,4] x, float[N,2] z) => (float[N,6] y) <float k = {{300}}, float b = {{{bias}}}> {{
            t = Tanh (x) m = Mul (t, k) s = Sigmoid (z) p = Add (s, b)
            j = Concat <axis = 1> (m, p) y = {behind} }}"""),
        path,
    )
    return path


@pytest.mark.parametrize("behind", ["Identity (j)", "Relu (j)", "Mul (j, k)"])
@pytest.mark.parametrize("numerics", ["rounding", "approximate"])
def test_an_error_in_scores_does_not_hide_behind_boxes(
    numerics: str, behind: str, tmp_path: Path
) -> None:
    paths = detector(tmp_path / "a.onnx", 0.0, behind), detector(tmp_path / "b.onnx", 0.02, behind)
    shapes = {"x": (3, 4), "z": (3, 2)}
    assert verify(*paths, input_shape=shapes, numerics=numerics).status == "different"
    assert verify(paths[0], paths[0], input_shape=shapes, numerics=numerics).status == "equal"
