"""What can be changed for this model: groups of changes that belong together, and the single ones
in each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from fusionc.runtime.optimizers import OPTIMIZERS
from fusionc.tune.configuration import TunedChange

_LAYOUT = (
    "NchwcTransformer",
    "NhwcTransformer",
    "TransposeOptimizer",
    "TransposeOptimizer_CPUExecutionProvider",
)


@dataclass(frozen=True)
class Group:
    """A change, and the smaller ones that it is made of: none where it is one itself."""

    whole: TunedChange
    members: tuple[TunedChange, ...] = ()

    def changes(self) -> tuple[TunedChange, ...]:
        """All of them."""
        return self.whole, *self.members


@dataclass(frozen=True)
class Facts:
    """What took effect in the default conversion: passes with their topics and areas by name;
    passes that are off by default and would take effect; and which of onnxruntime's optimizers
    change what comes out.
    """

    passes: Mapping[str, str]
    areas: Sequence[str]
    idle: Sequence[str]
    optimizers: Sequence[str]


def groups_of(facts: Facts, threads: Sequence[int]) -> list[Group]:
    """The groups, those of the graph first; `threads` are numbers to try."""
    by_topic = groupby(
        sorted(facts.passes.items(), key=lambda item: item[1]), key=lambda item: item[1]
    )
    groups = [_switched_off(topic, [name for name, _ in named]) for topic, named in by_topic]
    groups += [
        Group(TunedChange(f"{name} on", "passes", on=frozenset({name}))) for name in facts.idle
    ]
    if facts.areas:
        members = [
            TunedChange(f"area {name} off", "areas", areas_off=frozenset({name}))
            for name in facts.areas
        ]
        whole = TunedChange("all areas off", "areas", kernels=False)
        groups.append(Group(whole, tuple(members)) if len(members) > 1 else Group(members[0]))
    known = [name for name in facts.optimizers if name in OPTIMIZERS and "RuleBased" not in name]
    for title, names in (
        ("layouts", [name for name in known if name in _LAYOUT]),
        ("fusions", [name for name in known if "Fusion" in name]),
        (
            "other optimizers",
            [name for name in known if name not in _LAYOUT and "Fusion" not in name],
        ),
    ):
        if names:
            members = [
                TunedChange(f"onnxruntime without {name}", "optimizers", optimizers_off=(name,))
                for name in names
            ]
            whole = TunedChange(
                f"onnxruntime without its {title}", "optimizers", optimizers_off=tuple(names)
            )
            groups.append(Group(whole, tuple(members)) if len(members) > 1 else Group(members[0]))
    return [*groups, *_settings(threads)]


def _switched_off(topic: str, names: Sequence[str]) -> Group:
    members = tuple(TunedChange(f"{name} off", "passes", off=frozenset({name})) for name in names)
    if len(members) == 1:
        return Group(members[0])
    return Group(TunedChange(f"passes of {topic} off", "passes", off=frozenset(names)), members)


def _settings(threads: Sequence[int]) -> list[Group]:
    changes = [
        TunedChange(f"{count} thread{'s' * (count > 1)}", "settings", threads=count)
        for count in threads
    ]
    changes += [
        TunedChange("no spinning", "settings", no_spinning=True),
        TunedChange("no arena", "settings", no_arena=True),
        TunedChange("no planned memory", "settings", no_planned_memory=True),
    ]
    return [Group(change) for change in changes]
