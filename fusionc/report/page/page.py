"""The text of the page: the data for the template. The template escapes all text, because names of
nodes may contain markup.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import metadata
from importlib.resources import files
from itertools import groupby
from typing import Any

from fusionc.errors import printable
from fusionc.report.page.drawing import svg
from fusionc.report.page.graph_map import GraphMap
from fusionc.report.page.measured_times import MeasuredTimes
from fusionc.report.page.rewrites import Alike
from fusionc.report.page.sketch import VALUE, Sketch
from fusionc.report.report import NOT_VERIFIED, PassTotal, Report
from fusionc.report.table import OUTPUT_HEADERS, output_rows, percent_text, size_text
from fusionc.rewrite.definition import Pass
from fusionc.version import __version__

_MAX_DRAWINGS = 900_000  # characters of drawings; a larger page opens slowly
_MAX_NAMES = 500_000  # characters of names of nodes
_MAX_PLACES = 200  # listed for each group of similar rewrites
_MARKUP_OF_PLACE = 48  # characters of markup for each listed place
_COLUMN_WIDTH = 430  # pixels; wider drawings span both columns
_MIN_NOISE = 0.03  # smaller relative changes of a time count as noise


def page_text(
    report: Report,
    passes: Sequence[Pass],
    groups: Sequence[Alike],
    times: MeasuredTimes,
    failure: str = "",
    maps: tuple[GraphMap, GraphMap] | None = None,
) -> str:
    """The text of the page about one conversion. `groups` are the groups of similar rewrites; on
    the page, groups of routine passes, which only clean up, come last. `failure` is the error if
    the result is wrong. `maps` are the maps of the model and of the result.
    """
    from jinja2 import Environment, StrictUndefined  # an extra, as `require_packages` says

    groups = sorted(groups, key=lambda group: _is_routine(group.pass_))
    script = _file("search.js")
    known = {p.name: p for p in passes} | {group.pass_.name: group.pass_ for group in groups}
    template = Environment(
        autoescape=True,
        finalize=_printable_text,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).from_string(_file("page.html"))
    return template.render(
        report=report,
        model="" if report.model is None else report.model.name,
        output="" if report.output is None else report.output.name,
        failure=failure.splitlines(),
        version=__version__,
        libraries=", ".join(f"{name} {metadata.version(name)}" for name in ("onnx", "onnxruntime")),
        script=script,
        script_hash=f"sha256-{b64encode(sha256(script.encode()).digest()).decode()}",
        cards=list(_cards(report, times)),
        is_judged=not (report.verification or "").startswith((NOT_VERIFIED, "verified in part")),
        output_columns=[_Column(name.lstrip(">"), name.startswith(">")) for name in OUTPUT_HEADERS],
        output_rows=output_rows(report.outputs),
        passes=_pass_rows(report, known, groups),
        idle=[total.name for total in report.passes() if not total.matched],
        forms=list(_forms(groups)),
        routine=sum(_is_routine(group.pass_) for group in groups),
        maps=maps,
        operators=_operator_rows(report),
        times=times,
        time_rows=_time_rows(times),
        milliseconds=_milliseconds,
    )


def _is_routine(pass_: Pass) -> bool:
    """Whether a pass only cleans up, which it does in almost every model."""
    return type(pass_).__module__.startswith("fusionc.passes.cleanup.")


def _file(name: str) -> str:
    return (files("fusionc.report.page") / name).read_text(encoding="utf-8")


def _printable_text(value: Any) -> Any:
    """The value as the template shows it: text without control characters."""
    return printable(value) if type(value) is str else value


@dataclass(frozen=True)
class _Column:
    header: str
    is_number: bool


@dataclass(frozen=True)
class _Card:
    """A number at the top of the page."""

    title: str
    values: tuple[str, ...]  # one value, or the values before and after
    note: str
    tone: str = ""  # the style of the note: "down" for an improvement, "up" for the opposite


def _cards(report: Report, times: MeasuredTimes) -> Iterator[_Card]:
    nodes = (report.nodes_before, report.nodes_after)
    sizes = (report.bytes_before, report.bytes_after)
    yield _Card("Nodes", tuple(f"{count:,}" for count in nodes), *_change(*nodes))
    if times.before is not None and times.after is not None:
        seconds = (times.before.seconds, times.after.seconds)
        values = (_milliseconds(seconds[0]), f"{_milliseconds(seconds[1])} ms")
        noise = max(_MIN_NOISE, times.noise)
        yield _Card("One run in onnxruntime", values, *_speed(*seconds, noise))
    if sizes[1]:
        yield _Card("Size on disk", tuple(map(size_text, sizes)), *_change(*sizes))
    busy = sum(total.effected > 0 for total in report.passes())
    note = f"by {busy} of {len(report.passes())} passes"
    yield _Card("Rewrites", (f"{report.effected:,}",), note)


def _change(before: int, after: int) -> tuple[str, str]:
    """A note on a change, and its tone."""
    if not before or before == after:
        return "as before", ""
    return percent_text(before, after), "down" if after < before else "up"


def _speed(before: float, after: float, noise: float) -> tuple[str, str]:
    """A note on two times, and its tone."""
    if abs(before - after) <= noise * min(before, after):
        return f"no difference beyond noise, which is {100 * noise:.0f} % here", ""
    if before > after:
        return f"{before / after:.2f} times as fast", "down"
    return f"takes {after / before:.2f} times as long", "up"


def _milliseconds(seconds: float) -> str:
    value = seconds * 1000
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:,.0f}"


@dataclass(frozen=True)
class _PassRow:
    total: PassTotal
    summary: str
    form: int | None  # the number of its first group of similar rewrites


def _pass_rows(
    report: Report, known: Mapping[str, Pass], groups: Sequence[Alike]
) -> list[_PassRow]:
    first = {group.pass_.name: at for at, group in reversed(list(enumerate(groups)))}
    return [
        _PassRow(
            total,
            known[total.name].summary if total.name in known else "",
            first.get(total.name),
        )
        for total in report.passes()
        if total.matched
    ]


@dataclass(frozen=True)
class _Form:
    """A group of similar rewrites, as the page shows it."""

    group: Alike
    numbers: str  # the numbers of the rewrites
    before: str  # the names of the operators before
    after: str  # the names of the operators after
    drawings: tuple[str, ...]  # SVG before and after; empty if the page has too many drawings
    is_wide: bool  # whether the drawings span both columns
    places: list[tuple[int, str]]  # the number of each rewrite, and the names of its nodes
    more: int | None  # the number of places that are left out; None if all are left out


def _forms(groups: Sequence[Alike]) -> Iterator[_Form]:
    """The groups as the page shows them. When the page has reached its size limits, further groups
    have no drawings and no places.
    """
    drawn = named = 0
    for group in groups:
        before = _operators_of(group.before)
        after = _operators_of(group.after)
        drawings: tuple[str, ...] = ()
        width = 0.0
        if drawn < _MAX_DRAWINGS:
            one, one_width = svg(group.before, f"before: {before}")
            other, other_width = svg(group.after, f"after: {after}")
            drawings = (one, other)
            width = one_width + other_width
            drawn += len(one) + len(other)
        has_places = named < _MAX_NAMES
        places = list(_places(group)) if has_places else []
        named += sum(len(names) + _MARKUP_OF_PLACE for _, names in places)
        yield _Form(
            group,
            _numbers(group),
            before,
            after,
            drawings,
            is_wide=width > _COLUMN_WIDTH,
            places=places,
            more=len(group.commits) - len(places) if has_places else None,
        )


def _operators_of(sketch: Sketch) -> str:
    return ", ".join(item.text for item in sketch.items if item.kind != VALUE) or "nothing"


def _numbers(group: Alike) -> str:
    """The numbers of the rewrites, with consecutive numbers as 3–7."""
    runs = []
    for _, run in groupby(
        enumerate(commit.number for commit in group.commits), lambda pair: pair[1] - pair[0]
    ):
        numbers = [number for _, number in run]
        runs.append(f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]}–{numbers[-1]}")
    return ", ".join(runs[:6]) + (f" and {len(runs) - 6} more" if len(runs) > 6 else "")


def _places(group: Alike) -> Iterator[tuple[int, str]]:
    for commit, nodes in list(zip(group.commits, group.new_nodes, strict=True))[:_MAX_PLACES]:
        before = ", ".join(commit.nodes) or "nothing"
        after = ", ".join(node.label() for node in nodes) or "nothing"
        yield commit.number, f"{before} → {after}"


@dataclass(frozen=True)
class _BarRow:
    """An operator with two bars: before and after."""

    name: str
    counts: tuple[float, float]
    values: tuple[float, float]  # the values of the bars
    most: float  # the value of a full bar

    @property
    def widths(self) -> tuple[float, float]:
        """The widths of the bars, in percent."""
        before, after = self.values
        return (100 * before / self.most, 100 * after / self.most) if self.most else (0.0, 0.0)


def _operator_rows(report: Report) -> list[_BarRow]:
    names = report.operators_before.keys() | report.operators_after.keys()
    counts = {
        name: (report.operators_before.get(name, 0), report.operators_after.get(name, 0))
        for name in names
    }
    most = max([1, *map(max, counts.values())])
    order = sorted(names, key=lambda name: (-max(counts[name]), name))
    return [_BarRow(name, counts[name], counts[name], most) for name in order]


def _time_rows(times: MeasuredTimes) -> list[_BarRow]:
    """The operators of both models, sorted by their time, and then the time between operators."""
    if times.before is None or times.after is None:
        return []
    nothing = (0.0, 0.0)
    before = times.before.operators
    after = times.after.operators
    rows = []
    for name in {**before, **after}:
        counts, seconds = zip(before.get(name, nothing), after.get(name, nothing), strict=True)
        rows.append((name, counts, seconds))
    rows.sort(key=lambda row: max(row[2]), reverse=True)
    rows.append(("", nothing, (times.before.between, times.after.between)))
    most = max(max(seconds) for _, _, seconds in rows)
    return [_BarRow(*row, most) for row in rows]
