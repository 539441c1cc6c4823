"""What a result is judged by."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import onnx
import pytest
from harness import parse

import fusionc
from fusionc.attempt.verdict import _check_kernels
from fusionc.model.operators import KERNELS
from fusionc.verify import Verification
from fusionc.verify.result import Difference, OptimizerFault

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")


@pytest.mark.parametrize(
    ("body", "constant", "options", "expected"),
    [
        ("a = Identity (x) y = Neg (a)", 1, {}, "bitwise"),
        ("a = Mul (x, by) y = Mul (a, by)", 3, {}, "rounding"),
        ("a = Identity (x) y = Neg (a)", 1, {"target_opset": 21}, "rounding"),
        (
            "e = Exp (x) s = Add (e, by) y = Log (s)",
            1,
            {"optimization_switch": "SoftplusFusionPass:on"},
            "approximate",
        ),
    ],
)
def test_a_conversion_claims_what_its_least_precise_pass_claims(
    monkeypatch: pytest.MonkeyPatch,
    body: str,
    constant: int,
    options: dict[str, Any],
    expected: str,
) -> None:
    claimed: list[object] = []

    def judged(*paths: Path, **given: Any) -> Any:
        claimed.append(given["numerics"])
        return Verification("equal", 1, "equal in 1 run")

    monkeypatch.setattr("fusionc.attempt.verdict.verify", judged)
    model = parse(
        f"agraph (float[N,3] x) => (float[N,3] y) <float by = {{{constant}}}> {{ {body} }}"
    )
    onnx.save(model, "d.onnx")
    assert fusionc.convert("d.onnx", **options).effected and claimed == [expected]


def test_a_result_that_does_not_run_at_the_default_level_has_a_notice_of_its_own() -> None:
    # microsoft/onnxruntime#32413, of 1.31 and 1.32: its optimizers make an invalid graph of this.
    model = parse(
        "agraph (float[4] x) => (float[4] y) <float zero = {0}, float one = {1}> "
        "{ m = Identity (x) f = Div (one, one) w = Mul (m, f) y = Add (w, zero) }"
    )
    onnx.save(model, "d.onnx")
    Path("off.json").write_text(
        '{"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}}'
    )
    report = fusionc.convert("d.onnx", fusion_switch_file="off.json")
    (notice,) = [text for text in report.notices if "cannot run" in text]
    assert notice == (
        "onnxruntime cannot run the result at level all, nor the model itself: set SessionOptions."
        'add_session_config_entry("optimization.disable_specified_optimizers", "EliminateIdentity")'
    )


@pytest.mark.parametrize(
    ("levels", "faulty", "compared"),
    [
        (("disabled", "all"), [], ["itself"]),
        (("disabled", "extended", "all"), ["extended"], ["itself"]),
        (("disabled", "all"), ["all"], ["reference"]),
        (("disabled",), [], ["reference"]),
    ],
)
def test_kernels_of_integers_are_compared_with_optimizers_that_are_right(
    levels: tuple[str, ...], faulty: list[str], compared: list[str]
) -> None:
    names = list[str]()

    def verified(reference: Path, candidate: Path, **_: Any) -> Verification:
        names.append("itself" if reference == candidate else "reference")
        return Verification("equal", 1, "equal in 1 run")

    model = parse("agraph (float[4] x) => (float[4] y) { y = Neg (x) }")
    quantize = onnx.helper.make_node("QuantizeLinear", ["x", "s"], ["y"])
    opsets = [onnx.helper.make_opsetid("", 19)]
    model.functions.append(
        onnx.helper.make_function(KERNELS, "area", ["x", "s"], ["y"], [quantize], opsets)
    )
    onnx.save(model, "c.onnx")
    candidate = Path("c.onnx")
    faults = tuple(OptimizerFault(level, Difference("y", "", ""), (), True) for level in faulty)
    without = Verification("equal", 1, "equal in 1 run", optimizer_faults=faults)
    check = partial(verified, Path("d.onnx"), candidate, levels=levels)
    _check_kernels(check, candidate, without)
    assert names == compared


def test_where_a_value_decides_which_sizes_fit_the_hint_asks_for_it() -> None:
    model = parse(
        "agraph (float[N] x, int64[1] n) => (float[M] y) "
        "<int64[1] rare = {7777}, int64[1] two = {2}, int64[1] six = {6}> "
        "{ is_rare = Equal (n, rare) size = Where (is_rare, six, two) y = Reshape (x, size) }"
    )
    onnx.save(model, "d.onnx")
    with pytest.raises(fusionc.UsageError, match=r"cannot run d\.onnx") as raised:
        fusionc.convert("d.onnx", input_shape={"x": (6,)})
    assert raised.value.hint.endswith("give these values with --inputs")
