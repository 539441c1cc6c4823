"""The predefined switch files, generated from the registry of passes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fusionc.switches.switch_file import SECTIONS

if TYPE_CHECKING:
    from fusionc.rewrite.definition import Pass

PRESETS = {
    "default": "every pass at its default, ready to be edited",
    "portable": "only the passes of GraphFusion: standard operators, for any runtime",
    "exact": "only passes with bitwise equal results, and passes that must stay on",
    "all_off": "no pass runs: the result equals the model, field by field",
}


def preset(name: str, passes: Sequence[Pass]) -> str:
    """The text of a switch file; in "default" and "exact" the passes are in order of execution."""
    sections = {kind: _entries(name, [p for p in passes if p.kind == kind]) for kind in SECTIONS}
    if name == "portable":
        sections["GraphFusion"] = {}
    return json.dumps({"Switch": sections}, indent=4) + "\n"


def _entries(name: str, passes: Sequence[Pass]) -> dict[str, str]:
    if name == "default":
        return {p.name: "off" if p.default == "off" else "on" for p in passes}
    if name == "exact":
        return {"ALL": "off"} | {p.name: "on" for p in passes if _is_exact(p)}
    return {"ALL": "off"}


def _is_exact(p: Pass) -> bool:
    """Whether the preset "exact" switches this pass on. It does if the results of the pass are
    bitwise equal and it is on by default, or if the pass must stay on.
    """
    return p.default == "must" or (p.default == "on" and p.numerics == "bitwise")
