"""A complete switch file, ready to be edited."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fusionc.switches.switch_file import SECTIONS

if TYPE_CHECKING:
    from fusionc.rewrite.definition import Pass


def template(passes: Sequence[Pass]) -> str:
    """The switch file that says what happens without one: every pass, in order of execution, at its default."""
    sections = {
        section: {p.name: "off" if p.default == "off" else "on" for p in passes if p.kind == section}
        for section in SECTIONS
    }
    return json.dumps({"Switch": sections}, indent=4) + "\n"
