"""Decide which passes run. The order of precedence is that of CANN (Ascend's toolkit, to which the
model converter ATC belongs). The strongest comes first:

1. --optimization_switch
2. passes that must stay on
3. the pass's own entry in the switch file
4. the levels: --oo_level, --oo_constant_folding and --oo_dead_code_elimination
5. the entry "ALL" in the switch file
6. the pass's default
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fusionc.errors import listing, quote
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

# CANN's name for all passes that a switch file cannot switch off
_ALL_MUST = "forbidden_close_pass"
_MISPLACED = "accepted, although they belong to the other section"
_ALL_MUST_REACH = sys.maxsize  # more than the number of passes that any alias means


@dataclass(frozen=True)
class Switches:
    """The decision which passes run."""

    enabled: frozenset[str]  # the names of the passes that run
    notices: tuple[str, ...]  # the reasons, for the user
    # the switches of single passes, by pass name
    named: Mapping[str, bool] = field(default_factory=dict, compare=False)


@dataclass
class _Wishes:
    """The switches in one source: the switch file, or --optimization_switch."""

    # by pass name: the entry that counts, and the number of passes that the name in it means
    by_pass: dict[str, tuple[Entry, int]] = field(default_factory=dict)
    every: dict[str, bool] = field(default_factory=dict)  # the value of "ALL", by section
    notices: list[str] = field(default_factory=list)
    # the names to list in each notice, by the text of the notice
    listed: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def own(self) -> dict[str, bool]:
        """The switches of single passes, by pass name."""
        return {name: entry.on for name, (entry, _) in self.by_pass.items()}

    def add(self, entry: Entry, passes: Iterable[Pass], reach: int) -> None:
        """Note an entry whose name means these passes. `reach` is their number.

        If two entries concern one pass, the entry whose name means fewer passes counts. If both
        names mean the same number, they are two different passes in CANN, and "off" counts.
        """
        for p in passes:
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
    """Which of `passes` run. `levels` switch off passes, except those that the file or
    --optimization_switch switches on by name. `pattern_fusion_pass=False` switches off all pattern
    fusion passes and overrides everything else.

    Raises UsageError: E21001 if the switch file cannot be opened, E21002 if its content is wrong
    (all mistakes at once), E10001 if the value of --optimization_switch is wrong.
    """
    names = PassNames(passes)
    must = [p for p in passes if p.default == "must"]
    file = _Wishes()
    option = _Wishes()
    if switch_file is not None:
        file = _wishes(read_file(switch_file), names, must)
    if optimization_switch is not None:
        option = _wishes(read_option(optimization_switch), names, must)
    choice = _Choice(passes, file, option)
    choice.settle_must()
    choice.apply_levels(levels or Levels())
    if not pattern_fusion_pass:
        choice.switch_off_pattern_fusion()
    notices = [
        *choice.notices,
        *(f"{what}: {listing(names)}" for what, names in choice.listed.items() if names),
    ]
    enabled = frozenset(name for name, is_on in choice.on.items() if is_on)
    return Switches(enabled, tuple(notices), choice.named)


class _Choice:
    """Which passes are on, and the notices about this. Each method is one step of the decision."""

    def __init__(self, passes: Sequence[Pass], file: _Wishes, option: _Wishes) -> None:
        self.passes = passes
        self.file = file
        self.option = option
        self.named = file.own | option.own  # the switches of single passes, by pass name
        self.on = {p.name: self._is_asked(p) for p in passes}
        self.notices = [*file.notices, *option.notices]
        asked_all = [p for p in passes if p.default == "off" and file.every.get(p.kind)]
        if still_off := [p for p in asked_all if p.name not in self.named]:
            what = '"ALL": "on" does not switch on passes that are off by default'
            hint = 'switch them on by name; "fusionc passes" lists them'
            self.notices.append(f"{what} ({len(still_off)}); {hint}")
        self.listed = {
            what: list(dict.fromkeys([*file.listed[what], *option.listed[what]]))
            for what in (*file.listed, *option.listed)
        }

    def _is_asked(self, p: Pass) -> bool:
        """Whether a pass is switched on by its name, by "ALL", or by default."""
        by_default = p.default == "on" and self.file.every.get(p.kind) is not False
        return self.named.get(p.name, by_default)

    def settle_must(self) -> None:
        """Correct the decision for the passes that must stay on.

        These passes serve the other passes. If all other passes are off, these passes are off as
        well, so that the model is written unchanged. An explicit "on" keeps such a pass on.
        """
        must = [p.name for p in self.passes if p.default == "must"]
        requested = {
            p.name: self.file.own.get(p.name, self.file.every.get(p.kind)) for p in self.passes
        }
        requested |= self.option.own
        forced = [name for name in must if self.option.own.get(name) is False]
        dropped = self._needless(must) if False in requested.values() else []
        self.on |= {name: name not in (*forced, *dropped) for name in must}
        ignored = [name for name in must if self.on[name] and self.file.own.get(name) is False]
        unchanged = "" if any(self.on.values()) else ", and the model is written unchanged"
        self.listed |= {
            f"off by {OPTION}, although a switch file cannot switch them off": forced,
            '"off" is ignored, because a switch file cannot switch these passes off': ignored,
            f"every other pass is off, so these are off, too{unchanged}": dropped,
        }

    def _needless(self, must: Sequence[str]) -> list[str]:
        """The passes that must stay on but serve no other pass, because all other passes are off.
        Empty if another pass is on.
        """
        if any(is_on for name, is_on in self.on.items() if name not in must):
            return []
        return [n for n in must if n not in self.option.own and not self.file.own.get(n)]

    def apply_levels(self, levels: Levels) -> None:
        """Switch off the passes that the levels exclude, except those that are on by name."""
        reasons = levels.off(self.on)
        off = {n: why for n, why in reasons.items() if self.on.get(n) and not self.named.get(n)}
        self.on |= dict.fromkeys(off, False)
        self.notices += [
            f"off by {why}: {count} pass{'es' * (count > 1)}"
            for why, count in Counter(off.values()).items()
        ]

    def switch_off_pattern_fusion(self) -> None:
        """Switch off all passes of pattern fusion."""
        off = [p.name for p in self.passes if p.is_pattern_fusion and self.on[p.name]]
        self.listed["off by --pattern_fusion_pass"] = off
        self.on |= dict.fromkeys(off, False)


def _wishes(source: WrittenSwitches, names: PassNames, must: Sequence[Pass]) -> _Wishes:
    """The switches of one source, by pass. `must` are the passes that a switch file cannot switch
    off.
    """
    wishes = _Wishes()
    for entry in source.entries:
        passes = names.find(entry.key)
        if entry.key == ALL:
            sections = SECTIONS if entry.section is None else (entry.section,)
            wishes.every |= dict.fromkeys(sections, entry.on)
        elif passes:
            wishes.add(entry, passes, len(passes))
            if entry.section not in (None, *(p.kind for p in passes)):
                wishes.listed[_MISPLACED].append(f"{entry.key} ({passes[0].kind})")
        elif entry.key == _ALL_MUST and source.path is None:
            wishes.add(entry, must, _ALL_MUST_REACH)
        elif names.is_ascend_only(entry.key):
            wishes.listed["only for Ascend chips, no effect in fusionc"].append(entry.key)
        elif source.path is None or entry.key in names.typos:
            source.complain(entry.at, names.complaint(entry.key))
        else:
            wishes.listed["ignored, because no pass has such a name"].append(quote(entry.key))
    source.refuse_mistakes()
    wishes.listed[f"no effect in fusionc, in {source.path}"] = source.without_effect
    return wishes
