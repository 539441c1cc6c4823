"""The command-line arguments that mean the same as given options."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from fusionc.options.option import Option, OptionGroup
from fusionc.options.option_table import OPTIONS, Options


def words_of(options: Options, groups: Collection[OptionGroup] = tuple(OptionGroup)) -> list[str]:
    """The arguments of `fusionc convert` for the options of these groups. Options that have their
    default value are left out.
    """
    return [
        word
        for name, option in OPTIONS.items()
        if option.group in groups
        for word in _words(option, getattr(options, name))
    ]


def _words(option: Option, value: Any) -> list[str]:
    flag = option.flag
    if flag is None or value == option.command_default:
        return []
    if option.kind.stands_alone:
        return [flag]
    if option.kind.repeats:
        return [word for one in value for word in (flag, option.kind.spell(one))]
    text = option.kind.spell(value)
    if not text:  # an empty mapping or list asks for nothing
        return []
    return [f"{flag}={text}"] if option.kind.joins else [flag, text]
