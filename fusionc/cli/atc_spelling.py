"""Read options as ATC spells them. Ignore or refuse the options of ATC that fusionc lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click

from fusionc.cli.atc_options import IGNORED, REFUSED
from fusionc.cli.peer_options import PEER_OPTIONS
from fusionc.errors import UsageError, choice_text, similar
from fusionc.graph_kernel.flags.flag_table import EFFECTIVE, WITHOUT_EFFECT

_Decorated = TypeVar("_Decorated", bound=Callable[..., object])

_BOOLEANS = {
    **dict.fromkeys(("1", "t", "true", "y", "yes"), True),
    **dict.fromkeys(("0", "f", "false", "n", "no"), False),
}
_MAX_SUGGESTIONS = 3
_IGNORED_KEY = "fusionc.without_effect"  # the key of the ignored options in `ctx.meta`


class AtcCommand(click.Command):
    """A command that accepts ATC's spelling of options: `-model`, `--fusion-switch-file`.

    The values of the options in `positional` may also be given without the names of the options, in
    this order: `in.onnx out.onnx` for --model and --output. If the command has click arguments,
    too, only a word that is the file name of a model is such a value.
    """

    def __init__(self, *args: Any, positional: Sequence[str] = (), **details: Any) -> None:
        super().__init__(*args, **details)
        self.positional = positional

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The words after the command in its usage line."""
        names = [f"[{option.lstrip('-').upper()}]" for option in self.positional]
        return [*super().collect_usage_pieces(ctx), *names]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Respell each option as it is declared, and then parse as click does."""
        if ctx.resilient_parsing:  # an unfinished line, which the shell wants to complete
            return super().parse_args(ctx, args)
        options = [
            parameter for parameter in self.get_params(ctx) if isinstance(parameter, click.Option)
        ]
        line = respell(args, options)
        # An unknown option is reported before surplus words, because a word may be its value.
        if line.unknown:
            what = _hint_for_peer(line.unknown, ctx.info_name) or _hint_for_flag(
                line.unknown, options
            )
            what = what or _unknown_text(line.unknown, options)
            raise click.NoSuchOption(line.unknown, what, ctx=ctx)
        named = self._words_of_options(line.words)
        rest = [word for word in line.words if word not in named]
        placed = self._place(ctx, line, named)
        return super().parse_args(ctx, [*placed, *line.options, "--", *rest])

    def _words_of_options(self, words: Sequence[str]) -> list[str]:
        """The words that are values of positional options."""
        if not self.positional:
            return []
        has_arguments = any(isinstance(p, click.Argument) for p in self.params)
        return [word for word in words if is_model(word) or not has_arguments]

    def _place(self, ctx: click.Context, line: CommandLine, words: Sequence[str]) -> list[str]:
        """Each of the words with its option. Raises click.UsageError if there are too many."""
        free = [] if line.has(self.positional[:1]) else self.positional
        if surplus := words[len(free) :]:
            raise click.UsageError(self._surplus_text(surplus), ctx)
        if line.has(free[1 : len(words)]):
            raise click.UsageError(f"{words[1]} and {free[1]} both name the output.", ctx)
        return [f"{option}={word}" for option, word in zip(free, words, strict=False)]

    def _surplus_text(self, surplus: Sequence[str]) -> str:
        what = f"Got unexpected extra argument ({' '.join(surplus)})"
        takes_many = any(p.opts[0] in self.positional and p.multiple for p in self.params)
        many = "write --model before each model, or a pattern in quotes" if takes_many else ""
        if takes_many and len(surplus) == 1 and surplus[0].isdecimal():  # onnxsim's check_n
            many = "leave it out: every result is verified, on as many inputs as are needed"
        return f"{what}; {many}." if many else f"{what}."


@dataclass
class CommandLine:
    """The words of a command line."""

    options: list[str] = field(default_factory=list)  # as they are declared, each with its value
    words: list[str] = field(default_factory=list)  # the other words
    unknown: str = ""  # the first option that is not declared, as it is typed

    def has(self, names: Sequence[str]) -> bool:
        """Whether one of these options is given."""
        return not {one.partition("=")[0] for one in self.options}.isdisjoint(names)


def _hint_for_peer(typed: str, command: str | None) -> str:
    """What fusionc has instead of an option of onnxsim or onnxslim; "" if `typed` is none."""
    instead = PEER_OPTIONS.get(key_of(typed)) if command == "convert" else None
    return f"No such option '{typed}'; {instead}." if instead else ""


def _hint_for_flag(typed: str, options: Sequence[click.Option]) -> str:
    """How to write a flag of graph kernel fusion. "" if `typed` is not such a flag, or if the
    command does not take flags of graph kernel fusion.
    """
    name = key_of(typed)
    takes_flags = any(option.name == "graph_kernel_flags" for option in options)
    if not takes_flags or name not in (*EFFECTIVE, *WITHOUT_EFFECT):
        return ""
    return f'--{name} is a flag of graph kernel fusion: --graph_kernel_flags "--{name}=..."'


def _unknown_text(typed: str, options: Sequence[click.Option]) -> str:
    """The message that an option does not exist, with the most similar options."""
    names = {key_of(_long_name(option)): _long_name(option) for option in options}
    near = [names[one] for one in similar(key_of(typed), names)[:_MAX_SUGGESTIONS]]
    hint = f"; did you mean {choice_text(near)}?" if near else "."
    return f"No such option '{typed}'{hint}"


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
    if not names:
        return []
    verbs = "is accepted, but has" if len(names) == 1 else "are accepted, but have"
    return [f"{', '.join(names)} {verbs} no effect"]


def respell(args: Sequence[str], options: Sequence[click.Option]) -> CommandLine:
    """A command line with each option spelled as it is declared. Values stay unchanged, even if
    they begin with a dash.
    """
    declared = {
        key_of(name): (_long_name(option), option) for option in options for name in option.opts
    }
    line = CommandLine()
    rest = list(reversed(args))
    while rest:
        arg = rest.pop()
        if arg == "--":
            line.words.extend(reversed(rest))
            break
        if not arg.startswith("-") or arg == "-":
            line.words.append(arg)
            continue
        name, equals, value = arg.partition("=")
        if key_of(name) not in declared:
            line.unknown = line.unknown or name
            continue
        spelling, option = declared[key_of(name)]
        values = [value] if equals else _value_after(option, spelling, rest)
        line.options.append("=".join([spelling, *values]))
    return line


def _long_name(option: click.Option) -> str:
    return next((name for name in option.opts if name.startswith("--")), option.opts[0])


def _value_after(option: click.Option, spelling: str, rest: list[str]) -> list[str]:
    """Take the value of an option from the end of `rest`. Empty if the option has no value."""
    if isinstance(option.flag_value, str):  # the option may also stand alone
        has_value = bool(rest) and rest[-1].lower() in _BOOLEANS
    else:
        has_value = not option.is_flag
    if has_value and not rest:
        raise click.BadOptionUsage(spelling, f"Option {spelling!r} requires an argument.")
    return [rest.pop()] if has_value else []


def key_of(name: str) -> str:
    """The name of an option in one form for all spellings: without leading dashes, with
    underscores. Short forms such as -o have only one spelling.
    """
    return name.lstrip("-").replace("-", "_") if len(name) > 2 else name


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
        where = f"{option}={value}"
        raise UsageError(what, where=where, hint=refused.instead, code="E10001")
    _remember(ctx, parameter, value)
