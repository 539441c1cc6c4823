"""A switch file in which passes at fault, or slow ones, are off: the given file, changed."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path

from fusionc.rewrite import Pass
from fusionc.switches import PassNames
from fusionc.switches.switch_file import ALL, SECTIONS, read_file, read_option


def changed_switches(
    base: Path | None, registry: Sequence[Pass], off: Collection[Pass], on: Collection[Pass] = ()
) -> str:
    """The text of a switch file: `base`, if there is one, with some passes off and others on."""
    names = PassNames(registry)
    written: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    for entry in read_file(base).entries if base is not None else ():
        if entry.section:
            sections: Sequence[str] = (entry.section,)
        elif entry.key == ALL:
            sections = SECTIONS
        else:
            sections = (_kind(names.find(entry.key)),)
        for section in sections:
            written[section][entry.key] = "on" if entry.on else "off"
    for pass_, value in [*((pass_, "off") for pass_ in off), *((pass_, "on") for pass_ in on)]:
        for section in SECTIONS:
            written[section].pop(pass_.name, None)
        written[pass_.kind][pass_.name] = value
    return json.dumps({"Switch": written}, indent=4) + "\n"


def named_by_option(option: str | None, registry: Sequence[Pass]) -> set[str]:
    """The passes that --optimization_switch names; it overrides every switch file."""
    names = PassNames(registry)
    entries = read_option(option).entries if option else []
    return {p.name for entry in entries for p in names.find(entry.key)}


def _kind(found: Sequence[Pass]) -> str:
    """The section of a name; the older form of the file has no sections."""
    return found[0].kind if found else SECTIONS[0]
