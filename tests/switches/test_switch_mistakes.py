"""Every mistake in a switch file or in --optimization_switch gets one precise line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fusionc.errors import UsageError
from fusionc.rewrite.definition import Pass
from fusionc.switches import decide


def mistakes_of(registry: Sequence[Pass], file: Path) -> list[str]:
    with pytest.raises(UsageError) as caught:
        decide(registry, switch_file=file)
    error = caught.value
    assert (error.code, error.exit_code) == ("E21002", 2)
    assert str(file) in error.where and error.hint
    first = error.what
    rest = list(error.details)
    if rest:
        assert first == f"{len(rest)} mistakes in the switch file"
    lines = rest or [first]
    assert all(line.startswith(f"{file}:") for line in lines)
    return [line.removeprefix(f"{file}:") for line in lines]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '1:1: the file is empty; the smallest valid file is "{}"'),
        (" \n\t", '1:1: the file is empty; the smallest valid file is "{}"'),
        ('{"Switch": {"GraphFusion": {"ALL": "on"},}', None),
        ('{\n  "Switch" {}\n}', "2:12: not valid JSON: Expecting ':' delimiter"),
        ("[]", '1:1: the file must be an object: {"Switch": {…}}'),
        ("[" * 100_000, None),
        ('{"Switch": []}', '1:12: "Switch" must be an object: {"GraphFusion": {…}, "UBFusion": {…}}'),
        ('{"switch": {}}', '1:2: "switch" is not a key of a switch file; did you mean "Switch"?'),
        ('{"x": {}}', '1:2: "x" is not a key of a switch file; switches belong inside "Switch"'),
        ('{"GraphFusion": {}}', '1:2: "GraphFusion" belongs inside "Switch"'),
        (
            '{"Switch": {"Graphfusion": {}}}',
            '1:13: "Graphfusion" is not a section of "Switch"; did you mean "GraphFusion"?',
        ),
        (
            '{"Switch": {"1": {}}}',
            '1:13: "1" is not a section of "Switch"; allowed are "GraphFusion" and "UBFusion"',
        ),
        ('{"Switch": {"UBFusion": "on"}}', '1:25: "UBFusion" must be an object: {"ALL": "on"}'),
        (
            '{"Switch": {"GraphFusion": {\n\n   "MatmulBiasAddFusionPass" : "off"}}}',
            '3:4: "MatmulBiasAddFusionPass" is not a pass; did you mean "MatMulBiasAddFusionPass"?',
        ),
        (
            '{"Switch": {"GraphFusion": {"Zzz": "off"}}}',
            '1:29: "Zzz" is not a pass; "fusionc passes" lists the names',
        ),
        (
            '{"Switch": {"GraphFusion": {"SoftmaxFusionPas": "off"}}}',
            '1:29: "SoftmaxFusionPas" is not a pass; did you mean "SoftmaxFusionPass"?',
        ),
        (
            '{"Switch": {"GraphFusion": {"PrunePass": "on",\n "PrunePass": "on"}}}',
            '2:2: "PrunePass" is given twice, first in line 1',
        ),
        ('{"Switch": {},\n"Switch": {}}', '2:1: "Switch" is given twice, first in line 1'),
        ("MatMulBiasAddFusionPass:off\nPrunePass:On", '2:1: "PrunePass" is "On"; '
         'allowed are exactly "on" and "off", in lower case'),
        ("\nPrunePass:on\nPrunePass:off", '3:1: "PrunePass" is given twice, first in line 2'),
        ("Prune Pass:on", '1:1: "Prune Pass" is not a pass; did you mean "PrunePass"?'),
        ('"Switch"', '1:1: "\\"Switch\\"" is neither PassName:on nor PassName:off (and JSON begins with {)'),
        (":on", '1:1: ":on" is neither PassName:on nor PassName:off (and JSON begins with {)'),
    ],
)  # fmt: skip
def test_one_mistake(
    registry: Sequence[Pass], tmp_path: Path, text: str, expected: str | None
) -> None:
    file = tmp_path / "cfg.json"
    file.write_text(text)
    (line,) = mistakes_of(registry, file)
    if expected is None:  # the words are Python's and change with its version
        assert "not valid JSON: " in line
    else:
        assert line == expected


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        ('"On"', ", in lower case"),
        ('"OFF"', ", in lower case"),
        ('" on "', ", without blanks"),
        ('""', ""),
        ('"offf"', ""),
        ("true", ", in quotes"),
        ("1", ", in quotes"),
        ("null", ", in quotes"),
        ('{"a": 1}', ", in quotes"),
    ],
)
@pytest.mark.parametrize("key", ["ALL", "PrunePass", "TfMergeSubFusionPass"])
def test_a_value_that_is_not_on_or_off(
    registry: Sequence[Pass], tmp_path: Path, key: str, value: str, detail: str
) -> None:
    file = tmp_path / "cfg.json"
    file.write_text(f'{{"Switch": {{"GraphFusion": {{\n  "{key}":  {value}\n}}}}}}')
    column = len(f'  "{key}":  ') + 1
    assert mistakes_of(registry, file) == [
        f'2:{column}: "{key}" is {value}; allowed are exactly "on" and "off"{detail}'
    ]


def test_all_mistakes_at_once_in_the_order_of_the_file(
    registry: Sequence[Pass], tmp_path: Path
) -> None:
    file = tmp_path / "cfg.json"
    file.write_text(
        '\ufeff{"Swich": {},\r\n "Switch": {"GraphFusion": {\r\n  "Foo": "on",\r\n  "PrunePass": 0,\r\n'
        '  "PrunePass": "on"},\r\n  "UB": {}}}'
    )
    assert mistakes_of(registry, file) == [
        '1:2: "Swich" is not a key of a switch file; did you mean "Switch"?',
        '3:3: "Foo" is not a pass; "fusionc passes" lists the names',
        '4:16: "PrunePass" is 0; allowed are exactly "on" and "off", in quotes',
        '5:3: "PrunePass" is given twice, first in line 4',
        '6:3: "UB" is not a section of "Switch"; allowed are "GraphFusion" and "UBFusion"',
    ]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_file_that_is_not_utf8(registry: Sequence[Pass], tmp_path: Path, mark: bytes) -> None:
    file = tmp_path / "cfg.json"
    file.write_bytes(mark + '{"Switch": {},\n "é'.encode() + b"\xff\xfe}")
    assert mistakes_of(registry, file) == ["2:4: byte 0xff is not UTF-8; save the file as UTF-8"]


def test_a_very_long_name_does_not_fill_the_screen(
    registry: Sequence[Pass], tmp_path: Path
) -> None:
    file = tmp_path / "cfg.json"
    file.write_text("x" * 1_000_000 + ":on")
    (line,) = mistakes_of(registry, file)
    assert line.startswith('1:1: "xxx') and len(line) < 200


@pytest.mark.parametrize(
    ("name", "reason"), [("none.json", "No such file or directory"), (".", "Is a directory")]
)
def test_a_file_that_cannot_be_opened(
    registry: Sequence[Pass], tmp_path: Path, name: str, reason: str
) -> None:
    with pytest.raises(UsageError) as caught:
        decide(registry, switch_file=tmp_path / name)
    assert caught.value.code == "E21001"
    assert str(tmp_path / name) in caught.value.what and reason in caught.value.what


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '"" names no pass'),
        (" ; ", '" ; " names no pass'),
        ("PrunePass", '"PrunePass" is neither PassName:on nor PassName:off'),
        ("PrunePass:On", '"PrunePass" is "On"; allowed are exactly "on" and "off", in lower case'),
        ("PrunePas:on", '"PrunePas" is not a pass; did you mean "PrunePass"?'),
        ("ALL:off", '"ALL" is allowed only in a switch file'),
        ("softmax:on;softmax:on", '"softmax" is given twice'),
        ("TfMergeSubFusionPass:on;TfMergeSubFusionPass:on", '"TfMergeSubFusionPass" is given twice'),
    ],
)  # fmt: skip
def test_one_mistake_in_the_option(registry: Sequence[Pass], text: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        decide(registry, optimization_switch=text)
    assert (caught.value.code, caught.value.exit_code) == ("E10001", 2)
    assert caught.value.what == f"--optimization_switch: {expected}"


def test_all_mistakes_in_the_option_at_once(registry: Sequence[Pass]) -> None:
    with pytest.raises(UsageError) as caught:
        decide(registry, optimization_switch="ALL:on;Foo:on")
    assert [caught.value.what, *caught.value.details] == [
        "2 mistakes in --optimization_switch",
        '--optimization_switch: "ALL" is allowed only in a switch file',
        '--optimization_switch: "Foo" is not a pass; "fusionc passes" lists the names',
    ]


MANY = 100_000


def on_one_line(mistake: Callable[[int], str]) -> str:
    return f'{{"Switch": {{"GraphFusion": {{{", ".join(map(mistake, range(MANY)))}}}}}}}'


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (on_one_line(lambda k: f'"Pas{k}": "on"'), '1:29: "Pas0" is not a pass; '),
        (on_one_line(lambda k: f'"PrunePass{k}": 1'), '1:43: "PrunePass0" is 1; '),
        (
            on_one_line(lambda k: '"P": "on"' if k else '"P": "on", "P": "on"'),
            '1:29: "P" is not a pass; ',
        ),
        (
            "{" + ", ".join(f'"Swich{k}": 1' for k in range(MANY)) + "}",
            '1:2: "Swich0" is not a key of a switch file; ',
        ),
        (
            '{"Switch": {' + ", ".join(f'"UB{k}": 1' for k in range(MANY)) + "}}",
            '1:13: "UB0" is not a section',
        ),
        ("\n".join("P:on" for _ in range(MANY + 1)), '1:1: "P" is not a pass; '),
    ],
    ids=["names", "values", "twice", "keys", "sections", "lines"],
)
def test_many_mistakes_take_linear_time_and_twenty_lines(
    registry: Sequence[Pass], tmp_path: Path, text: str, first: str
) -> None:
    """To look for the place of each from the beginning of the text would take minutes."""
    file = tmp_path / "cfg.json"
    file.write_text(text)
    with pytest.raises(UsageError, match="mistakes in the switch file") as caught:
        decide(registry, switch_file=file)
    shown = str(caught.value).splitlines()
    assert caught.value.details[0].startswith(f"{file}:{first}")
    assert sum(line.startswith(f"  {file}:") for line in shown) == 20
    assert (
        f"  … and {len(caught.value.details) - 20} more" in shown
        and len(caught.value.details) >= MANY
    )
