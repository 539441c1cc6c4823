"""The list of arguments in `help(fusionc.convert)`, from the table of options."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from fusionc.options.option import Option, OptionGroup
from fusionc.options.option_kinds import NEGATED_FLAG
from fusionc.options.option_table import OPTIONS

_Function = TypeVar("_Function", bound=Callable[..., Any])
_COLUMN = 26  # the column in which help texts begin
_WIDTH = 96


def document_arguments(function: _Function) -> _Function:
    """A decorator: put the list of arguments after the first paragraph of the docstring."""
    first, _, rest = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
    function.__doc__ = "\n\n".join((first, *_sections(), rest))
    return function


def _sections() -> Iterator[str]:
    for group in OptionGroup:
        options = [option for option in OPTIONS.values() if option.group is group]
        yield "\n".join([f"{group.value}:", *map(_entry, options)])


def _entry(option: Option) -> str:
    text = f"False: {option.help}" if option.kind is NEGATED_FLAG else option.help
    if option.give or option.choices:
        text = f"{text} Give {option.advice}."
    # help texts name options as on a command line; Python arguments have no dashes
    text = re.sub(rf"--({'|'.join(OPTIONS)})\b", r"\1", text)
    return textwrap.fill(
        f"{option.name:<{_COLUMN - 1}} {text}",
        _WIDTH,
        subsequent_indent=" " * _COLUMN,
        break_on_hyphens=False,
        break_long_words=False,
    )
