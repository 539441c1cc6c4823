"""ATC's spelling of options, and how ATC's options that fusionc lacks are treated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice, pairwise
from typing import TypeVar

import click

from fusionc.cli.atc_options import IGNORED, REFUSED
from fusionc.errors import UsageError
from fusionc.graph_kernel.flags.flag_table import EFFECTIVE, WITHOUT_EFFECT

_Decorated = TypeVar("_Decorated", bound=Callable[..., object])

_BOOLEANS = {
    **dict.fromkeys(("1", "t", "true", "y", "yes"), True),
    **dict.fromkeys(("0", "f", "false", "n", "no"), False),
}
_IGNORED_KEY = "fusionc.without_effect"  # the key of the ignored options in `ctx.meta`


class AtcCommand(click.Command):
    """A command that accepts ATC's spelling of options: `-model`, `--fusion-switch-file`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Respell each option as it is declared, and then parse as click does."""
        options = [
            parameter for parameter in self.get_params(ctx) if isinstance(parameter, click.Option)
        ]
        try:
            return super().parse_args(ctx, respell(args, options))
        except click.NoSuchOption as error:
            if hint := _hint_for_flag(key_of(error.option_name), options):
                raise click.UsageError(hint, ctx) from error
            raise
        except click.UsageError as error:
            if hint := _hint_for_model(ctx, error, args):
                what = error.format_message().rstrip(".")
                raise click.UsageError(f"{what}; {hint}", ctx) from error
            raise


def _hint_for_flag(name: str, options: Sequence[click.Option]) -> str:
    """How to write a flag of graph kernel fusion. "" if `name` is not such a flag, or if the
    command does not take flags of graph kernel fusion.
    """
    takes_flags = any(option.name == "graph_kernel_flags" for option in options)
    if not takes_flags or name not in (*EFFECTIVE, *WITHOUT_EFFECT):
        return ""
    return f'--{name} is a flag of graph kernel fusion: --graph_kernel_flags "--{name}=..."'


def _hint_for_model(ctx: click.Context, error: click.UsageError, args: Sequence[str]) -> str:
    """Advice on how to name a model that stands on the command line without --model. "" if the
    error is neither a missing --model nor a surplus argument.
    """
    model = _lone_model(args)
    if model is None:
        return ""
    if isinstance(error, click.MissingParameter):
        lacks_model = error.param is not None and error.param.name == "model"
        return f"write --model {model}" if lacks_model else ""
    if "unexpected extra" not in error.message:
        return ""
    if ctx.params.get("models"):
        return "write --model before each, or a pattern in quotes"
    option_value = ctx.params.get("models", ctx.params.get("model", ""))
    return f"write --model {model}" if option_value in (None, ()) else ""


def _lone_model(args: Sequence[str]) -> str | None:
    """The first model that is not the value of an option."""
    values = {arg for option, arg in pairwise(args) if option.startswith("-") and "=" not in option}
    return next((arg for arg in args if is_model(arg) and arg not in values), None)


def is_model(word: str) -> bool:
    """Whether an argument of the command line is the file name of a model."""
    return word.lower().endswith(".onnx") and not word.startswith("-")


def atc_bool(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> bool | None:
    """A click callback for ATC's booleans: 1, t, true, y, yes and 0, f, false, n, no."""
    if value is None:
        return None
    if value.lower() not in _BOOLEANS:
        raise click.BadParameter(f"{value!r} is not a boolean; use true or false.")
    return _BOOLEANS[value.lower()]


def other_options(command: _Decorated) -> _Decorated:
    """A decorator: accept ATC's options that fusionc does not implement, without showing them in
    the help. Refused options end the command, ignored options do nothing.
    """
    for name in (name for names in IGNORED.values() for name in names.split()):
        command = click.option(f"--{name}", hidden=True, expose_value=False, callback=_remember)(
            command
        )
    for name in REFUSED:
        command = click.option(f"--{name}", hidden=True, expose_value=False, callback=_refuse)(
            command
        )
    return command


def notices(ctx: click.Context, idle: Sequence[str] = ()) -> list[str]:
    """One notice that lists all options without effect: ATC's ignored options and the `idle` ones.
    Empty if every option has an effect.
    """
    names = dict.fromkeys([*ctx.meta.get(_IGNORED_KEY, ()), *idle])
    return [f"accepted, no effect: {', '.join(names)}"] if names else []


def respell(args: list[str], options: Sequence[click.Option]) -> list[str]:
    """`args` with each option spelled as it is declared. Values stay unchanged, even if they begin
    with a dash.
    """
    declared = {
        key_of(name): (name, option) for option in options for name in option.opts if len(name) > 2
    }
    result: list[str] = []
    rest = iter(args)
    for arg in rest:
        name, equals, value = arg.partition("=")
        if arg == "--":
            result += [arg, *rest]
        elif len(name) < 3 or not name.startswith("-"):
            result.append(arg)
        else:
            spelling, option = declared.get(key_of(name), (f"--{name.lstrip('-')}", None))
            result.append(spelling + equals + value)
            if option is not None and not equals and _needs_value(option):
                result += islice(rest, 1)
    return result


def _needs_value(option: click.Option) -> bool:
    can_stand_alone = isinstance(option.flag_value, str)
    return not option.is_flag and not can_stand_alone


def key_of(name: str) -> str:
    """The name of an option in one form for all spellings: without leading dashes, with
    underscores.
    """
    return name.lstrip("-").replace("-", "_")


def _remember(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta.setdefault(_IGNORED_KEY, []).append(parameter.opts[0])


def _refuse(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Raise UsageError unless the value is empty or asks for fusionc's normal behaviour."""
    if value is None:
        return
    option = parameter.opts[0]
    refused = REFUSED[key_of(option)]
    if not all(part.strip().lower() in ("", *refused.harmless) for part in value.split(",")):
        what = f"{option} asks for {refused.asks_for}, which fusionc does not offer"
        hint = refused.instead
        if value.strip().lower() in refused.offered:
            what = f"{option} asks for {refused.asks_for}, which another option of fusionc offers"
            hint = refused.other_option
        raise UsageError(what, where=f"{option}={value}", hint=hint, code="E10001")
    _remember(ctx, parameter, value)
