"""Every mistake in a switch file or in --optimization_switch gets one precise line."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fusionc.errors import UsageError
from fusionc.passes import PASSES
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
            '{"Switch": {"GraphFusion": {"sftmx": "off"}}}',
            '1:29: "sftmx" is not a pass; did you mean "softmax"?',
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
        '\ufeff{"Swich": {},\r\n "Switch": {"GraphFusion": {\r\n  "PrunPas": "on",\r\n  "PrunePass": 0,\r\n'
        '  "PrunePass": "on"},\r\n  "UB": {}}}'
    )
    assert mistakes_of(registry, file) == [
        '1:2: "Swich" is not a key of a switch file; did you mean "Switch"?',
        '3:3: "PrunPas" is not a pass; did you mean "PrunePass"?',
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
    file.write_text("x" * 1_000_000 + ":On")
    (line,) = mistakes_of(registry, file)
    assert line.startswith('1:1: "xxx') and len(line) < 200
    file.write_text("x" * 1_000_000 + ":on")
    (notice,) = decide(registry, switch_file=file).notices
    assert notice.startswith('ignored, because no pass has such a name: "xxx')
    assert len(notice) < 200


@pytest.mark.parametrize(
    "name",
    [
        "PrunePas", "PruneePass", "PrunexPass", "PrnePas", "prunepass", "PURNEPASS", "unePass",
        "PrunePass12", "xxPrunePass", "softmaxed", "SOFTMX", "MatmulBiasAddFusionPass",
        "MatMulBiasAddFusionPss", "TbeConv2DRelu3Pass",
    ],
)  # fmt: skip
def test_a_name_within_two_letters_of_one_of_ours_is_a_typo(
    registry: Sequence[Pass], tmp_path: Path, name: str
) -> None:
    file = tmp_path / "cfg.json"
    file.write_text(f'{{"Switch": {{"GraphFusion": {{"{name}": "on"}}}}}}')
    (line,) = mistakes_of(registry, file)
    assert line.startswith(f'1:29: "{name}" is not a pass; did you mean "')


@pytest.mark.parametrize(
    "name",
    [
        "Foo", "P", "PrunePass123", "xxxPrunePass", "nePass", "PuneePas", "esaPenurP",
        "SoftmaxExpFusionPass", "AddFusionPass2", "Überprüfung", "A:B", "a\"b",
    ],
)  # fmt: skip
def test_a_far_name_in_a_file_is_ignored_and_told_once(
    registry: Sequence[Pass], tmp_path: Path, name: str
) -> None:
    """CANN ignores names that it does not know. In the option, each is a mistake."""
    file = tmp_path / "cfg.json"
    section = {name: "off", "SubFusionPass": "on"}
    file.write_text(json.dumps({"Switch": {"GraphFusion": section, "UBFusion": {name: "on"}}}))
    switches = decide(registry, switch_file=file)
    shown = json.dumps(name, ensure_ascii=False)
    assert switches.notices == (f"ignored, because no pass has such a name: {shown}",)
    file.write_text('{"Switch": {"GraphFusion": {"SubFusionPass": "on"}}}')
    assert switches.enabled == decide(registry, switch_file=file).enabled
    with pytest.raises(UsageError):
        decide(registry, switch_file=file, optimization_switch=f"{name}:off")


def test_a_name_of_cann_is_no_typo(registry: Sequence[Pass], tmp_path: Path) -> None:
    """MatMulBiasAddFusionPass is not the only pass that ends like this."""
    registry = [*registry, next(p for p in PASSES if p.name == "ZConcatv2dFusionPass")]
    file = tmp_path / "cfg.json"
    file.write_text("ZConcatDFusionPass:off\nSoftmaxGradFusion:on\nSubFusionPassX1Y:on")
    assert decide(registry, switch_file=file).notices == (
        "only for Ascend chips, no effect in fusionc: ZConcatDFusionPass, SoftmaxGradFusion",
        'ignored, because no pass has such a name: "SubFusionPassX1Y"',
    )


@pytest.mark.parametrize("form", ["Pas{}FusionPass", "PruneP{}ass", "{}", "TbeConv{}FusionPass"])
def test_many_unknown_names_take_linear_time_and_a_short_notice(
    registry: Sequence[Pass], tmp_path: Path, form: str
) -> None:
    file = tmp_path / "cfg.json"
    file.write_text("\n".join(form.format(k) + ":on" for k in range(1000, 31_000)))
    (notice,) = decide(registry, switch_file=file).notices
    assert notice.endswith(" and 29600 more") and len(notice) < 20_000


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


MANY = 60_000


def on_one_line(mistake: Callable[[int], str]) -> str:
    return f'{{"Switch": {{"GraphFusion": {{{", ".join(map(mistake, range(MANY)))}}}}}}}'


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (
            on_one_line(
                lambda k: f'"Prune{chr(0x4E00 + k // 400)}{chr(0x4E00 + k % 400)}ss": "on"'
            ),
            '1:29: "Prune\u4e00\u4e00ss" is not a pass; ',
        ),
        (on_one_line(lambda k: f'"PrunePass{k}": 1'), '1:43: "PrunePass0" is 1; '),
        (
            on_one_line(lambda k: '"P": "on"' if k else '"P": "on", "P": "on"'),
            '1:40: "P" is given twice, first in line 1',
        ),
        (
            "{" + ", ".join(f'"Swich{k}": 1' for k in range(MANY)) + "}",
            '1:2: "Swich0" is not a key of a switch file; ',
        ),
        (
            '{"Switch": {' + ", ".join(f'"UB{k}": 1' for k in range(MANY)) + "}}",
            '1:13: "UB0" is not a section',
        ),
        ("\n".join("P:on" for _ in range(MANY + 1)), '2:1: "P" is given twice, first in line 1'),
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
