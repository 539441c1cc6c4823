"""Decides which passes run, in CANN's order: --optimization_switch, must-stay-on, own entry,
levels, ALL, default.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fusionc.switches.levels import Levels
from fusionc.switches.names import PassNames
from fusionc.switches.switch_file import (
    ALL,
    OPTION,
    SECTIONS,
    Entry,
    WrittenSwitches,
    read_file,
    read_option,
)

if TYPE_CHECKING:
    from fusionc.rewrite.definition import Pass

# CANN's name for all the passes that a switch file cannot switch off
_ALL_MUST = "forbidden_close_pass"
_EVERY_NAME = sys.maxsize  # a name that stands for more passes than any other


@dataclass(frozen=True)
class Switches:
    """The names of the passes that run, and what the user should know about how that came to be."""

    enabled: frozenset[str]
    notices: tuple[str, ...]


@dataclass
class _Wishes:
    """What one source asks for: by pass name, by section ("ALL"), and in names that only Ascend
    has.
    """

    # with how many passes that name stands for
    by_pass: dict[str, tuple[Entry, int]] = field(default_factory=dict)
    every: dict[str, bool] = field(default_factory=dict)
    ascend_only: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    @property
    def own(self) -> dict[str, bool]:
        """What is asked for by the names of passes."""
        return {name: entry.on for name, (entry, _) in self.by_pass.items()}

    def add(self, entry: Entry, found: Iterable[Pass], reach: int) -> None:
        """Note what was written of all passes of a name, which stands for `reach` passes.

        Of two names of one pass, the one that stands for fewer passes counts; of two such, which in
        CANN are two passes, the one that is off.
        """
        for p in found:
            known, known_reach = self.by_pass.setdefault(p.name, (entry, reach))
            if known_reach == reach and known.on != entry.on:
                off, other = (known, entry) if entry.on else (entry, known)
                self.by_pass[p.name] = (off, reach)
                self.notices.append(
                    f'"{off.key}" and "{other.key}" are one pass here, {p.name}: "off" counts'
                )
            elif known_reach > reach:
                self.by_pass[p.name] = (entry, reach)


def decide(
    passes: Sequence[Pass],
    *,
    switch_file: Path | None = None,
    optimization_switch: str | None = None,
    levels: Levels | None = None,
    pattern_fusion_pass: bool = True,
) -> Switches:
    """Which of `passes` run. `levels` switch off what neither the file nor the option switches on
    by its name; `pattern_fusion_pass` False switches those of pattern fusion off, whatever else
    says.

    Raises UsageError: E21001 the switch file cannot be opened, E21002 its content is wrong (all
    mistakes at once), E10001 the value of --optimization_switch is wrong.
    """
    names = PassNames(passes)
    must = [p for p in passes if p.default == "must"]
    file = _Wishes() if switch_file is None else _wishes(read_file(switch_file), names, must)
    option = (
        _Wishes()
        if optimization_switch is None
        else _wishes(read_option(optimization_switch), names, must)
    )
    named = file.own | option.own
    on = {
        p.name: named.get(p.name, p.default == "on" and file.every.get(p.kind) is not False)
        for p in passes
    }
    notices = [*file.notices, *option.notices]
    if still_off := [
        p for p in passes if p.default == "off" and file.every.get(p.kind) and p.name not in named
    ]:
        what = f'"ALL": "on" leaves off what is off by default (passes: {len(still_off)})'
        notices.append(f'{what}; an entry of its own switches one on, "fusionc passes" lists them')
    listed = {
        "Ascend only: no effect here": list(dict.fromkeys([*file.ascend_only, *option.ascend_only]))
    }
    listed |= _settle_must(passes, file, option, on)
    below = {
        name: why
        for name, why in (levels or Levels()).off(on).items()
        if on.get(name) and not named.get(name)
    }
    on |= dict.fromkeys(below, False)
    notices += [
        f"off by {why}: {count} pass{'es' * (count > 1)}"
        for why, count in Counter(below.values()).items()
    ]
    if never := [f"{p.name}: {p.never_matches}" for p in passes if p.never_matches and on[p.name]]:
        listed["never matches"] = ["; ".join(never)]
    if not pattern_fusion_pass:
        listed["off by --pattern_fusion_pass"] = [
            p.name for p in passes if p.is_pattern_fusion and on[p.name]
        ]
        on |= dict.fromkeys(listed["off by --pattern_fusion_pass"], False)
    notices += [f"{what}: {', '.join(which)}" for what, which in listed.items() if which]
    return Switches(frozenset(name for name, is_on in on.items() if is_on), tuple(notices))


def _settle_must(
    passes: Sequence[Pass], file: _Wishes, option: _Wishes, on: dict[str, bool]
) -> dict[str, list[str]]:
    """Correct `on` for the passes that must stay on, and say what became of an "off" for them.

    They serve the other passes. Where somebody switched all of those off, they are off as well, so
    that a model can be written as it was read; an explicit "on" keeps one on by itself.
    """
    must = [p.name for p in passes if p.default == "must"]
    asked = {p.name: file.own.get(p.name, file.every.get(p.kind)) for p in passes} | option.own
    others_off = False in asked.values() and not any(
        is_on for name, is_on in on.items() if name not in must
    )
    forced = [name for name in must if option.own.get(name) is False]
    dropped = [
        name for name in must if others_off and name not in option.own and not file.own.get(name)
    ]
    on |= {name: name not in (*forced, *dropped) for name in must}
    ignored = [name for name in must if on[name] and asked[name] is False]
    as_read = "" if any(on.values()) else ", and the model is written as it was read"
    return {
        f"off by {OPTION}, although a switch file cannot switch them off": forced,
        'cannot be switched off in a switch file, "off" is ignored': ignored,
        f"every other pass is off, so these are off too{as_read}": dropped,
    }


def _wishes(source: WrittenSwitches, names: PassNames, must: Sequence[Pass]) -> _Wishes:
    """What is written, in terms of passes. `must` are those that a switch file cannot switch
    off.
    """
    wishes = _Wishes()
    misplaced = []
    for entry in source.entries:
        found = names.find(entry.key)
        if entry.key == ALL:
            wishes.every |= dict.fromkeys(
                SECTIONS if entry.section is None else (entry.section,), entry.on
            )
        elif found:
            wishes.add(entry, found, len(found))
            if entry.section not in (None, *(p.kind for p in found)):
                misplaced.append(f"{entry.key} ({found[0].kind})")
        elif entry.key == _ALL_MUST and source.path is None:
            wishes.add(entry, must, _EVERY_NAME)
        elif names.is_ascend_only(entry.key):
            wishes.ascend_only.append(entry.key)
        else:
            source.mistakes.append((entry.at, names.complaint(entry.key)))
    source.refuse_mistakes()
    if source.without_effect:
        wishes.notices.append(
            f"no effect here: {', '.join(source.without_effect)} of {source.path}"
        )
    if misplaced:
        wishes.notices.append(
            f"accepted, though they belong to the other section: {', '.join(misplaced)}"
        )
    return wishes
