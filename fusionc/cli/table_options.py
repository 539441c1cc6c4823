"""Click options, made from the table of options in fusionc/options/option_table.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import click

from fusionc.cli.atc_spelling import atc_bool
from fusionc.cli.exit_codes import show_tracebacks
from fusionc.cli.files import FilePath
from fusionc.cli.shape_options import (
    parse_axes,
    parse_integers,
    parse_profiles,
    parse_run_shape,
    parse_sizes,
)
from fusionc.options import OPTIONS
from fusionc.options import option_kinds as kinds
from fusionc.options.option import Option
from fusionc.options.option_kinds import Kind

Decorated = TypeVar("Decorated", bound=Callable[..., object])


_Callback = Callable[[click.Context, click.Parameter, str | None], float | None]


def number_of(kind: Kind, form: str) -> _Callback:
    """A click callback that turns the text into a number. If the text is not a number that the kind
    accepts, the error is "TEXT is not FORM".
    """

    def convert(
        context: click.Context, parameter: click.Parameter, text: str | None
    ) -> float | None:
        if text is None:
            return None
        with suppress(ValueError):
            number = float(text)
            if kind.accepts(number):
                return number
        raise click.BadParameter(f"{text!r} is not {form}.", context, parameter)

    return convert


def _negate(_ctx: click.Context, _parameter: click.Parameter, is_given: bool) -> bool:
    return not is_given


def _external_weight(
    ctx: click.Context, parameter: click.Parameter, value: str | None
) -> int | None:
    try:
        is_external = value == "2" or atc_bool(ctx, parameter, value)
    except click.BadParameter as error:
        raise click.BadParameter(f"{value!r} is not 0, 1 or 2.") from error
    return None if value is None else int(is_external or 0)


def _file_or_names(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> Any:
    return kinds.file_or_names(value)


def _number(_ctx: click.Context, _parameter: click.Parameter, value: str) -> int:
    return int(value)


_DETAILS_OF_KIND: Mapping[Kind, Mapping[str, Any]] = {
    kinds.FILE: {"type": FilePath()},
    kinds.FILES: {"type": FilePath()},
    kinds.SWITCH: {"callback": atc_bool},
    kinds.OPEN_SWITCH: {"callback": atc_bool, "is_flag": False, "flag_value": "true"},
    kinds.FLAG: {"is_flag": True},
    kinds.NEGATED_FLAG: {"is_flag": True, "callback": _negate},
    kinds.OPSET: {"type": click.IntRange(min=1)},
    kinds.SECONDS: {"callback": number_of(kinds.SECONDS, "a number of seconds from 0 to 1e9")},
    kinds.SHARE: {"callback": number_of(kinds.SHARE, "a number above 0 and at most 1")},
    kinds.AMOUNT: {"type": click.FloatRange(min=0)},
    kinds.SIZES: {"callback": parse_sizes},
    kinds.SHAPES: {"callback": parse_run_shape},
    kinds.AXES: {"callback": parse_axes},
    kinds.NAMES_OR_FILE: {"callback": _file_or_names},
    kinds.INTEGERS: {"callback": parse_integers},
    kinds.PROFILES: {"callback": parse_profiles},
}
_DETAILS_OF_OPTION: Mapping[str, Mapping[str, Any]] = {
    "external_weight": {"type": str, "callback": _external_weight},
    "export_compile_stat": {"callback": _number},
    "input_format": {"type": click.Choice(OPTIONS["input_format"].choices, case_sensitive=False)},
    "log": {"callback": show_tracebacks},
}


def click_option(
    name: str, help_text: str = "", **changes: Any
) -> Callable[[Decorated], Decorated]:
    """A decorator that adds the option of this field of `Options`. `help_text` replaces the help
    text of the table. `changes` replace or add arguments of `click.option`.
    """
    option = OPTIONS[name]
    details: dict[str, Any] = {
        "help": help_text or _help(option),
        "metavar": option.metavar or option.kind.metavar,
    }
    if option.choices:
        details["type"] = click.Choice([str(choice) for choice in option.choices])
    details |= _default(option)
    details |= {
        **_DETAILS_OF_KIND.get(option.kind, {}),
        **_DETAILS_OF_OPTION.get(name, {}),
        **changes,
    }
    assert option.flag is not None
    flags = filter(None, (option.flag, option.short))
    return click.option(*flags, option.name, **details)


def alias_options(name: str) -> list[Callable[[Decorated], Decorated]]:
    """Decorators that add ATC's other flags for this field. The help does not show them."""
    option = OPTIONS[name]
    return [
        click.option(alias, hidden=True, **_DETAILS_OF_KIND[option.kind])
        for alias in option.aliases
    ]


def _help(option: Option) -> str:
    aliases = "".join(f" ATC's {alias} does the same." for alias in option.aliases)
    repetition = " May be given several times." if option.kind.repeats else ""
    return f"{option.help}{aliases}{repetition}"


def _default(option: Option) -> dict[str, Any]:
    default = option.command_default
    if option.kind.repeats:
        return {"multiple": True, **({"default": default, "show_default": True} if default else {})}
    if default is None or option.kind.stands_alone:
        return {}
    return {"default": option.kind.spell(default), "show_default": True}
