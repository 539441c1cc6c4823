"""What is known of one option, as metadata of a field of `Options`."""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, field, replace
from enum import Enum
from typing import Any

from fusionc.options.option_kinds import Kind

_KEY = "option"


class OptionGroup(Enum):
    """What options are about: the headings of `help(fusionc.convert)`. Commands choose their
    options by group.
    """

    FILES = "The model and the result"
    PASSES = "Which passes run"
    REQUEST = "What to change about the model"
    STORAGE = "How the result is stored"
    VERIFICATION = "How the result is verified"
    VERDICT = "What happens to a result that differs"
    KERNELS = "Graph kernel fusion"
    RECORDS = "What else is written and said"


@dataclass(frozen=True)
class Option:
    """An argument of `fusionc.convert` and, if it has a `flag`, an option of commands."""

    kind: Kind
    group: OptionGroup
    help: str  # of the command
    name: str = ""  # of the argument; by default that of the field
    flag: str | None = ""  # on a command line, by default --NAME; None if no command has it
    default: Any = None  # that of the field
    is_required: bool = False  # whether the field has no default
    other_default: Any = None  # that of the command, if it is another one
    choices: tuple[Any, ...] = ()
    give: str = ""  # what to give in Python instead of a wrong value
    metavar: str | None = None  # the form of the value on a command line
    aliases: tuple[str, ...] = ()  # ATC's other flags for it
    reads: str = ""  # what the file is that it names, if a conversion reads that file
    writes: bool = False  # whether it names a file or folder that a conversion writes

    @property
    def command_default(self) -> Any:
        """What the command takes if the option is not given."""
        return self.default if self.other_default is None else self.other_default

    def accepts(self, value: Any) -> bool:
        """Whether Python may give this value."""
        if value is None and self.default is None:
            return not self.is_required
        if not self.kind.accepts(value):
            return False
        values = value if self.kind.repeats else [value]
        return not self.choices or all(one in self.choices for one in values)

    @property
    def advice(self) -> str:
        """What to give in Python, in words."""
        which = "a list of some of" if self.kind.repeats else "one of"
        return self.give or self.kind.give or f"{which} {', '.join(self.choices)}"


def option(
    kind: Kind,
    group: OptionGroup,
    help_text: str,
    *,
    default: Any = None,
    is_required: bool = False,
    **details: Any,
) -> Any:
    """A field of `Options`, whose metadata is an `Option` with these `details`."""
    entry = Option(kind, group, help_text, default=default, is_required=is_required, **details)
    return field(default=MISSING if is_required else default, metadata={_KEY: entry})


def option_of(a_field: Field[Any]) -> Option:
    """The option of a field."""
    entry: Option = a_field.metadata[_KEY]
    name = entry.name or a_field.name
    return replace(entry, name=name, flag=f"--{name}" if entry.flag == "" else entry.flag)
