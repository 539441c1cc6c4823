"""The options of commands that convert models. Each command chooses groups of options from the
table in fusionc/options/option_table.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

from fusionc.cli.table_options import Decorated, alias_options, click_option
from fusionc.options import OPTIONS
from fusionc.options.option import OptionGroup

_Decorator = Callable[[Decorated], Decorated]
_JIT_LEVEL = click.option(
    "--jit_level",
    type=click.Choice(["O0", "O1", "O2"]),
    default="O0",
    show_default=True,
    help="O1 is MindSpore's word for --enable_graph_kernel.",
)
_SINGLE_SWITCHES = tuple(
    click.option(
        f"--{word}",
        multiple=True,
        metavar="PASS",
        help=f"Switch {value} this pass, as --optimization_switch PASS:{value} does. May be given "
        "several times.",
    )
    for word, value in (("enable", "on"), ("disable", "off"))
)
# the options of `tune` and `bisect`, which convert many times; `convert` has these, too
SEARCH = (
    OptionGroup.PASSES,
    OptionGroup.REQUEST,
    OptionGroup.STORAGE,
    OptionGroup.VERIFICATION,
    OptionGroup.KERNELS,
)
CONVERSION = (*SEARCH, OptionGroup.VERDICT, OptionGroup.RECORDS)


def conversion_options(*groups: OptionGroup) -> Callable[[Decorated], Decorated]:
    """A decorator that adds the options of these groups, and --log."""

    def decorate(command: Decorated) -> Decorated:
        for option in reversed([*_options(groups)]):
            command = option(command)
        return command

    return decorate


def _options(groups: tuple[OptionGroup, ...]) -> Iterator[_Decorator[Any]]:
    for name, option in OPTIONS.items():
        if option.flag is not None and (option.group in groups or name == "log"):
            yield click_option(name)
            yield from alias_options(name)
            if name == "graph_kernel_flags":
                yield _JIT_LEVEL
            if name == "optimization_switch":
                yield from _SINGLE_SWITCHES


def conversion_arguments(ctx: click.Context, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `fusionc.convert` for these values of the command line. The values of an
    alias are merged into the option that it stands for.
    """
    arguments = dict(given)
    switches = [
        arguments["optimization_switch"],
        *(f"{name}:on" for name in arguments.pop("enable")),
        *(f"{name}:off" for name in arguments.pop("disable")),
    ]
    if len(switches) > 1:
        arguments["optimization_switch"] = ";".join(filter(None, switches))
    for option in OPTIONS.values():
        for alias in option.aliases:
            values = arguments[option.name]
            others = arguments.pop(alias.lstrip("-"))
            if twice := sorted(values.keys() & others.keys()):
                names = f"{option.flag} and {alias} both name {', '.join(twice)}"
                raise click.UsageError(f"{names}.", ctx)
            arguments[option.name] = {**values, **others} or None
    if arguments.pop("jit_level") == "O1" and arguments["enable_graph_kernel"] is None:
        arguments["enable_graph_kernel"] = True
    return arguments
