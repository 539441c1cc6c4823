"""Valid models that crash or block onnxruntime, need too much memory, or have calls that cannot be
inlined.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
from dangerous import ENDLESS, HUNGRY, OVERFLOW, SPLIT, saved
from hostile_case import UNVERIFIED, Case, options


def _saved(text: str) -> Callable[[Path], object]:
    return lambda folder: saved(text, folder / "m.onnx")


def _doubling(folder: Path) -> None:
    bodies = [
        "y = Neg (x)",
        *(f"t = local.f{number} (x) y = local.f{number} (t)" for number in range(60)),
    ]
    opsets = 'opset_import: ["" : 18, "local" : 1]'
    text = (
        f"<ir_version: 10, {opsets}>\nagraph (float[N] x) => (float[N] y) {{ y = local.f60 (x) }}\n"
    )
    for number, body in enumerate(bodies):
        text += f'<domain: "local", {opsets}>\nf{number} (x) => (y) {{ {body} }}\n'
    onnx.save(onnx.parser.parse_model(text), folder / "m.onnx")


CASES = [
    Case(
        "onnxruntime writes to where there is nothing",
        _saved(SPLIT),
        ("onnxruntime crashes when", "SIGSEGV"),
        UNVERIFIED,
    ),
    Case(
        "the same, not verified",
        _saved(SPLIT),
        ("onnxruntime crashes when",),
        0,
        options("--no-verify"),
    ),
    Case("the lowest number by -1", _saved(OVERFLOW), ("not verified", "SIGFPE"), UNVERIFIED),
    Case("the lowest number by -1, not verified", _saved(OVERFLOW), (), 0, options("--no-verify")),
    Case(
        "a loop without end",
        _saved(ENDLESS),
        ("not verified", "longer than 0.5 s"),
        UNVERIFIED,
        options("--timeout=0.5"),
    ),
    Case(
        "terabytes that a sum makes small",
        _saved(HUNGRY),
        ("more than 512 MiB", "not verified"),
        UNVERIFIED,
    ),
    Case(
        "functions that double 60 times", _doubling, ("E13005", "1,152,921,504,606,846,976 nodes")
    ),
]
