"""Files that are not valid switch files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hostile_case import Case, options, valid

WORDS = options("--fusion_switch_file", "s.json")


def _file(content: str | bytes) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        valid(folder)
        (folder / "s.json").write_bytes(content if isinstance(content, bytes) else content.encode())

    return make


def _wrong(name: str, content: str | bytes, *says: str) -> Case:
    return Case(f"switches: {name}", _file(content), ("E2", "s.json", *says), 2, WORDS)


def _right(name: str, content: str | bytes, *says: str) -> Case:
    return Case(f"switches: {name}", _file(content), says, 0, WORDS)


def _sections(text: str) -> str:
    return f'{{"Switch": {{"GraphFusion": {text}}}}}'


CASES = [
    _wrong("an empty file", "", "is empty"),
    _wrong("only blanks", " \n\t", "is empty"),
    _wrong("cut off", '{"Switch": {"GraphFusion": {"ALL":', ":1:"),
    _wrong("two objects", "{} {}", "not valid JSON"),
    _wrong("a comma too many", _sections('{"ALL": "on",}'), "not valid JSON"),
    _wrong("single quotes", "{'Switch': {}}", "not valid JSON"),
    _wrong("a comment", "// no\n{}", "JSON has no comments"),
    _wrong("a list", "[]", "must be an object"),
    _wrong("text", '"Switch"'),
    _wrong("a number", "1"),
    _wrong("null", "null"),
    _wrong("NaN for a value", _sections('{"ALL": NaN}'), "ALL"),
    _wrong("a boolean", _sections('{"ALL": true}'), "in quotes"),
    _wrong("a number for a value", _sections('{"ALL": 1}'), "in quotes"),
    _wrong("an enormous number", _sections('{"ALL": ' + "9" * 10_000 + "}"), "not valid JSON"),
    _wrong("capitals", _sections('{"ALL": "ON"}'), "in lower case"),
    _wrong("blanks", _sections('{"ALL": " on"}'), "without blanks"),
    _wrong("null for a section", _sections("null"), "must be an object"),
    _wrong("a list for a section", _sections('["ALL"]'), "must be an object"),
    _wrong("a list for all", '{"Switch": []}', "must be an object"),
    _wrong("an unknown section", '{"Switch": {"Graphfusion": {}}}', "GraphFusion"),
    _wrong("an unknown key", '{"Swich": {}}', "did you mean"),
    _wrong("an unknown pass", _sections('{"IdentityPas": "on"}'), "IdentityPass"),
    _right(
        "an unknown pass with escapes",
        _sections('{"\\u001b[31mP\\r\\nE99999: x\\u2028": "on"}'),
        "\\u001b[31mP",
    ),
    _wrong("a typo with escapes", _sections('{"IdentityPass\\u001b\\n": "on"}'), "Pass\\u001b\\n"),
    _wrong("a value with escapes", _sections('{"ALL": "\\u001b[2J"}'), "\\u001b[2J"),
    _right("half a surrogate", _sections('{"\\ud800": "on"}')),
    _wrong("a key twice", _sections('{"ALL": "on", "ALL": "off"}'), "twice"),
    _wrong("deeply nested", "[" * 100_000 + "]" * 100_000, "not valid JSON"),
    _wrong("deeply nested objects", '{"Switch":' * 5000 + "{}" + "}" * 5000),
    _wrong("UTF-16", '{"Switch": {}}'.encode("utf-16"), "is not UTF-8"),
    _wrong("Latin-1", _sections('{"Fü": "on"}').encode("latin-1"), "is not UTF-8"),
    _wrong("zeros", bytes(100)),
    _right("a NUL in a name", _sections('{"A\\u0000B": "on"}')),
    _right(
        "10,000 unknown passes",
        _sections("{" + ", ".join(f'"P{i}": "on"' for i in range(10_000)) + "}"),
        '"P0"',
        "and 9600 more",
    ),
    _wrong("lines without a value", "IdentityPass\n"),
    _wrong("lines with another value", "IdentityPass:maybe\n"),
    _wrong("lines twice", "IdentityPass:on\nIdentityPass:off\n", "twice"),
    _right("an empty object", "{}"),
    _right("a byte order mark", "\ufeff" + _sections('{"ALL": "off"}')),
    _right("lines of Windows", "IdentityPass:off\r\n"),
    _right("a name of Ascend", _sections('{"TransdataCastFusionPass": "on"}')),
    _right("a million blanks", " " * 1_000_000 + "{}"),
    Case(
        "switches: a folder",
        lambda f: (valid(f), (f / "s.json").mkdir()),
        ("E21001", "s.json"),
        2,
        WORDS,
    ),
    Case("switches: no file", valid, ("E21001", "s.json"), 2, WORDS),
    Case(
        "switches: a loop of links",
        lambda f: (valid(f), (f / "s.json").symlink_to("s.json")),
        ("E21001",),
        2,
        WORDS,
    ),
]
