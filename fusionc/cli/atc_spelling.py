"""ATC's habits: how it spells options, and what becomes of those that fusionc has not."""

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
_GIVEN = "fusionc.without_effect"


class AtcCommand(click.Command):
    """A command that takes ATC's spelling of options: `-model`, `--fusion-switch-file`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, with every option spelled as it is declared."""
        options = [
            parameter for parameter in self.get_params(ctx) if isinstance(parameter, click.Option)
        ]
        try:
            return super().parse_args(ctx, respelled(args, options))
        except click.NoSuchOption as error:
            name = key_of(error.option_name)
            if name in (*EFFECTIVE, *WITHOUT_EFFECT) and any(
                option.name == "graph_kernel_flags" for option in options
            ):
                what = f'--{name} is a flag of graph kernel fusion: --graph_kernel_flags "--{name}=..."'
                raise click.UsageError(what, ctx) from error
            raise
        except click.UsageError as error:
            values = {
                arg
                for option, arg in pairwise(args)
                if option.startswith("-") and "=" not in option
            }
            misplaced = [arg for arg in args if is_model(arg) and arg not in values]
            if misplaced and (hint := _where_models_go(ctx, error, misplaced[0])):
                raise click.UsageError(
                    f"{error.format_message().rstrip('.')}; {hint}", ctx
                ) from error
            raise


def is_model(word: str) -> bool:
    """Whether a word of the command line is the file name of a model."""
    return word.lower().endswith(".onnx") and not word.startswith("-")


def atc_bool(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> bool | None:
    """A click callback for ATC's booleans: 1, t, true, y, yes and 0, f, false, n, no."""
    if value is None:
        return None
    if value.lower() not in _BOOLEANS:
        raise click.BadParameter(f"{value!r} is not a boolean; use true or false.")
    return _BOOLEANS[value.lower()]


def other_options(command: _Decorated) -> _Decorated:
    """Take ATC's other options, hidden: those that would change the result end the command, the
    others do nothing.
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


def notices(ctx: click.Context, of_no_use: Sequence[str] = ()) -> list[str]:
    """At most one notice: which options had no effect."""
    given = dict.fromkeys([*ctx.meta.get(_GIVEN, ()), *of_no_use])
    return [f"accepted, no effect: {', '.join(given)}"] if given else []


def respelled(args: list[str], options: Sequence[click.Option]) -> list[str]:
    """`args` with every option named as it is declared. Values are left alone, whatever they begin
    with.
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
            if (
                option is not None
                and not option.is_flag
                and not _stands_alone(option)
                and not equals
            ):
                result += islice(rest, 1)
    return result


def _stands_alone(option: click.Option) -> bool:
    """Whether the value of an option may be left out."""
    return isinstance(option.flag_value, str)


def key_of(name: str) -> str:
    """An option as it is compared, however it is spelled."""
    return name.lstrip("-").replace("-", "_")


def _where_models_go(ctx: click.Context, error: click.UsageError, model: str) -> str:
    """How to name a model that stands alone, where a command has failed for want of --model, or for
    more of them.
    """
    if isinstance(error, click.MissingParameter):
        return (
            f"write --model {model}"
            if error.param is not None and error.param.name == "model"
            else ""
        )
    if "unexpected extra" not in error.message:
        return ""
    if ctx.params.get("models"):
        return "write --model before each, or a pattern in quotes"
    return (
        f"write --model {model}"
        if ctx.params.get("models", ctx.params.get("model", "")) in (None, ())
        else ""
    )


def _remember(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta.setdefault(_GIVEN, []).append(parameter.opts[0])


def _refuse(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Raises UsageError unless the value asks for nothing, or for what is done anyway."""
    if value is None:
        return
    option = parameter.opts[0]
    refused = REFUSED[key_of(option)]
    if not all(part.strip().lower() in ("", *refused.harmless) for part in value.split(",")):
        what = f"{option} asks for {refused.asks_for}, which fusionc does not make"
        raise UsageError(what, where=f"{option}={value}", hint=refused.instead, code="E10001")
    _remember(ctx, parameter, value)
