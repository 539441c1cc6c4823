"""`fusionc why`: explain why a pass does not fire."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fusionc.cli.atc_spelling import AtcCommand
from fusionc.cli.conversion_options import conversion_arguments, conversion_options
from fusionc.cli.files import FilePath
from fusionc.cli.signals import hold_signals
from fusionc.cli.table_options import click_option
from fusionc.options.option import OptionGroup

if TYPE_CHECKING:
    from fusionc.why.dequantizations import Dequantization
    from fusionc.why.nearest import Reason
    from fusionc.why.pass_answer import PassAnswer
    from fusionc.why.why_story import Answer, ExpectedAnswer

_Item = TypeVar("_Item")
_MAX_ITEMS = 5  # at most this many names are shown in a line, and this many places for a pass
_AREA_NOTE = (
    "the node comes from graph kernel fusion: also give --enable_graph_kernel and the flags of the "
    "conversion that made it"
)
_DEQUANTIZE = "DequantizeLinear"  # may be given instead of the name of a pass
# the lines that are shown if the answer is empty
_OF_EXPECTED = ("expected", "the other optimizer fused nothing more")
_OF_DEQUANTIZE = ("stays", "the converted model has no DequantizeLinear")
_EPILOG = """\b
Exit codes:
  0  answered
  1  the conversion failed
  2  an option or the switch file is wrong, or a pass, node or file does not exist"""


@click.command(
    cls=AtcCommand,
    epilog=_EPILOG,
    positional=("--model",),
    short_help="Say why a pass does not fire.",
)
@click.argument("pass_name", metavar="[PASS]", required=False)
@click_option("source", "The ONNX model.", required=True, is_eager=True)
@click.option("--node", metavar="NAME", help="Only places that this node of the model is part of.")
@click.option(
    "--expected",
    type=FilePath(),
    metavar="FILE",
    help="The result of another optimizer for this model. If this result has a fused operator that "
    "the conversion does not produce, say why PASS, or each pass that makes such operators, does "
    "not fire.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="All results as JSON on stdout, every place by name."
)
@conversion_options(OptionGroup.PASSES, OptionGroup.REQUEST, OptionGroup.KERNELS)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    pass_name: str | None,
    model: Path,
    node: str | None,
    expected: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Convert a model without writing the result. Say where PASS fires, where it is refused and
    why, where another pass came first, and where PASS nearly fires. For each place where it nearly
    fires (a near miss), name the first condition that does not hold. The nearest misses come first.

    PASS may also be an alias of one or more passes. A pass that is off is treated as if it were
    on. A place where only the first operator of a pattern fits is a far miss; far misses are shown
    only if the pass has no near misses. If PASS is DequantizeLinear, the answer says why each
    DequantizeLinear of the result stays, and which passes refuse to take it.
    """
    if pass_name is None and expected is None:
        example = shlex.join(["fusionc", "why", "GeluFusionPass", "--model", str(model)])
        what = (
            "Give the name of a PASS, or an optimized model with --expected; for example: "
            f"{example} (fusionc convert shows which passes were refused)."
        )
        raise click.UsageError(what, ctx)
    arguments = conversion_arguments(ctx, given)
    from fusionc.runtime.process import start

    start()  # the child process starts while this process imports modules
    with hold_signals():
        from fusionc.api import why
    from fusionc.report.progress import Progress

    with Progress() as progress:
        answer = why(model, pass_name, node=node, expected=expected, progress=progress, **arguments)
    if as_json:
        click.echo(json.dumps(answer.as_json(), indent=2, ensure_ascii=False))
    else:
        _show(answer, _OF_DEQUANTIZE if pass_name == _DEQUANTIZE else _OF_EXPECTED)


def _show(answer: Answer, nothing: tuple[str, str]) -> None:
    from fusionc.report.table import show_facts

    facts = [("node", text) for text in answer.node]
    for one in answer.passes:
        facts += _facts(one)
    for expected in answer.expected:
        facts += _expected_facts(expected)
    facts += _dequantize_facts(answer.dequantizations)
    show_facts(facts or [nothing], sys.stdout)


def _facts(one: PassAnswer) -> Iterator[tuple[str, str]]:
    from fusionc.report.rewrite_text import described
    from fusionc.why.first_reason import strip_names

    yield "pass", f"{one.name}: {one.state}"
    for commit, *alike in _group_by(one.fired, lambda commit: (commit.pattern, commit.graph_id)):
        yield "fired", f"{described(commit)}{_similar_places(len(alike))}"
    taken = _group_by(
        one.taken, lambda taken: (taken.pattern, taken.by.pass_name, strip_names(taken.reason))
    )
    for first, *more in taken[:_MAX_ITEMS]:
        what = f"{first.reason}; then" if first.reason else f"{', '.join(first.nodes)}:"
        yield "taken", f"{what} {described(first.by)} took it{_similar_places(len(more))}"
    for reason in one.reasons[:_MAX_ITEMS]:
        yield _kind(reason), _text(reason)
    if further := one.reasons[_MAX_ITEMS:]:
        places = sum(1 + len(reason.more) for reason in further)
        yield "more", f"{places} more places, for {len(further)} other reasons: --json shows them"
    yield from (("note", note) for note in one.notes)


def _dequantize_facts(stays: Sequence[Dequantization]) -> Iterator[tuple[str, str]]:
    from fusionc.why.first_reason import strip_names

    for first, *more in _group_by(
        stays, lambda one: (strip_names(one.reason), *map(strip_names, one.refused))
    ):
        kind = "in a group" if first.is_in_group else "stays"
        yield kind, f"{first.node}: {first.reason}{_similar_places(len(more))}"
        yield from (("refused", reason) for reason in first.refused)


def _expected_facts(one: ExpectedAnswer) -> Iterator[tuple[str, str]]:
    operator = one.operator
    made_of = f"; the other made it from {_names(operator.nodes)}" if operator.nodes else ""
    made_of += f", which {_names(one.taken_by)} took in fusionc" if one.taken_by else ""
    yield (
        "expected",
        f"{operator.operator}: {operator.expected} there, {operator.converted} here{made_of}",
    )
    if not one.passes:
        yield (
            "note",
            _AREA_NOTE
            if operator.is_area
            else f"no pass that makes {operator.operator} nearly fires there",
        )
    for answer in one.passes:
        yield from _facts(answer)


def _kind(reason: Reason) -> str:
    if reason.is_match:
        return "would fire" if reason.would_fire else "refused"
    return "near miss" if reason.is_near else "far miss"


def _text(reason: Reason) -> str:
    begin = "" if reason.text.startswith(reason.root) else f" at {reason.root}"
    graph = f" in graph {reason.graph_id}" if reason.graph_id else ""
    where = f"pattern {reason.pattern}{begin}{graph}"
    fitting = "" if reason.is_match else f", {reason.fitting} of {reason.size} operators fit"
    others = f", the first of {reason.unfit} things that do not" if reason.unfit > 1 else ""
    names = f": {_names(reason.more)}" if reason.more else ""
    return f"{reason.text} ({where}{fitting}{others}){_similar_places(len(reason.more))}{names}"


def _group_by(items: Sequence[_Item], key: Callable[[_Item], object]) -> list[list[_Item]]:
    groups: dict[object, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def _names(names: Sequence[str]) -> str:
    return ", ".join([*names[:_MAX_ITEMS], *(["…"] if names[_MAX_ITEMS:] else [])])


def _similar_places(count: int) -> str:
    return f"; {count} more like this" if count else ""
