"""The arguments of `fusionc.convert`: what the command line has checked already, for those who call it themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from fusionc.errors import UsageError

_SWITCHES = (
    "verify", "oo_constant_folding", "oo_dead_code_elimination", "pattern_fusion_pass", "enable_graph_kernel",
    "trust_kernels",
)  # fmt: skip
TARGETS = ("onnxruntime-cpu", "onnx")
OO_LEVELS = ("O1", "O3")


def check_arguments(given: Mapping[str, Any]) -> None:
    """Raise UsageError where the type or the range of one of these arguments is wrong.

    Text is refused where True or False is wanted: "false" would count as True.
    """
    for name in _SWITCHES:
        if not isinstance(given[name], bool | None):
            raise _wrong(name, given, "give True or False")
    if given["external_weight"] not in (None, 0, 1):
        raise _wrong("external_weight", given, "give 0, 1 or None")
    for name, ranges in (("input_shape", True), ("verify_shape", False)):
        shapes = given[name]
        if shapes is not None and not (
            isinstance(shapes, Mapping) and all(_is_shape(s, ranges) for s in shapes.values())
        ):
            raise _wrong(name, given, 'give {"x": (1, 3, 224, 224)}', ", not shapes by input name")
    timeout = given["timeout"]
    if timeout is not None and not (isinstance(timeout, int | float) and 0 <= timeout <= 1e9):
        raise _wrong("timeout", given, "give seconds, 0 for no limit, or None")
    opset = given["target_opset"]
    if opset is not None and not (isinstance(opset, int) and opset > 0):
        raise _wrong("target_opset", given, "give a number, or None for the opset of the model")
    if isinstance(given["custom_passes"], str | os.PathLike):
        raise _wrong("custom_passes", given, 'give a list of files: ["my_passes.py"]')
    for name, choices in (("target", TARGETS), ("oo_level", OO_LEVELS)):
        if given[name] not in choices:
            raise _wrong(name, given, f"give one of {', '.join(choices)}")


def _wrong(name: str, given: Mapping[str, Any], hint: str, wanted: str = "") -> UsageError:
    return UsageError(f"{name} is {given[name]!r}{wanted}", hint=hint, code="E10001")


def _is_shape(shape: object, ranges: bool) -> bool:
    """Whether this is a sequence of numbers and, with `ranges`, of pairs of numbers."""
    sizes = shape if isinstance(shape, Sequence) and not isinstance(shape, str) else (None,)
    pairs = (size if isinstance(size, tuple) and ranges else (size, size) for size in sizes)
    return all(len(pair) == 2 and all(isinstance(size, int) for size in pair) for pair in pairs)
