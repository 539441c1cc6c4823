"""What a result is judged by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from harness import parse

import fusionc
from fusionc.verify import Verification

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")


@pytest.mark.parametrize(
    ("body", "constant", "options", "expected"),
    [
        ("a = Identity (x) y = Neg (a)", 1, {}, "bitwise"),
        ("a = Mul (x, by) y = Mul (a, by)", 3, {}, "rounding"),
        ("a = Identity (x) y = Neg (a)", 1, {"target_opset": 21}, "rounding"),
        ("e = Exp (x) s = Add (e, by) y = Log (s)", 1, {"optimization_switch": "SoftplusFusionPass:on"}, "approximate"),
    ],
)
def test_a_conversion_claims_what_its_least_precise_pass_claims(
    monkeypatch: pytest.MonkeyPatch, body: str, constant: int, options: dict[str, Any], expected: str
) -> None:
    claimed: list[object] = []

    def judged(*paths: Path, **given: Any) -> Any:
        claimed.append(given["numerics"])
        return Verification("equal", 1, "equal in 1 run")

    monkeypatch.setattr("fusionc.verdict.verify", judged)
    model = parse(f"agraph (float[N,3] x) => (float[N,3] y) <float by = {{{constant}}}> {{ {body} }}")
    onnx.save(model, "d.onnx")
    assert fusionc.convert("d.onnx", **options).effected and claimed == [expected]
