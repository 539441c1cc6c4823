"""A hostile input or fault: how to make it, what to run, and the one block or the result that must
come of it.
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
_BLOCK = re.compile(r"E\d{5}: .+\n(  \S.*\n)*?  where: .+\n  to do: .+\n")
_USAGE = re.compile(r"Usage: fusionc .+\n(Try .+\n)?\nError: .+\n")
# what is no line feed and no tab
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True)
class Case:
    """`make` puts the input into an empty folder, where `fusionc` runs with `words`.

    With exit code 0 `says` is in the output, and of `writes` o.onnx at least is new. With another
    one there is exactly one block that holds `says`, and the folder is as it was.
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
    """Makes m.onnx: a small valid model, and what `change` does to it, which may return other
    bytes.
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
    """What lies in a folder: the bytes of files, the targets of links, the kind of everything
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
    """Everything that holds of every case."""
    text = f"exit code {exit_code}\n{stdout}{stderr}"
    assert exit_code == case.exit_code, text
    assert (
        "Traceback" not in text and "Internal Error" not in text and "defect of fusionc" not in text
    ), text
    assert case.exit_code == 3 or "report" not in stderr, text  # nobody is to blame but the input
    assert not _CONTROL.search(stdout + stderr), text
    after = contents(folder)
    said = stderr
    if case.exit_code == 0:
        assert not stderr, text
        assert after.keys() - before.keys() <= {*case.writes} and "o.onnx" in after, text
        after = {name: content for name, content in after.items() if name in before}
        said = stdout
    elif case.exit_code == 130:
        assert stderr == "fusionc: interrupted\n", text
    else:
        assert _BLOCK.fullmatch(stderr) or _USAGE.fullmatch(stderr), text
    assert after == before, text
    for words in case.says:
        assert words in said, text
