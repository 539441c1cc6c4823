"""The description of one option: the metadata of a field of `Options`."""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, field, replace
from enum import Enum
from typing import Any

from fusionc.options.option_kinds import Kind

_KEY = "option"


class OptionGroup(Enum):
    """The subjects of options. They are the headings in `help(fusionc.convert)`, and each command
    chooses its options by these groups.
    """

    FILES = "The model and the result"
    PASSES = "Which passes run"
    REQUEST = "What to change about the model"
    STORAGE = "How the result is stored"
    VERIFICATION = "How the result is verified"
    VERDICT = "What happens to a result that differs"
    KERNELS = "Graph kernel fusion"
    RECORDS = "What else is written and shown"


@dataclass(frozen=True)
class Option:
    """An argument of `fusionc.convert` and, if it has a `flag`, an option of commands."""

    kind: Kind
    group: OptionGroup
    help: str  # the help text of the command
    name: str = ""  # the argument's name; by default the field's name
    short: str = ""  # the short form of the flag, such as "-o"
    flag: str | None = ""  # the flag on a command line, by default --NAME; None if there is none
    default: Any = None  # the default of the field
    is_required: bool = False  # whether the field has no default
    other_default: Any = None  # the command's default, if it differs from the field's
    choices: tuple[Any, ...] = ()  # the allowed values; empty if every value of the kind is allowed
    give: str = ""  # what to give instead of a wrong value in Python; the error says "give …"
    metavar: str | None = None  # the form of the value on a command line
    aliases: tuple[str, ...] = ()  # ATC's other flags for this option
    reads: str = ""  # a description of the file that this option names, if a conversion reads it
    writes: bool = False  # whether the option names a file or folder that a conversion writes

    @property
    def command_default(self) -> Any:
        """The value if the command line does not have the option."""
        return self.default if self.other_default is None else self.other_default

    def accepts(self, value: Any) -> bool:
        """Whether this is a valid argument in Python."""
        if value is None and self.default is None:
            return not self.is_required
        if not self.kind.accepts(value):
            return False
        values = value if self.kind.repeats else [value]
        return not self.choices or all(one in self.choices for one in values)

    @property
    def advice(self) -> str:
        """A description of valid arguments in Python."""
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
    """A field of `Options`. The metadata of the field is an `Option` with these `details`."""
    entry = Option(kind, group, help_text, default=default, is_required=is_required, **details)
    return field(default=MISSING if is_required else default, metadata={_KEY: entry})


def option_of(a_field: Field[Any]) -> Option:
    """The option of a field."""
    entry: Option = a_field.metadata[_KEY]
    name = entry.name or a_field.name
    return replace(entry, name=name, flag=f"--{name}" if entry.flag == "" else entry.flag)
