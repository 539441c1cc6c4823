"""A hostile input or fault: how to make it, what to run, and the expected outcome: a single block of
text, or a result.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness import parse
from onnx import ModelProto

SIMPLE = "agraph (float[N] x) => (float[N] y) <float[1] w = {2.0}> { a = Mul (x, w)\n i = Identity (a)\n y = Relu (i) }"
CONVERT = ("convert", "--model", "m.onnx", "--output", "o.onnx")
UNVERIFIED = 4  # the exit code if nothing of a result could be verified
RESULT = (0, UNVERIFIED)  # the exit codes with which a result is written
_UNVERIFIED_LINE = re.compile(r"NOT VERIFIED: .+\n")
_BLOCK = re.compile(r"E\d{5}: .+\n(  \S.*\n)*?  where: .+\n  to do: .+\n")
_USAGE = re.compile(r"Usage: fusionc .+\n(Try .+\n)?\nError: .+\n")
# all control characters except line feed and tab
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True)
class Case:
    """`make` puts the input into an empty folder, and `fusionc` runs there with `words`.

    With exit code 0, and with exit code 4 for a result that could not be verified, the output
    contains `says`. New files must be in `writes`, and o.onnx must be one of them. With any other
    exit code the output is exactly one block of text that contains `says`, and the folder is
    unchanged.
    """

    name: str
    make: Callable[[Path], object]
    says: tuple[str, ...] = ()
    exit_code: int = 1
    words: tuple[str, ...] = CONVERT
    environment: Mapping[str, str] = field(default_factory=dict)
    writes: tuple[str, ...] = ("o.onnx", "fusion_result.json")


def model(
    change: Callable[[ModelProto], object], text: str = SIMPLE, *, opset: int = 18
) -> Callable[[Path], object]:
    """Makes m.onnx: a small valid model that `change` modifies. If `change` returns bytes, these are
    written instead.
    """

    def make(folder: Path) -> None:
        proto = parse(text, opset)
        changed = change(proto)
        (folder / "m.onnx").write_bytes(
            changed if isinstance(changed, bytes) else proto.SerializeToString()
        )

    return make


def valid(folder: Path) -> None:
    """Makes a valid m.onnx."""
    (folder / "m.onnx").write_bytes(parse(SIMPLE).SerializeToString())


def options(*words: str) -> tuple[str, ...]:
    """A conversion with more options."""
    return (*CONVERT, *words)


def contents(folder: Path) -> dict[str, object]:
    """The contents of a folder: the bytes of files, the targets of links, the mode of everything
    else.
    """
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = os.fsencode(path.relative_to(folder)).decode(errors="replace")
        found[name] = (
            os.readlink(path)
            if path.is_symlink()
            else path.read_bytes()
            if path.is_file()
            else path.stat().st_mode
        )
    return found


def assert_outcome(
    case: Case, folder: Path, before: dict[str, object], exit_code: int, stdout: str, stderr: str
) -> None:
    """Assert everything that must hold in every case."""
    text = f"exit code {exit_code}\n{stdout}{stderr}"
    assert exit_code == case.exit_code, text
    assert _is_clean(stdout + stderr), text
    assert case.exit_code == 3 or "report" not in stderr, text  # only the input is to blame
    assert _is_expected_error(stderr, case.exit_code), text
    after = contents(folder)
    if case.exit_code in RESULT:
        assert after.keys() - before.keys() <= {*case.writes} and "o.onnx" in after, text
        after = {name: content for name, content in after.items() if name in before}
    assert after == before, text
    said = stdout + stderr if case.exit_code in RESULT else stderr
    assert all(words in said for words in case.says), text


def _is_clean(text: str) -> bool:
    """Whether a text neither mentions a defect nor contains control characters."""
    defects = ("Traceback", "Internal Error", "defect of fusionc")
    return not any(words in text for words in defects) and not _CONTROL.search(text)


def _is_expected_error(text: str, exit_code: int) -> bool:
    """Whether a text is one block, or nothing for exit code 0."""
    if exit_code == 0:
        return not text
    if exit_code == UNVERIFIED:
        return bool(_UNVERIFIED_LINE.fullmatch(text))
    if exit_code == 130:
        return text == "fusionc: interrupted\n"
    return bool(_BLOCK.fullmatch(text) or _USAGE.fullmatch(text))
