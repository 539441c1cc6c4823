"""--input_shape: the sizes of inputs, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from harness import assert_same_numbers, operators, parse
from onnx import ModelProto

import fusionc
from fusionc.errors import UsageError
from fusionc.requested.dimension_size import DimensionSize
from fusionc.requested.input_shape import fix_sizes, sizes_to_run

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")

PAIR = """agraph (float[N,4] x, float[N,M] z) => (float[N,P] y, float[N,M] w) <float[N,4] a> {
    a = Relu (x) y = Concat <axis = 1> (a, z) w = Neg (z)
}"""


def fixed(model: ModelProto, shapes: Mapping[str, Sequence[DimensionSize]]) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    fix_sizes(copy, shapes, "")
    return copy


def declared(model: ModelProto) -> dict[str, tuple[int | str, ...]]:
    """The dimensions of all values of the main graph that are declared."""
    values = [*model.graph.input, *model.graph.value_info, *model.graph.output]
    return {
        value.name: tuple(
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?"
            for dim in value.type.tensor_type.shape.dim
        )
        for value in values
    }


def test_a_name_is_fixed_wherever_it_stands() -> None:
    model = parse(PAIR)
    result = fixed(model, {"x": (3, 4)})
    assert declared(result) == {
        "x": (3, 4),
        "z": (3, "M"),
        "a": (3, 4),
        "y": (3, "P"),
        "w": (3, "M"),
    }
    onnx.checker.check_model(result, full_check=True)
    assert_same_numbers(model, result, "bitwise", {"N": 3})


def test_what_follows_is_inferred() -> None:
    """Nothing in the model says that P is M + 4."""
    result = fixed(parse(PAIR), {"x": (3, -1), "z": (3, 5)})
    assert declared(result) == {"x": (3, 4), "z": (3, 5), "a": (3, 4), "y": (3, 9), "w": (3, 5)}


def test_only_what_was_asked_for_changes() -> None:
    model = parse(PAIR)
    result = fixed(model, {"z": (-1, 5)})
    assert declared(result) == {
        "x": ("N", 4),
        "z": ("N", 5),
        "a": ("N", 4),
        "y": ("N", 9),
        "w": ("N", 5),
    }
    for part in ("node", "initializer", "doc_string", "name"):
        assert getattr(result.graph, part) == getattr(model.graph, part)
    assert fixed(model, {"x": (-1, 4), "z": (-1, (1, 9))}) == model


@pytest.mark.parametrize(
    ("past", "total", "expected"),
    [
        ((2, 6), "past + seq", "6 + seq"),
        ((2, 6), "2*past - past//2", 9),
        ((2, 6), "past-size", "6 - size"),
    ],
)
def test_a_formula_over_names(past: tuple[int, int], total: str, expected: int | str) -> None:
    model = parse("agraph (float[B,past] p, float[B,T] t) => (float[B,T] y) { y = Neg (t) }")
    for value in (model.graph.input[1], model.graph.output[0]):
        value.type.tensor_type.shape.dim[1].dim_param = total
    assert declared(fixed(model, {"p": past})) == {
        "p": past,
        "t": (2, expected),
        "y": (2, expected),
    }


def nameless(name: str) -> Callable[[], ModelProto]:
    def make() -> ModelProto:
        model = parse("agraph (float[N,4] x) => (float[N,M] y) { y = Neg (x) }")
        for dim in model.graph.input[0].type.tensor_type.shape.dim:
            dim.dim_param = name
        if name == "negative":
            for dim in model.graph.input[0].type.tensor_type.shape.dim:
                dim.dim_value = -1
        return model

    return make


@pytest.mark.parametrize("name", ["", "?", "None", "-1", "negative"])
def test_dimensions_that_nobody_knows_are_not_one(name: str) -> None:
    assert declared(fixed(parse(nameless(name)), {"x": (3, 4)})) == {"x": (3, 4), "y": (3, 4)}


def test_an_input_without_a_shape_gets_one() -> None:
    model = parse("agraph (float[N] x) => (float[N] y) { y = Neg (x) }")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    assert declared(fixed(model, {"x": (3,)})) == {"x": (3,), "y": (3,)}
    assert fixed(model, {"x": ()}).graph.input[0].type.tensor_type.HasField("shape")


def test_a_scalar() -> None:
    model = parse("agraph (float x, float[N] z) => (float[N] y) { y = Add (x, z) }")
    assert declared(fixed(model, {"x": (), "z": (5,)})) == {"x": (), "z": (5,), "y": (5,)}


def test_branches_and_loops() -> None:
    """In a branch a name means what it means outside; what a loop carries may have another size
    each time.
    """
    model = parse(
        """agraph (float[N] x, bool c, int64 count) => (float[N] y, float[R] z) {
            y = If (c) <then_branch = t () => (float[N] p) { p = Neg (x) },
                        else_branch = e () => (float[N] q) { q = Relu (x) }>
            z = Loop (count, c, x) <body = b (int64 i, bool on, float[N] s) => (bool go, float[R] r) {
                go = Identity (on) r = Concat <axis = 0> (s, s) }>
        }"""
    )
    result = fixed(model, {"x": (3,)})
    branches = [attribute.g.output[0] for attribute in result.graph.node[0].attribute]
    assert [value.type.tensor_type.shape.dim[0].dim_value for value in branches] == [3, 3]
    assert result.graph.node[1] == model.graph.node[1]
    assert declared(result)["z"] == ("R",)
    onnx.checker.check_model(result, full_check=True)
    assert_same_numbers(model, result, "bitwise", {"N": 3})


@pytest.mark.parametrize(
    ("shapes", "what", "hint"),
    [
        ({"a": (1, 4)}, "the model has no input a", "the inputs of the model are: x, z"),
        ({"x": (1, 4, 1)}, "x has 2 dimensions in the model, not 3", "the model declares x:N,4"),
        ({"x": ()}, "x has 2 dimensions in the model, not 0", "the model declares x:N,4"),
        ({"x": (-2, 4)}, "x[0] cannot be -2", "from 0"),
        ({"x": ((3, 2), 4)}, "x[0] cannot be 3~2", "from 0"),
        ({"x": (2**63, 4)}, "x[0] cannot be 9223372036854775808", "2^63 - 1"),
        (
            {"x": (1, 4), "z": (2, -1)},
            "in the model x[0] and z[0] are both N, and the sizes would be 1 and 2",
            "equal symbols mean equal sizes",
        ),
        (
            {"x": (9, 4), "z": ((1, 8), -1)},
            "in the model z[0] is N, which is 9, and the sizes would be 9 and 1~8",
            "equal",
        ),
    ],
)
def test_what_does_not_fit(
    shapes: Mapping[str, Sequence[DimensionSize]], what: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        fixed(parse(PAIR), shapes)
    assert what in caught.value.what and hint in caught.value.hint and caught.value.exit_code == 2


def test_a_formula_and_its_parts_contradict_each_other() -> None:
    model = parse("agraph (float[N] x, float[M] z) => (float[N] y) { y = Neg (x) }")
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "2*N"
    assert declared(fixed(model, {"x": (3,), "z": (6,)}))["z"] == (6,)
    with pytest.raises(
        UsageError,
        match=r"in the model z\[0\] is 2\*N, which is 6, and the sizes would be 6 and 7",
    ):
        fixed(model, {"x": (3,), "z": (7,)})


def test_a_default_that_would_no_longer_fit() -> None:
    model = parse(
        "agraph (float[N] x, float[N] k) => (float[N] y) <float[3] k = {1, 2, 3}> { y = Add "
        "(x, "
        "k) }"
    )
    assert declared(fixed(model, {"x": (3,)}))["k"] == (3,)
    with pytest.raises(
        UsageError, match=r"k\[0\] would be 1, but in the default value of this input it is 3"
    ):
        fixed(model, {"x": (1,)})


def test_weights_and_what_is_no_tensor_have_no_sizes_to_choose() -> None:
    model = parse(
        "agraph (float[N] x, float[1] k, seq(float[N]) s) => (float[N] y) <float[1] k = {1}> "
        "{ y = Add (x, k) }"
    )
    with pytest.raises(UsageError, match="no input k"):
        fixed(model, {"k": (1,)})
    with pytest.raises(UsageError, match="the input s is not a tensor"):
        fixed(model, {"s": (1,)})


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ({"x": (3, 4)}, {}),
        ({"x": ((1, 8), 4)}, {"x": (8, 4)}),
        ({"x": ((1, 8), 4), "z": ((2, 6), (5, -1))}, {"x": (6, 4), "z": (6, 5)}),
        ({"z": (-1, (1, -1))}, {"z": (2, 2)}),
    ],
)
def test_ranges_say_what_to_run(
    shapes: Mapping[str, Sequence[DimensionSize]], expected: dict[str, tuple[int, ...]]
) -> None:
    assert sizes_to_run(fixed(parse(PAIR), shapes), shapes, {}) == expected


CACHED = """agraph (int64[B,S] ids, float[B,T] mask, float[B,4,P] past) => (float[B,T] y) { y = Neg (mask) }"""


@pytest.mark.parametrize(
    ("shapes", "chosen", "expected"),
    [
        ({"mask": ((1, 8), -1), "past": ((1, 8), 4, -1)}, {}, {"mask": (8, 4), "past": (8, 4, 2)}),
        ({"ids": ((1, 8), (1, 9)), "mask": ((1, 8), -1)}, {}, {"ids": (8, 9), "mask": (8, 11)}),
        ({"ids": ((1, 8), -1), "mask": (-1, (1, 9))}, {}, {"ids": (8, 2), "mask": (8, 4)}),
        ({"mask": ((1, 8), (1, 99))}, {"ids": (2, 16)}, {"mask": (2, 18)}),
        ({"mask": ((1, 8), (1, 99))}, {"ids": (2, 16), "past": (2, 4, 5)}, {"mask": (2, 21)}),
        (
            {"ids": ((1, 8), (1, 9)), "mask": ((1, 8), (1, 99))},
            {"ids": (2, 16)},
            {"ids": (2, 16), "mask": (2, 18)},
        ),
    ],
)
def test_sizes_to_run_fit_each_other(
    shapes: Mapping[str, Sequence[DimensionSize]],
    chosen: Mapping[str, Sequence[int]],
    expected: object,
) -> None:
    model = fixed(parse(CACHED), {})
    model.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "P + S"
    assert sizes_to_run(model, shapes, chosen) == expected


# -- conversions
#
#
#
# -------------------------------------------------------------------------------------------------------

FLATTEN = """agraph (float[N,4,6] x) => (float[N,M] y) <int64[1] first = {0}, int64[1] rest = {-1}> {
    s = Shape (x) n = Gather <axis = 0> (s, first) t = Concat <axis = 0> (n, rest) r = Reshape (x, t) y = Relu (r)
}"""


def test_a_conversion_folds_what_follows_from_the_sizes() -> None:
    onnx.save(parse(FLATTEN), "in.onnx")
    off = "NoUseReshapeRemovePass:off;ShapeReshapePass:off"
    fusionc.convert("in.onnx", output="open.onnx", optimization_switch=off)
    report = fusionc.convert(
        "in.onnx", output="out.onnx", optimization_switch=off, input_shape={"x": (3, 4, 6)}
    )
    result = onnx.load("out.onnx")
    assert declared(result)["x"] == (3, 4, 6) and declared(result)["y"] == (3, 24)
    assert operators(result) == {"Reshape": 1, "Relu": 1}
    assert declared(onnx.load("open.onnx"))["x"] == ("N", 4, 6)
    assert report.verification is not None and report.verification.startswith("equal in ")
    assert_same_numbers(onnx.load("in.onnx"), result, "bitwise", {"N": 3})


def test_sizes_that_the_model_does_not_take() -> None:
    """24 elements for each 3: nothing declares it, running the model shows it."""
    onnx.save(
        parse(
            "agraph (float[N] x) => (float[M,24] y) <int64[2] s = {-1,24}> { y = Reshape (x, s) }"
        ),
        "in.onnx",
    )
    with pytest.raises(
        fusionc.UsageError, match="does not work with the requested changes"
    ) as caught:
        fusionc.convert("in.onnx", output="out.onnx", input_shape={"x": (25,)})
    assert caught.value.where == "--input_shape"
    assert (
        fusionc.convert("in.onnx", output="out.onnx", input_shape={"x": (48,)}).verification
        is not None
    )


def test_sizes_that_are_too_large_to_be_run() -> None:
    onnx.save(parse("agraph (float[N] x) => (float[N] y) { y = Neg (x) }"), "in.onnx")
    report = fusionc.convert("in.onnx", output="out.onnx", input_shape={"x": (10**12,)})
    assert report.verification is not None and report.verification.startswith(
        "not verified: the input x of "
    )
    assert declared(onnx.load("out.onnx"))["y"] == (10**12,)


def test_a_range_stays_dynamic_and_is_verified_with_its_largest_size() -> None:
    text = "agraph (float[N] x) => (float[M,24] y) <int64[2] s = {-1,24}> { y = Reshape (x, s) }"
    onnx.save(parse(text), "in.onnx")
    report = fusionc.convert("in.onnx", output="out.onnx", input_shape={"x": ((1, 72),)})
    assert declared(onnx.load("out.onnx")) == {"x": ("N",), "y": ("M", 24)}
    assert report.verification is not None and report.verification.startswith("equal in ")


def test_sizes_for_verification_only() -> None:
    onnx.save(parse(FLATTEN), "in.onnx")
    fusionc.convert("in.onnx", output="out.onnx", verify_shape={"x": (3, 4, 6)})
    assert declared(onnx.load("out.onnx"))["x"] == ("N", 4, 6)
    with pytest.raises(fusionc.UsageError, match="does not fit the input x"):
        fusionc.convert("in.onnx", output="out.onnx", verify_shape={"x": (3, 5, 6)})


@pytest.mark.parametrize(
    ("asked", "run", "told"),
    [
        ((-1, (2, 8)), (99, 9), "x[1] is 9, not 2~8"),
        ((-1, (2, 8)), (99, 1), "x[1] is 1, not 2~8"),
        (((4, -1), (2, 8)), (3, 9), "x[0] is 3, not 4~-1; x[1] is 9, not 2~8"),
        (((4, -1), (2, 8)), (4, 8), ""),
        ((3, 4), (3, 4), ""),
    ],
)
def test_sizes_for_verification_outside_of_those_asked_for_are_told(
    asked: Any, run: Any, told: str
) -> None:
    """They are run all the same: they are what was asked to be run."""
    onnx.save(parse("agraph (float[N,M] x) => (float[N,M] y) { y = Neg (x) }"), "in.onnx")
    report = fusionc.convert(
        "in.onnx", output="out.onnx", input_shape={"x": asked}, verify_shape={"x": run}
    )
    assert report.verification is not None and report.verification.startswith("equal in ")
    expected = [f"--verify_shape does not fit --input_shape: {told}"] if told else []
    assert [notice for notice in report.notices if "--verify_shape" in notice] == expected


def test_sizes_that_the_model_fixes_are_not_opened() -> None:
    onnx.save(parse("agraph (float[2,M,4] x) => (float[2,M,4] y) { y = Neg (x) }"), "in.onnx")
    report = fusionc.convert("in.onnx", output="out.onnx", input_shape={"x": (-1, -1, (1, 8))})
    told = [
        '--input_shape does not make sizes dynamic: x[0] stays 2, the size in the model; --free_dim "x:0" makes it symbolic; '
        'x[2] stays 4, the size in the model; --free_dim "x:2" makes it symbolic'
    ]
    assert [notice for notice in report.notices if "--input_shape" in notice] == told
    report = fusionc.convert("in.onnx", output="out.onnx", input_shape={"x": (2, -1, 4)})
    assert not [notice for notice in report.notices if "--input_shape" in notice]


FIXED = """agraph (float[1,4] x, float[1,4] z) => (float[1,2,2] y, float[1,4] w) <int64[3] s = {1,2,2}> {
    a = Relu (x) y = Reshape (a, s) w = Neg (z) }"""


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ({"x": (5, 4)}, {"x": (5, 4), "z": (1, 4), "y": (5, 2, 2), "w": (1, 4)}),
        ({"x": (5, 4), "z": (3, 4)}, {"x": (5, 4), "z": (3, 4), "y": (5, 2, 2), "w": (3, 4)}),
        ({"z": (5, 6)}, {"x": (1, 4), "z": (5, 6), "y": (1, 2, 2), "w": (5, 6)}),
        ({"x": ((2, 8), 4)}, {"x": ("batch", 4), "z": (1, 4), "y": ("batch", 2, 2), "w": (1, 4)}),
        ({"x": (0, 4)}, {"x": (0, 4), "z": (1, 4), "y": (0, 2, 2), "w": (1, 4)}),
    ],
)
def test_a_size_that_the_model_fixes_becomes_another_one(
    shapes: Mapping[str, Sequence[DimensionSize]], expected: dict[str, tuple[int | str, ...]]
) -> None:
    result, report = fusionc.optimize(parse(FIXED), input_shape=shapes)
    assert declared(result) == expected
    assert report.verification.startswith("equal in ") and not report.notices


def test_free_dim_beside_another_size() -> None:
    result, _ = fusionc.optimize(
        parse(FIXED), input_shape={"x": (5, 4)}, free_dim={"x": {0: "N"}, "z": {0: "M"}}
    )
    assert declared(result) == {"x": (5, 4), "z": ("M", 4), "y": (5, 2, 2), "w": ("M", 4)}


def test_other_sizes_of_a_model_with_another_size_run_as_it_does() -> None:
    model = parse(FIXED)
    result, _ = fusionc.optimize(model, input_shape={"x": (3, 4), "z": (3, 4)})
    rows = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    found = evaluate(result, {"x": rows, "z": rows})
    for row in range(3):
        one = rows[row : row + 1]
        for many, single in zip(found, evaluate(model, {"x": one, "z": one}), strict=True):
            assert np.array_equal(many[row : row + 1], single)


def evaluate(model: ModelProto, feeds: dict[str, Any]) -> list[Any]:
    options: dict[str, Any] = {"providers": ["CPUExecutionProvider"]}
    return list(onnxruntime.InferenceSession(model.SerializeToString(), **options).run(None, feeds))


def test_other_sizes_as_peers_are_called() -> None:
    expected = (7, 4)
    simplified, is_right = fusionc.simplify(parse(FIXED), overwrite_input_shapes={"x": (7, 4)})
    assert is_right and declared(simplified)["x"] == expected
    slimmed = fusionc.slim(parse(FIXED), input_shapes=["x:7,4"])
    assert slimmed is not None and declared(slimmed)["x"] == expected


@pytest.mark.parametrize(
    ("text", "shapes", "what"),
    [
        (
            (
                "agraph (float[1,4] x) => (float[2,4] y) <float[1,4] k = {1,2,3,4}> { y = Concat "
                "<axis = 1> (x, k) }"
            ),
            {"x": (2, 4)},
            "x[0] = 1 cannot change: the model needs exactly this size in one place",
        ),
        (
            "agraph (float[0,4] x) => (float[0,4] y) { y = Neg (x) }",
            {"x": (2, 4)},
            "x[0] is 0 in the model, and cannot become 2",
        ),
        (
            "agraph (float[2,3] x) => (float[4,3] y) <int64[2,1] i = {0,1}, int64[2] s = {4,3}>"
            "{ c = ConstantOfShape (s) y = ScatterND (c, i, x) }",
            {"x": (5, 3)},
            "the model does not work with the requested changes",
        ),
    ],
)
def test_a_size_that_the_model_holds_stays(
    text: str, shapes: Mapping[str, Sequence[DimensionSize]], what: str
) -> None:
    with pytest.raises(UsageError) as caught:
        fusionc.optimize(parse(text), input_shape=shapes, verify=False)
    assert what in caught.value.what and caught.value.where == "input_shape"


def test_the_first_step_of_a_decoder() -> None:
    model = parse("""agraph (float[1,2,P,4] past, float[1,2,1,4] k) => (float[1,2,Q,4] y) {
        y = Concat <axis = 2> (past, k) }""")
    result, report = fusionc.optimize(model, input_shape={"past": (1, 2, 0, 4)})
    assert declared(result) == {"past": (1, 2, 0, 4), "k": (1, 2, 1, 4), "y": (1, 2, 1, 4)}
    assert report.verification.startswith("equal in ")


def test_a_range_that_may_be_empty() -> None:
    model = parse("agraph (float[P,4] x) => (float[P,4] y) { y = Neg (x) }")
    result, report = fusionc.optimize(model, input_shape={"x": ((0, 8), 4)})
    assert declared(result)["x"] == ("P", 4) and report.verification.startswith("equal in ")
