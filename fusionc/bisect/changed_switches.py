"""Change a switch file: switch off passes that are at fault or slow."""

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
    """The text of a switch file. It has the entries of the file `base` (if given); the passes `off`
    are switched off in it, and the passes `on` are switched on.
    """
    names = PassNames(registry)
    switches: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    for entry in read_file(base).entries if base is not None else ():
        if entry.section:
            sections: Sequence[str] = (entry.section,)
        elif entry.key == ALL:
            sections = SECTIONS
        else:
            sections = (_kind(names.find(entry.key)),)
        for section in sections:
            switches[section][entry.key] = "on" if entry.on else "off"
    for pass_, value in [*((pass_, "off") for pass_ in off), *((pass_, "on") for pass_ in on)]:
        for section in SECTIONS:
            switches[section].pop(pass_.name, None)
        switches[pass_.kind][pass_.name] = value
    return json.dumps({"Switch": switches}, indent=4) + "\n"


def named_by_option(option: str | None, registry: Sequence[Pass]) -> set[str]:
    """The names of the passes in the value of --optimization_switch. The option overrides every
    switch file.
    """
    names = PassNames(registry)
    entries = read_option(option).entries if option else []
    return {p.name for entry in entries for p in names.find(entry.key)}


def _kind(passes: Sequence[Pass]) -> str:
    """The section for an entry of a switch file in the older text form, which has no sections.
    `passes` are the passes that the entry names.
    """
    return passes[0].kind if passes else SECTIONS[0]
